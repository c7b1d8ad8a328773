"""Settings of recipes that fine-tune a pre-trained encoder with a head."""

import dataclasses

import keras

from keras_headattn.models import Bert
from keras_headattn.optimizers import AdamWeightDecay
from recipes.engine.config import option, settings
from recipes.engine.lora import Lora
from recipes.engine.pretrained import run_settings
from recipes.engine.settings import Serving, Settings, model_arguments, optimizer_arguments

OF_ATTENTION = ("attention", "attention_arguments", "num_heads")


def head_arguments(head):
    """Returns the setting of the arguments of a `Bert` and of the class of its head."""
    return model_arguments(head, Bert, dropout=0.1, attention_dropout=0.1)


@settings()
class Encoder:
    """The encoder."""

    title = "model"

    checkpoint: str | None = option(
        None,
        "folder of a pre-trained model: Hugging Face's, a preset of KerasHub's, a run of recipes.pretrain or of a "
        "recipe that fine-tunes",
        metavar="FOLDER",
    )
    checkpoint_weights: bool = option(
        True, "--no-checkpoint-weights: its sizes and its tokenizer, with random weights, to compare with"
    )
    size: str | None = option(None, "a model of random weights in place of a checkpoint, such as bert_tiny")
    vocabulary_size: int = option(8_000, "most pieces that a model without a checkpoint learns", at_least=64)
    max_length: int = option(128, "pieces of a text or of a pair; of a pair the longer text is cut first", at_least=8)


@settings(
    epochs=option(3, "passes over the data; the learning rate is 0 after the last one", at_least=1),
    patience=None,
    learning_rate=2e-5,
)
class FineTuning(Encoder, Lora, Settings, Serving):
    """An encoder and its optimizer.

    The defaults are those of BERT's fine-tuning (Devlin et al. 2019, appendix A.3), with a batch of 32. A subclass
    has `model_arguments`, made by `head_arguments`.
    """

    title = "training"
    SIZE_OPTIONS = ("size",)
    PRETRAINED = ("checkpoint",)

    optimizer: str = option(
        "adamw",
        "electra: that of its program, without correction of Adam's averages, with decay during warm-up too, and with "
        "the sum of a batch's losses",
        ("adamw", "electra"),
    )
    layer_decay: float | None = option(
        None, "electra: factor of the rate from layer to layer, from the head down; none: one rate", above=0, at_most=1
    )
    warmup_share: float = option(0.1, "share of the steps with linear warm-up; then linear decay", at_least=0, below=1)
    optimizer_arguments: dict = optimizer_arguments(
        {
            "adamw": [keras.optimizers.AdamW],
            "electra": [AdamWeightDecay, keras.optimizers.Optimizer],
        },
        global_clipnorm=1.0,
        weight_decay=0.01,  # biases and norms have none
        epsilon=1e-8,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.checkpoint and self.size:
            raise ValueError(f"Give one of --checkpoint and --size. Received: {self.checkpoint!r} and {self.size!r}")
        if self.layer_decay is not None and self.optimizer != "electra":
            raise ValueError(
                f"--layer-decay needs --optimizer electra. Received: {self.layer_decay} with {self.optimizer!r}"
            )

    def changed(self, given):
        """Returns these settings with others in their place.

        A checkpoint takes the place of a size. That of a run brings its attention.
        """
        if given.get("checkpoint"):
            run = run_settings(given["checkpoint"]) or {}
            attention = {} if "attention" in given else {name: run[name] for name in OF_ATTENTION if name in run}
            if attention:
                self = dataclasses.replace(self, attention_arguments={})
            given = {"size": None} | attention | given
        elif given.get("size"):
            given = {"checkpoint": None} | given
        return super().changed(given)

    @property
    def description(self):
        return f"{super().description}, {self.checkpoint or self.size}"

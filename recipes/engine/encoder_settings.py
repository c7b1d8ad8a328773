"""Settings of recipes that fine-tune a pre-trained encoder with a head."""

import dataclasses

import keras

from keras_headattn.models import Bert, ModernBert
from keras_headattn.optimizers import AdamWeightDecay
from recipes.engine.config import option, settings
from recipes.engine.encoders import encoder_shape, run_settings
from recipes.engine.lora import Lora
from recipes.engine.settings import Serving, Settings, model_arguments, optimizer_arguments

OF_ATTENTION = ("attention", "attention_arguments", "num_heads")


def head_arguments(head):
    """Returns the setting of the arguments of an encoder and of the class of its head."""
    return model_arguments(head, Bert, ModernBert, dropout=0.1, attention_dropout=0.1)


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
        True, "use the weights of the checkpoint; --no-checkpoint-weights: only its sizes and tokenizer"
    )
    size: str | None = option(
        None, "named size of a model with random weights, in place of a checkpoint, such as bert_tiny"
    )
    vocabulary_size: int = option(8_000, "largest number of word pieces to learn, without a checkpoint", at_least=64)
    max_length: int = option(
        128, "largest number of word pieces of a text or a pair, of which the longer text is cut first", at_least=8
    )

    def unused(self, given):
        return {"vocabulary_size": "is that of --checkpoint"} if self.checkpoint else {}


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
        "optimizer; electra: as in its program, without bias correction, with decay during warm-up, and with the "
        "sum of a batch's losses",
        ("adamw", "electra"),
    )
    layer_decay: float | None = option(
        None,
        "factor of the learning rate from each layer to the one below, with --optimizer electra; none: one rate",
        above=0,
        at_most=1,
    )
    warmup_share: float = option(
        0.1, "share of the steps that are linear warm-up, before linear decay", at_least=0, below=1
    )
    optimizer_arguments: dict = optimizer_arguments(
        {
            "adamw": [keras.optimizers.AdamW],
            "electra": [AdamWeightDecay, keras.optimizers.Optimizer],
        },
        global_clipnorm=1.0,
        weight_decay=0.01,  # biases and norms have none
        epsilon=1e-8,
    )

    def check(self):
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
    def attention_shape(self):
        return encoder_shape(self, **self.model_arguments) or super().attention_shape

    @property
    def description(self):
        return f"{super().description}, {self.checkpoint or self.size}"

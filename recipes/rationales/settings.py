"""The settings of classifying documents with rationales."""

import pathlib

from keras_headattn.models import RationaleClassifier, RationaleReader
from recipes.engine.config import option, settings
from recipes.engine.encoders import encoder_shape
from recipes.engine.settings import Settings, model_arguments

STATES = "states"


@settings()
class Data:
    """The documents."""

    title = "data"

    eraser: str | None = option(
        None,
        "folder as ERASER has it: train.jsonl, val.jsonl and test.jsonl, with docs, docs.tar.gz or docs.jsonl",
        metavar="FOLDER",
    )
    dataset: str | None = option(None, "name of a folder in --eraser, in place of --eraser itself", metavar="NAME")
    built_in: bool = option(False, "train on synthetic data: reviews with known evidence")
    train_examples: int | None = option(
        None, "number of annotations to train on, drawn at random; none: all", at_least=1
    )
    test_examples: int | None = option(
        None, "number of annotations of each of the other two sets; none: all", at_least=1
    )
    split_seed: int = option(0, "random seed of --train-examples and --test-examples", at_least=0)
    window: int = option(512, "number of word pieces in a window of the encoder; windows overlap by half", at_least=16)
    max_windows: int | None = option(
        None, "largest number of windows of a document, which is cut after them; none: all", at_least=1
    )
    batch_size: int = option(4, "documents in a batch, over all replicas", at_least=1)
    num_buckets: int = option(4, "largest number of lengths to which batches are padded", at_least=1)


@settings()
class Model:
    """The encoder and what reads its states."""

    title = "model"

    checkpoint: str | None = option(
        None,
        "folder of a pre-trained encoder: Hugging Face's, a run of recipes.pretrain or recipes.glue",
        metavar="FOLDER",
    )
    size: str | None = option(
        None, "named size of an encoder with random weights, in place of a checkpoint, such as bert_tiny"
    )
    vocabulary_size: int = option(8_000, "largest number of word pieces to learn, without a checkpoint", at_least=64)
    states: str | None = option(
        None,
        "folder where the states of a frozen encoder are kept, for all runs with it; none: in the run's folder",
        changeable=True,
        metavar="FOLDER",
    )
    encoder_seed: int = option(
        0,
        "random seed of the encoder's weights beyond the checkpoint, such as a convolution's; the same for all --seeds",
        at_least=0,
    )
    # `trainable_layers`: number of last blocks of the encoder that are trained; 0, the default: it is frozen
    model_arguments: dict = model_arguments(RationaleClassifier, RationaleReader)


@settings(
    select="val_accuracy",
    optimizer_arguments=dict(global_clipnorm=10.0),
    learning_rate=2e-5,
    samples=option(
        3, "test documents that are shown at the end with what counts in brackets", changeable=True, at_least=0
    ),
    run="runs/rationales",
    export=None,
)
class RationalesConfig(Data, Model, Settings):
    """Every setting of a run. The defaults are those of the BERT-LSTM of DeYoung et al. 2020, at a constant rate."""

    title = "training"
    SOURCES = ("eraser", "built_in")
    MOST_USED = ("eraser", "dataset", "checkpoint", "window", "max_windows", "batch_size", *Settings.MOST_USED)
    SIZE_OPTIONS = (
        "size", "model_arguments.lstm_dim", "model_arguments.pooling_dim", "model_arguments.hidden_dim",
    )  # fmt: skip
    PRETRAINED = ("checkpoint",)

    def check(self):
        if self.checkpoint and self.size:
            raise ValueError(f"Give one of --checkpoint and --size. Received: {self.checkpoint!r} and {self.size!r}")
        if self.export:
            raise ValueError(
                f"This recipe writes no SavedModel: its model is RUN/model.keras. Received: {self.export!r}"
            )

    def changed(self, given):
        """These settings with others in their place. A checkpoint takes the place of a size, and the other way."""
        if given.get("checkpoint"):
            given = {"size": None} | given
        elif given.get("size"):
            given = {"checkpoint": None} | given
        return super().changed(given)

    @property
    def attention_shape(self):
        return encoder_shape(self) or super().attention_shape

    @property
    def data_folder(self):
        """Folder of the data set, or `None`."""
        if self.eraser and self.dataset and pathlib.Path(self.eraser).name != self.dataset:
            return f"{self.eraser}/{self.dataset}"
        return self.eraser

    @property
    def states_folder(self):
        """Folder of the states."""
        return self.states or f"{self.run}/{STATES}"

    @property
    def description(self):
        layers = self.model_argument("trainable_layers")
        trained = f"last {layers} blocks trained" if layers else "frozen encoder"
        return f"{super().description}, {self.checkpoint or self.size}, {trained}"

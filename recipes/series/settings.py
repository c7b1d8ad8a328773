"""The settings of a run on time series."""

from keras_headattn.layers import ATTENTIONS
from keras_headattn.models import DCTransformer
from recipes.engine.config import option, settings
from recipes.engine.settings import Settings, check_encoding, model_arguments, share_of

TASKS = ("regression", "classification")


@settings()
class Series:
    """The series and their targets."""

    title = "data"

    train: str | None = option(None, "file to train on: .ts of UEA and TSER, or CSV", metavar="FILE")
    validation: str = option("0.2", "file for validation, or a share of the training series", metavar="FILE")
    test: tuple[str, ...] = option(
        (), "files to score the model on, each a test set named after it", changeable=True, metavar="FILE"
    )
    built_in: bool = option(False, "train on synthetic data: the product of two marked values far apart")
    task: str = option("regression", "kind of prediction: a number or a class", TASKS)
    id_column: str | None = option(
        None,
        "column of a CSV file that tells series apart, with a row for each step; none: a row for each series",
        changeable=True,
        metavar="NAME",
    )
    target_column: str = option("target", "column of a CSV file with the number or class", metavar="NAME")
    encoding: str = option("utf-8", "encoding of the files, such as latin-1 or utf-16", changeable=True)
    max_length: int | None = option(
        None, "largest number of steps of a series; none: that of the longest in --train", at_least=2
    )
    batch_size: int = option(32, "series in a batch", at_least=1)


@settings()
class Model:
    """The network."""

    title = "model"

    model_arguments: dict = model_arguments(DCTransformer)


@settings(
    attention=option("evolving", "beside the convolutions", ("none", *ATTENTIONS)),
    epochs=30,
    patience=None,
    run="runs/series",
)
class SeriesConfig(Series, Model, Settings):
    """Every setting of a run. Those of the public code's example are in the folder `configs`."""

    title = "training"
    SOURCES = ("train", "built_in")
    MOST_USED = ("train", "validation", "test", "task", "batch_size", *Settings.MOST_USED)
    SIZE_OPTIONS = ("model_arguments.hidden_dim", "model_arguments.num_layers")

    def check(self):
        check_encoding(self.encoding)
        if self.test and not self.train:
            raise ValueError(f"--test needs --train. Received: test={self.test}, without --train")
        self.validation_share  # noqa: B018  (an error if it is out of range)
        if self.attention == "none" and (self.attention_arguments or self.attention_regularizer != "none"):
            raise ValueError(
                "--attention-arguments and --attention-regularizer need --attention. "
                f"Received: attention_arguments={self.attention_arguments}, {self.attention_regularizer}"
            )

    def unused(self, given):
        reasons = {"num_heads": "needs --attention"} if self.attention == "none" else {}
        if not (self.train or "test" in given):
            of_files = ("validation", "id_column", "target_column", "encoding")
            reasons |= dict.fromkeys(of_files, "needs --train")
        return reasons

    @property
    def validation_share(self):
        """Share of the training series for validation; `None` if there is a file."""
        return share_of(self.validation, "a file")

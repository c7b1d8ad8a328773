"""The settings of tagging words with a pre-trained encoder."""

from keras_headattn.models import TokenClassifier
from recipes.engine.config import option, settings
from recipes.engine.data import named_files
from recipes.engine.encoder_settings import Encoder, FineTuning, head_arguments
from recipes.engine.settings import Examples, Files, Settings, check_encoding

OF_FILES = ("encoding", "delimiter", "word_column", "tag_column")


@settings(
    train=option((), "CoNLL files to train on, .gz too: a word a line, an empty line after a sentence", metavar="FILE"),
    validation=option((), "files for validation, or a share of --train; none: 0.1", metavar="FILE"),
    test=option(
        (), "files to test on, each a test set named after it; none: validation", changeable=True, metavar="FILE"
    ),
)
class Data(Files, Examples):
    """The sentences and their tags."""

    title = "data"

    encoding: str = option("utf-8", "encoding of the files, such as latin-1 or utf-16")
    delimiter: str | None = option(None, "delimiter of columns, such as a tab, \\t; none: spaces and tabs")
    word_column: int = option(1, "number of the column with the word, from 1", at_least=1)
    tag_column: int | None = option(None, "number of the column with the tag; none: the last", at_least=1)

    def check(self):
        check_encoding(self.encoding)
        if self.delimiter == "\\t":  # as typed
            object.__setattr__(self, "delimiter", "\t")
        if self.word_column == self.tag_column:
            raise ValueError(
                f"--word-column and --tag-column must differ. Received: {self.word_column} and {self.tag_column}"
            )

    def unused(self, given):
        is_of_files = "test" in given or self.source == "train"
        return {} if is_of_files else dict.fromkeys(OF_FILES, "is only for files")

    @property
    def names_of_tests(self):
        """Names of the test sets."""
        return list(self.named_tests(self.test)) or ["test" if self.built_in else "dev"]

    def named_tests(self, files):
        """Returns the files of each test set by name: `eng.testb` of eng.testb.conll.gz."""
        return named_files(files, r"[.](conll|conllu|iob|bio|txt|tsv)")


@settings()
class Model(Encoder):
    """The encoder and its head."""

    model_arguments: dict = head_arguments(TokenClassifier)


@settings(
    select=option("val_score", "which epochs are better", ("val_loss", "val_accuracy", "val_score")),
    export_arguments=option(
        {"cpu_only": False},
        "of SavedModels; cpu_only=true: for servers without GPU, faster there",
        changeable=True,
    ),
    run="runs/tag",
)
class TagConfig(Data, Model, FineTuning):
    """Every setting of a run. Those of the synthetic task are in the folder `configs`."""

    title = "training"
    SOURCES = ("train", "built_in")
    MOST_USED = ("train", "validation", "test", "tag_column", "checkpoint", "batch_size", *Settings.MOST_USED)

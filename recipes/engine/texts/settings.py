"""The settings of labelled texts."""

from recipes.engine.config import option, settings
from recipes.engine.corpora import named_files
from recipes.engine.settings import Examples, TextFiles, check_encoding

FORMATS = ("csv", "tsv", "jsonl", "label_text", "aligned")
COLUMNS = ("text_column", "second_column", "label_column")
OF_FILES = ("format", "encoding", "header", "delimiter")
# Scores of words: from inside the model, and by removal of words.
INSIDE = ("pooling", "cls", "received", "gradient", "integrated_gradients")
METHODS = (*INSIDE, "lime", "leave_one_out", "random")


@settings(
    train=option((), "files to train on (.csv, .tsv, .jsonl, .gz too), read one after the other", metavar="FILE"),
    validation=option((), "files for validation, or a share of --train; none: 0.1", metavar="FILE"),
    test=option((), "files to test on, each a test set named after it; none: a share of --train", metavar="FILE"),
)
class Texts(TextFiles, Examples):
    """The texts, their labels, and which of them are used."""

    title = "data"

    format: str | None = option(
        None, "of the files; none: by their ending; aligned: one file a column, its lines belong together", FORMATS
    )
    encoding: str = option("utf-8", "of the files, such as latin-1 or utf-16")
    delimiter: str | None = option(
        None, "between the columns of csv; none: the comma, semicolon or tab that makes the columns"
    )
    header: bool = option(True, "--no-header: csv and tsv whose first line is an example; columns are numbers from 1")
    text_column: str = option("text", "name of the column with the text", metavar="COLUMN")
    second_column: str | None = option(
        None, "name of that with the second text, where pairs are classified", metavar="COLUMN"
    )
    label_column: str = option("label", "name of that with the label", metavar="COLUMN")
    predict: str = option(
        "class", "what a text has: one class, any of several labels, or a number", ("class", "labels", "number")
    )
    label_separator: str = option(",", "stands between the labels of a text, with --predict labels")
    labels: tuple[str, ...] = option(
        (),
        "all labels in their order; of two the second is the positive one; none: those to train on, sorted",
        metavar="LABEL",
    )
    drop_labels: tuple[str, ...] = option((), "labels whose examples are left out", metavar="LABEL")
    test_share: float = option(0.1, "share of --train to test on, without --test; 0: none", at_least=0, below=1)
    class_weights: str = option("none", "balanced: all classes count the same in training", ("none", "balanced"))

    def __post_init__(self):
        super().__post_init__()
        check_encoding(self.encoding)
        if self.delimiter == "\\t":  # as typed
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f"--delimiter must be one character. Received: delimiter={self.delimiter!r}")

    def unused(self, given):
        found = super().unused(given)
        if "test" not in given and self._source() != "train":
            found |= dict.fromkeys(OF_FILES, "is only for files")
            if self.embedded:
                found |= dict.fromkeys(COLUMNS, "is not for the embedded data")
        if self.format not in (None, "csv"):
            found["delimiter"] = "is only for csv"
        if self.format in ("jsonl", "label_text", "aligned"):
            found["header"] = "is only for csv and tsv"
        if self.predict != "labels":
            found["label_separator"] = "is for --predict labels"
        return {name: reason for name, reason in found.items() if name in given}

    @property
    def predicts(self):
        """The target of a text: "class", "labels" or "number"."""
        return self.predict

    @property
    def is_pair(self):
        """True if pairs of texts are classified."""
        return self.second_column is not None

    @property
    def tests_are_shares(self):
        """True if the test sets are a part of the training set."""
        return self.data == "train" and not self.test

    @property
    def columns(self):
        """Names of the columns of the text, the label and, of pairs, the second text; else `None`."""
        return self.text_column, self.label_column, self.second_column

    @property
    def names_of_tests(self):
        """Names of the test sets."""
        return self.test_splits if self.data == "tfds" else self.named_tests(self.test) or ["test"]

    def named_tests(self, files):
        """Returns the files of each test set by name: `sst.test` of sst.test.csv.gz."""
        size = (3 if self.is_pair else 2) if self.format == "aligned" else 1
        return named_files(files, r"[.](csv|tsv|jsonl)", size)

    def chosen(self, corpus):
        """Picks the examples of a `LabelledText` that these settings use; none is a `ValueError`."""
        found = corpus.without(self.drop_labels).sample(self.max_examples, self.split_seed)
        if not len(found):
            raise ValueError(f"A data set must not be empty. Received: {corpus.name}")
        return found

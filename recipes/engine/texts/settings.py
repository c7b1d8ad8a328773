"""The settings of labelled texts."""

from recipes.engine.config import option, settings
from recipes.engine.data import named_files
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
        None,
        "format of the files; none: by their ending; aligned: one file a column, whose lines belong together",
        FORMATS,
    )
    encoding: str = option("utf-8", "encoding of the files, such as latin-1 or utf-16")
    delimiter: str | None = option(
        None, "delimiter of csv columns; none: the comma, semicolon or tab that makes the columns"
    )
    header: bool = option(
        True, "the first line of csv and tsv names the columns; --no-header: columns are numbers from 1"
    )
    text_column: str = option("text", "name of the column with the text", metavar="COLUMN")
    second_column: str | None = option(
        None, "name of the column with the second text, where pairs are classified", metavar="COLUMN"
    )
    label_column: str = option("label", "name of the column with the label", metavar="COLUMN")
    predict: str = option(
        "class", "kind of prediction: one class, any of several labels, or a number", ("class", "labels", "number")
    )
    label_separator: str = option(",", "separator of the labels of a text, with --predict labels")
    labels: tuple[str, ...] = option(
        (),
        "names of all labels in order, of two the second is the positive one; none: those of --train, sorted",
        metavar="LABEL",
    )
    drop_labels: tuple[str, ...] = option((), "labels whose examples are left out", metavar="LABEL")
    test_share: float = option(0.1, "share of --train to test on, without --test; 0: none", at_least=0, below=1)
    class_weights: str = option(
        "none", "weights of classes in training; balanced: all classes count the same", ("none", "balanced")
    )

    def check(self):
        check_encoding(self.encoding)
        if self.delimiter == "\\t":  # as typed
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f"--delimiter must be one character. Received: delimiter={self.delimiter!r}")

    def unused(self, given):
        reasons = {}
        if "test" not in given and self.source != "train":
            reasons |= dict.fromkeys(OF_FILES, "is only for files")
            if self.built_in:
                reasons |= dict.fromkeys(COLUMNS, "is not for the synthetic data")
        if self.format not in (None, "csv"):
            reasons["delimiter"] = "is only for csv"
        if self.format in ("jsonl", "label_text", "aligned"):
            reasons["header"] = "is only for csv and tsv"
        if self.predict != "labels":
            reasons["label_separator"] = "is for --predict labels"
        if self.predicts == "number":
            reasons["labels"] = "is for classes, not for numbers"
        return reasons

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
        examples = corpus.without(self.drop_labels).sample(self.max_examples, self.split_seed)
        if not len(examples):
            raise ValueError(f"A data set must not be empty. Received: {corpus.name}")
        return examples

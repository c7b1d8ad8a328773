"""The settings of a text classification run."""

from recipes.engine.config import option, settings
from recipes.engine.settings import Serving, Settings, TextFiles, check_encoding

FORMATS = ("csv", "tsv", "jsonl", "label_text", "aligned")
COLUMNS = ("text_column", "second_column", "label_column")
OF_FILES = ("format", "encoding", "header", "delimiter")
# Scores of words: of a model's inside, and by removal of words.
INSIDE = ("pooling", "cls", "received", "gradient", "integrated_gradients")
METHODS = (*INSIDE, "lime", "leave_one_out", "random")


@settings(
    train=option((), "files to train on (.csv, .tsv, .jsonl, .gz too), read one after the other", metavar="FILE"),
    validation=option((), "files for validation; none: a share of --train", metavar="FILE"),
    test=option((), "files to test on, each a test set named after it; none: a share of --train", metavar="FILE"),
)
class Texts(TextFiles):
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
    validation_share: float = option(0.1, "share of --train for validation, without --validation", above=0, below=1)
    test_share: float = option(0.1, "share of --train to test on, without --test; 0: none", at_least=0, below=1)
    split_seed: int = option(0, "of the choice of these shares and of --max-examples")
    max_examples: int | None = option(None, "use only so many examples of each set, at random", at_least=1)
    batch_size: int = option(32, "examples a step, over all replicas", at_least=1)
    class_weights: str = option("none", "balanced: all classes count the same in training", ("none", "balanced"))
    num_buckets: int = option(6, "lengths to which batches are padded, at most; XLA compiles once for each", at_least=1)

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
            found |= dict.fromkeys(OF_FILES, "is of files")
            if self.embedded:
                found |= dict.fromkeys(COLUMNS, "is not of the embedded data")
        if self.format not in (None, "csv"):
            found["delimiter"] = "is of csv"
        if self.format in ("jsonl", "label_text", "aligned"):
            found["header"] = "is of csv and tsv"
        if self.predict != "labels":
            found["label_separator"] = "is for --predict labels"
        for name in ("validation", "test"):
            if getattr(self, name):
                found[f"{name}_share"] = f"is that of --train to take where there is no --{name}"
        return {name: reason for name, reason in found.items() if name in given}

    @property
    def predicts(self):
        """The target of a text: "class", "labels" or "number"."""
        return self.predict

    @property
    def is_pair(self):
        """Whether pairs of texts are classified."""
        return self.second_column is not None


@settings()
class Words:
    """The tokens of a text."""

    title = "words"

    tokens: str = option("words", "words, split in the graph; pieces: SentencePiece", ("words", "pieces"))
    vocabulary_size: int = option(30_000, "the most frequent words, or the pieces", at_least=8)
    min_count: int = option(1, "words that are rarer in the training set are unknown", at_least=1)
    lowercase: bool = option(True, "lower-case all text")
    max_length: int = option(200, "tokens of a text that are read; the rest is cut off", at_least=1)
    embeddings: str | None = option(None, "text file of word vectors, such as GloVe's, to begin with", metavar="FILE")
    train_embeddings: bool = option(True, "--no-train-embeddings: the vectors stay as they are")


@settings()
class Model:
    """The encoder, the pooling and the classifier."""

    title = "model"

    encoder: str = option("bilstm", "what the heads of the pooling look at", ("bilstm", "transformer"))
    pooling_heads: int = option(30, "heads of the pooling", at_least=1)
    pooling_dim: int = option(350, "width of the hidden layer of the pooling", at_least=1)
    embedding_dim: int | None = option(
        None, "width of a word, and of the Transformer; none: that of --embeddings, else 300", at_least=1
    )
    hidden_dim: int = option(300, "units of the LSTM in each direction, or of the feed-forward layers", at_least=1)
    num_layers: int = option(1, "LSTM layers, or Transformer blocks", at_least=1)
    factor_dim: int = option(300, "of pairs: width in which a head's two rows are multiplied", at_least=1)
    mlp_dim: int = option(2000, "width of the classifier's hidden layer", at_least=1)
    dropout: float = option(0.5, "dropout of embeddings and of the classifier", at_least=0, below=1)


@settings(select="val_accuracy", run="runs/classify")
class ClassifyConfig(Texts, Words, Model, Settings, Serving):
    """Every setting of a run. Other values, of papers and of the embedded task, are in `recipes/configs`.

    The defaults are for texts of your own. Widths are those of Lin et al. 2017, "A structured self-attentive sentence
    embedding", section 4.1.
    """

    title = "training"
    SOURCES = ("train", "tfds", "embedded")
    MOST_USED = (
        "train", "validation", "test", "text_column", "label_column", "predict", "batch_size",
        *Settings.MOST_USED,
    )  # fmt: skip
    SIZE_OPTIONS = ("mlp_dim", "pooling_heads", "hidden_dim", "embedding_dim")

    optimizer: str = option("adam", "optimizer, at a constant learning rate", ("adam", "sgd", "adagrad"))
    clipvalue: float | None = option(None, "largest value of a gradient", above=0)
    l2: float = option(0.0, "weight of the squared kernels in the loss; embeddings are left out", at_least=0)

    def __post_init__(self):
        super().__post_init__()
        if len(set(self.labels)) < len(self.labels) or len(self.labels) == 1:
            raise ValueError(f"--labels must be two different ones or more. Received: labels={self.labels}")
        if dropped := set(self.labels) & set(self.drop_labels):
            raise ValueError(
                f"A label is used or dropped. Received: {', '.join(dropped)} in --labels and --drop-labels"
            )
        if self.tokens == "pieces" and self.embeddings:
            raise ValueError(f"--embeddings are of words, not of pieces. Received: embeddings={self.embeddings!r}")
        if self.clipvalue and self.clipnorm:
            raise ValueError("Give one of --clipvalue and --clipnorm. Received: both")
        if self.encoder == "bilstm" and (self.attention != "multi_head" or self.attention_arguments or self.num_heads):
            raise ValueError(
                "--attention, --attention-arguments and --num-heads need --encoder transformer. "
                f"Received: encoder='bilstm', attention={self.attention!r}, "
                f"attention_arguments={self.attention_arguments}, num_heads={self.num_heads}"
            )
        if self.predict == "number" and self.select == "val_accuracy":
            object.__setattr__(self, "select", "val_loss")  # numbers have no accuracy
        if self.predict != "class" and self.class_weights != "none":
            raise ValueError(f"--class-weights are of classes. Received: predict={self.predict!r}")
        if self.repulsive != "none" and self.pooling_heads < 2:
            raise ValueError(
                f"Heads repel each other: --pooling-heads must be at least 2. Received: {self.pooling_heads}"
            )

    @property
    def without_effect(self):
        """Names of settings of no effect: a BiLSTM has no attention but that of the pooling."""
        return ("attention", "num_heads") if self.encoder == "bilstm" else ()

    @property
    def attention_shape(self):
        """Width of the Transformer, and its number of heads, unless the settings name another.

        The width of word vectors, which are not read here, is taken for one that the heads divide.
        """
        own = super().attention_shape
        return (own[0] if self.embeddings and not self.embedding_dim else self.embedding_dim or 300), own[1]

    def changed(self, given):
        """These settings with others in their place, as of all recipes. Word vectors bring their own width."""
        return super().changed(({"embedding_dim": None} if given.get("embeddings") else {}) | given)

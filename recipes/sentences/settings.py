"""The settings of a sentence classification run."""

import dataclasses

from recipes.engine.config import at_most_one, check_ranges, check_steps, option, the_one

DATA = ("train", "tfds", "embedded")
FORMATS = ("csv", "tsv", "jsonl", "label_text", "aligned")
# Titles of groups of settings, by their first one.
GROUPS = {
    "train": "data",
    "tokens": "words",
    "encoder": "model",
    "repulsive": "heads that differ",
    "epochs": "training",
    "sample_texts": "output",
}


@dataclasses.dataclass(frozen=True)
class ClassifyConfig:
    """Every setting of a run. Other values, of papers and of the embedded task, are in `recipes/configs`.

    The defaults are for texts of your own. Widths are those of Lin et al. 2017, "A structured self-attentive sentence
    embedding", section 4.1.
    """

    # Data
    train: tuple[str, ...] = option((), "files to train on (.csv, .tsv, .jsonl, .gz too), read one after the other")
    validation: tuple[str, ...] = option((), "files for validation; none: a share of --train")
    test: tuple[str, ...] = option((), "files to test on, each a test set named after it; none: a share of --train")
    tfds: str | None = option(None, "TensorFlow Datasets name such as glue/sst2, in place of files")
    embedded: bool = option(False, "the embedded task: which language a number is written in, made by code")
    train_split: str = option("train", "split of --tfds to train on")
    validation_split: str = option("validation", "split of --tfds for validation")
    test_splits: tuple[str, ...] = option(("test",), "splits of --tfds to test on")
    format: str | None = option(
        None, "of the files; none: by their ending; aligned: one file a column, its lines belong together", FORMATS
    )
    header: bool = option(True, "--no-header: csv and tsv whose first line is an example; columns are numbers from 1")
    text_column: str = option("text", "name of the column with the text")
    second_column: str | None = option(None, "name of that with the second text, where pairs are classified")
    label_column: str = option("label", "name of that with the label")
    labels: tuple[str, ...] = option(
        (), "all labels in their order; of two the second is the positive one; none: those to train on, sorted"
    )
    drop_labels: tuple[str, ...] = option((), "labels whose examples are left out")
    validation_share: float = option(0.1, "share of --train for validation, without --validation", above=0, below=1)
    test_share: float = option(0.1, "share of --train to test on, without --test; 0: none", at_least=0, below=1)
    split_seed: int = option(0, "of the choice of these shares and of --max-examples")
    max_examples: int | None = option(None, "use only so many examples of each set, at random", at_least=1)
    # Words
    tokens: str = option("words", "words, split in the graph; pieces: SentencePiece", ("words", "pieces"))
    vocabulary_size: int = option(30_000, "the most frequent words, or the pieces", at_least=8)
    min_count: int = option(1, "words that are rarer in the training set are unknown", at_least=1)
    lowercase: bool = option(True, "lower-case all text")
    max_length: int = option(200, "tokens of a text that are read; the rest is cut off", at_least=1)
    embeddings: str | None = option(None, "text file of word vectors, such as GloVe's, to begin with")
    train_embeddings: bool = option(True, "--no-train-embeddings: the vectors stay as they are")
    # Model
    encoder: str = option("bilstm", "what the heads look at", ("bilstm", "transformer"))
    num_heads: int = option(30, "heads of the pooling", at_least=1)
    attention_dim: int = option(350, "width of the hidden layer of the pooling", at_least=1)
    embedding_dim: int | None = option(
        None, "width of a word, and of the Transformer; none: that of --embeddings, else 300", at_least=1
    )
    hidden_dim: int = option(300, "units of the LSTM in each direction, or of the feed-forward layers", at_least=1)
    num_layers: int = option(1, "LSTM layers, or Transformer blocks", at_least=1)
    encoder_heads: int = option(4, "heads of each Transformer block", at_least=1)
    factor_dim: int = option(300, "of pairs: width in which a head's two rows are multiplied", at_least=1)
    mlp_dim: int = option(2000, "width of the classifier's hidden layer", at_least=1)
    dropout: float = option(0.5, "dropout of embeddings and of the classifier", at_least=0, below=1)
    # Heads that differ
    repulsive: str = option("none", "heads as particles that repel each other", ("none", "svgd", "spos", "sgld"))
    step_size: float = option(0.1, "epsilon: what the inner optimizer receives is so many times the update", above=0)
    repulsive_weight: float = option(0.01, "alpha, the weight of the repulsion", at_least=0)
    inverse_temperature: float = option(1e8, "beta of SPOS and SGLD; the larger, the less noise", above=0)
    prior_deviation: float | None = option(None, "of a Gaussian prior of the heads; none: a uniform one", above=0)
    repulsive_kernel: str = option("rbf", "of the heads; cosine: eq. 14 of An et al. 2020", ("rbf", "cosine"))
    repulsive_smoothing: bool = option(
        True, "heads follow the gradients of near ones, too; --no-repulsive-smoothing: their own alone"
    )
    attention_regularizer: str = option(
        "none", "frobenius: Lin et al. 2017; disagreement: Li et al. 2018; cosine: of parameters",
        ("none", "frobenius", "disagreement", "cosine"),
    )  # fmt: skip
    regularizer_weight: float = option(1.0, "of the attention regularizer in the loss", at_least=0)
    # Training
    epochs: int = option(20, "most passes over the data", at_least=1)
    patience: int | None = option(5, "stop after so many epochs without a better validation", at_least=1)
    select: str = option("val_accuracy", "which epochs are better", ("val_accuracy", "val_loss"))
    average: int = option(1, "epochs whose weights are averaged at the end; 1: the best", at_least=1)
    average_of: str = option("last", "which epochs: the last, or the best", ("last", "best"))
    time_limit: float | None = option(
        None,
        "start no epoch that would end later than so many minutes after the first one of this start of the command",
        above=0,
    )
    save_steps: int | None = option(
        1000, "save the state of training after each so many steps, besides each epoch; none: not", at_least=1
    )
    batch_size: int = option(32, "examples a step, over all replicas", at_least=1)
    num_buckets: int = option(6, "lengths to which batches are padded, at most; XLA compiles once for each", at_least=1)
    optimizer: str = option("adam", "inner optimizer", ("adam", "sgd", "adagrad"))
    learning_rate: float = option(1e-3, "constant learning rate", above=0)
    clipvalue: float | None = option(None, "largest value of a gradient", above=0)
    clipnorm: float | None = option(None, "largest norm of the whole gradient", above=0)
    l2: float = option(0.0, "times the squared kernels is in the loss, but for embeddings", at_least=0)
    label_smoothing: float = option(0.0, "share of a label spread over the classes", at_least=0, below=1)
    class_weights: str = option("none", "balanced: all classes count the same in training", ("none", "balanced"))
    precision: str = option("float32", "dtype policy", ("float32", "mixed_float16", "mixed_bfloat16"))
    strategy: str = option(
        "mirrored",
        "the devices of this machine, or those of all workers that the environment names: see docs/distributed.md",
        ("mirrored", "multi_worker"),
    )
    replicas: int | None = option(
        None, "none: all GPUs, else one CPU replica; n without GPUs splits the CPU", at_least=1
    )
    xla: bool | None = option(None, "compile training by XLA; none: the Transformer on GPUs alone")
    steps_per_execution: int = option(1, "training steps run in one go", at_least=1)
    seed: int = option(0, "of everything random in training", at_least=0)
    # Output
    sample_texts: int = option(5, "test examples classified by the SavedModel at the end", at_least=0)
    gradient_norm: bool = option(False, "the gradient's norm in the history and in TensorBoard")
    profile_steps: tuple[int, ...] = option((), "first and last training step to profile for TensorBoard")
    run: str = option("runs/classify", "folder of the run")
    export: str | None = option(
        "saved_models/classify", "folder that gets a new numbered version of the SavedModel; none: no SavedModel"
    )

    def __post_init__(self):
        check_ranges(self)
        self._check_data()
        if self.tokens == "pieces" and self.embeddings:
            raise ValueError(f"--embeddings are of words, not of pieces. Received: embeddings={self.embeddings!r}")
        if self.clipvalue and self.clipnorm:
            raise ValueError("Give one of --clipvalue and --clipnorm. Received: both")
        if self.repulsive != "none" and self.num_heads < 2:
            raise ValueError(f"Heads repel each other: --num-heads must be at least 2. Received: {self.num_heads}")
        check_steps("profile_steps", self.profile_steps)

    def _check_data(self):
        at_most_one(self, DATA)
        for name in ("validation", "test"):
            if getattr(self, name) and not self.train:
                raise ValueError(f"--{name} needs --train. Received: {name}={getattr(self, name)}, train=()")
        if len(set(self.labels)) < len(self.labels) or len(self.labels) == 1:
            raise ValueError(f"--labels must be two different ones or more. Received: labels={self.labels}")
        if dropped := set(self.labels) & set(self.drop_labels):
            raise ValueError(
                f"A label is used or dropped. Received: {', '.join(dropped)} in --labels and --drop-labels"
            )

    @property
    def data(self):
        """Which setting names the data: one of `DATA`.

        Raises:
            ValueError: if none does.
        """
        return the_one(self, DATA)

    @property
    def is_pair(self):
        """Whether pairs of texts are classified."""
        return self.second_column is not None

"""The settings of a run that writes the texts of graphs."""

import keras

from keras_headattn.models import GraphWriter
from recipes.engine.config import option, settings
from recipes.engine.data import named_files
from recipes.engine.generation import Search
from recipes.engine.settings import Settings, check_encoding, model_arguments, optimizer_arguments, share_of

ENDINGS = r"[.](?:tsv|jsonl?|xml)"
FORMATS = ("agenda", "json", "webnlg")
NUM_HEADS = 4
METRICS = ("bleu", "meteor", "rouge", "chrf", "entities", "repeated")


@settings()
class Graphs:
    """The graphs and their texts, and which of them are used."""

    title = "data"

    train: tuple[str, ...] = option(
        (),
        "files to train on: .tsv of AGENDA, .json, .jsonl, .xml of WebNLG, .gz too; or folders of WebNLG",
        metavar="PATH",
    )
    validation: tuple[str, ...] = option(
        (), "files or folders for validation, or a share of --train, such as 0.1", metavar="PATH"
    )
    test: tuple[str, ...] = option(
        (), "files or folders to score the model on, each a test set named after it", changeable=True, metavar="PATH"
    )
    built_in: bool = option(False, "train on synthetic data: facts on invented people, made by code")
    format: str | None = option(None, "format of the files; none: by their ending", FORMATS, changeable=True)
    encoding: str = option("utf-8", "encoding of the files, such as latin-1", changeable=True)
    max_graphs: int | None = option(
        None, "largest number of graphs of each set, drawn at random; none: all", at_least=1
    )
    vocabulary_arguments: dict = option(
        {"min_count": None, "max_words": None},
        "min_count: rarer words of texts and titles are unknown, of entities none is; by default 5, but fewer for less "
        "than 40,000 graphs. max_words=10: of an entity's name so many "
        "words are read, all of which are padded to the longest",
    )
    tokens_per_batch: int | None = option(
        None,
        "tokens of texts in a batch, padding included, over all replicas; none: 3,520, 32 texts of 110, but fewer "
        "where an epoch would have less than 100 batches",
        at_least=1,
    )
    bucket_arguments: dict = option(
        {"num_buckets": 3, "num_graph_buckets": 2},
        "largest number of lengths to which texts are padded, and of sizes to which graphs are for each length",
    )


@settings()
class Model:
    """The writer, but for the attention of its graph blocks."""

    title = "model"

    model_arguments: dict = model_arguments(GraphWriter)


@settings(
    alpha=1.0,
    max_length=option(200, "most tokens of a text; those to train on that are longer are left out", at_least=1),
)
class Decoding(Search):
    """Search for texts, and their scores."""

    max_entities: int = option(
        100, "largest number of entities of a graph, also for the SavedModel", changeable=True, at_least=1
    )
    metrics: tuple[str, ...] = option(
        METRICS,
        "metrics of texts; bleu: BLEU-1 to 4; meteor; rouge: ROUGE-1, 2 and L; chrf; entities: how many are "
        "named; repeated: clauses",
        METRICS,
        changeable=True,
    )
    validation_graphs: int = option(
        200, "graphs of the validation set whose texts are scored by BLEU after each epoch; 0: none", at_least=0
    )


@settings(
    attention="graph",
    repulsive_arguments={"roles": ("encoder",)},  # of graph blocks; the decoder's are "cross"
    learning_rate=0.1,
    run="runs/graphs",
)
class GraphsConfig(Graphs, Model, Settings, Decoding):
    """Every setting of a run. Other values, of papers and of the synthetic task, are in the folder `configs`.

    The defaults are those of the public code of GraphWriter (Koncel-Kedziorski et al. 2019) for AGENDA.
    """

    title = "training"
    SOURCES = ("train", "built_in")
    MOST_USED = ("train", "validation", "test", "tokens_per_batch", *Settings.MOST_USED)
    SIZE_OPTIONS = tuple(
        f"model_arguments.{name}" for name in ("num_layers", "hidden_dim", "intermediate_dim", "num_encoder_layers")
    )

    optimizer: str = option("sgd", "sgd: with a momentum of 0.9; both at a constant learning rate", ("sgd", "adam"))
    optimizer_arguments: dict = optimizer_arguments(
        {"sgd": [keras.optimizers.SGD], "adam": [keras.optimizers.Adam]}, global_clipnorm=1.0
    )

    def unused(self, given):
        is_of_files = "test" in given or not self.built_in
        return {} if is_of_files else dict.fromkeys(("format", "encoding"), "is only for files")

    @property
    def validation_share(self):
        """Share of the graphs to train on for validation; `None` if there are files."""
        return share_of(*self.validation, "files or folders") if len(self.validation) == 1 else None

    @property
    def names_of_tests(self):
        """Names of the test sets, which are the names of their folders in `results/`."""
        return ["test"] if self.built_in else list(named_files(self.test, ENDINGS))

    @property
    def attention_shape(self):
        """Width of the model, and its number of heads, unless the settings name another."""
        return self.model_argument("hidden_dim"), NUM_HEADS

    def check(self):
        check_encoding(self.encoding)
        for name in ("validation", "test"):
            if getattr(self, name) and not self.train:
                raise ValueError(f"--{name} needs --train. Received: {name}={getattr(self, name)}, without --train")
        if self.train and not (self.validation_share or self.validation):
            raise ValueError(
                f"--train needs --validation, files or a share such as 0.1. Received: train={self.train}, validation=()"
            )
        if not self.metrics or len(set(self.metrics)) < len(self.metrics):
            raise ValueError(f"Give --metrics, each once. Received: metrics={' '.join(self.metrics) or 'none'}")

    @property
    def description(self):
        return f"{self.model_argument('num_layers')} blocks of {super().description}"

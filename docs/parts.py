# ruff: noqa: E402
"""Tags of words: train, evaluate, export, tag."""

import json
import pathlib

from recipes.engine.quiet import quiet_tensorflow

quiet_tensorflow()  # imports TensorFlow without its messages, before Keras does

import keras
import numpy as np

from keras_headattn.data import TokenBatches, choose_buckets, example_lengths, pad_ids
from keras_headattn.models import TransformerEncoder
from recipes.engine.command import Command
from recipes.engine.config import option, settings
from recipes.engine.heads import make_attention
from recipes.engine.recipe import Recipe, check_readable
from recipes.engine.settings import Settings
from recipes.engine.task import Corpora, Task
from recipes.engine.training import make_optimizer


@settings(run="runs/parts", select="val_accuracy")
class PartsConfig(Settings):
    title = "data and model"
    SOURCES = ("train",)

    train: tuple[str, ...] = option((), "files to train on")
    validation: tuple[str, ...] = option((), "files for validation")
    test: tuple[str, ...] = option((), "files to test on", changeable=True)
    hidden_dim: int = option(128, "width of the model", at_least=1)
    num_layers: int = option(2, "Transformer blocks", at_least=1)
    tokens_per_batch: int = option(2048, "words in a batch, padding included", at_least=1)


class Tag(Task):
    def check(self):
        self.attention = make_attention(self.config, self.config.hidden_dim, num_heads=4)

    def load(self):
        train, validation = (read(files) for files in (self.config.train, self.config.validation))
        self.data = Corpora(train, validation, self.load_tests())

    def load_tests(self, files=None):
        files = self.config.test if files is None else files
        return {pathlib.Path(path).stem: read([path]) for path in files}

    def prepare(self):
        path = self.run.folder / "names.json"
        if self.data:
            pairs = [pair for sentence in self.data.train for pair in sentence]
            path.write_text(json.dumps([sorted(set(side)) for side in zip(*pairs, strict=True)]))
        self.words, self.tags = json.loads(path.read_text())

    def columns(self, sentences):
        """Ids of words and tags, from 1. An unknown word has the id after the last one."""
        word_ids, tag_ids = ({name: 1 + i for i, name in enumerate(names)} for names in (self.words, self.tags))
        return {
            "words": [[word_ids.get(word, 1 + len(word_ids)) for word, _ in sentence] for sentence in sentences],
            "tags": [[tag_ids[tag] for _, tag in sentence] for sentence in sentences],
        }

    def make_batches(self, num_replicas):
        train, validation = (self.columns(part) for part in (self.data.train, self.data.validation))
        lengths = np.concatenate([example_lengths(train), example_lengths(validation)])
        common = dict(
            tokens_per_batch=self.config.tokens_per_batch,
            bucket_lengths=choose_buckets(lengths, 4),
            num_replicas=num_replicas,
            preprocess=example,
        )
        return TokenBatches(train, seed=self.config.seed, **common), TokenBatches(validation, shuffle=False, **common)

    def make_model(self):
        width = self.config.hidden_dim
        sizes = dict(intermediate_dim=4 * width, num_layers=self.config.num_layers)
        encoder = TransformerEncoder(2 + len(self.words), width, attention=self.attention, **sizes)
        ids = keras.Input((None,), dtype="int32", name="words")
        return keras.Model(ids, keras.layers.Dense(1 + len(self.tags), dtype="float32")(encoder(ids)))

    def make_optimizer(self, steps, num_replicas):
        return make_optimizer(self.config, keras.optimizers.Adam, learning_rate=self.config.learning_rate)

    def make_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def make_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def throughput(self, batches):
        return lambda: batches.num_tokens["words"], "words_per_second"

    def tag(self, model, words):
        """The tags of the words of a sentence."""
        columns = self.columns([[(word, self.tags[0]) for word in words]])
        return [self.tags[tag - 1] for tag in model(pad_ids(columns["words"], 1, len(words))).numpy()[0].argmax(-1)]

    def evaluate(self, model, tests):
        for name, sentences in tests.items():
            found = [tag for sentence in sentences for tag in self.tag(model, [word for word, _ in sentence])]
            hits = np.equal(found, [tag for sentence in sentences for _, tag in sentence])
            folder = self.run.results / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "scores.json").write_text(json.dumps({"accuracy": hits.mean()}))
            print(f"{name}: accuracy {hits.mean():.4f} of {len(hits):,} words")

    def export(self, model, folder):
        model.export(f"{folder}/1", verbose=False)


def read(files):
    lines = [line.split() for path in files for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    return [[tuple(word.rsplit("/", 1)) for word in line] for line in lines if line]


def example(columns):
    """Inputs, labels, and weights, which are 0 at padding."""
    return columns["words"], columns["tags"], (columns["words"] != 0).astype("float32")


def add_file(parser):
    RECIPE.add_run(parser)
    parser.add_argument("file", help="a sentence a line")


def tag(options):
    check_readable(options.file)
    task = RECIPE.finished(options.folder)
    model = task.run.load_model()
    for line in pathlib.Path(options.file).read_text(encoding="utf-8").splitlines():
        print(*(f"{word}/{tag}" for word, tag in zip(line.split(), task.tag(model, line.split()), strict=True)))


RECIPE = Recipe(
    name="parts",
    doc=__doc__,
    settings=PartsConfig,
    task=Tag,
    files=("names.json",),
    check_files=lambda config: check_readable(*config.train, *config.validation, *config.test),
    evaluated=("test",),
    exported=("export",),
    commands={"tag": Command(tag, "the tags of a file's words", add_file)},
)

if __name__ == "__main__":
    RECIPE.main()

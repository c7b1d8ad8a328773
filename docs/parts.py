"""Tags of words: train, evaluate, export, tag."""

import json
import pathlib

import keras
import numpy as np

from keras_headattn.data import TokenBatches, choose_buckets, example_lengths, pad_ids
from keras_headattn.models import TransformerEncoder
from recipes.engine.command import Command
from recipes.engine.config import option, settings
from recipes.engine.data import Corpora
from recipes.engine.modelling import make_attention, make_optimizer
from recipes.engine.recipe import Recipe, check_readable
from recipes.engine.settings import Settings


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

    def check(self):
        if self.train and not self.validation:
            raise ValueError(f"--train needs --validation. Received: train={self.train}, without --validation")


def train(config, session):
    """Trains a tagger, or goes on; then scores and exports it."""
    attention = make_attention(config, config.hidden_dim, num_heads=4)
    with session(config) as run:
        data = run.read(lambda: Corpora(read(config.train), read(config.validation), read_each(config.test)))
        pairs = [pair for sentence in data.train for pair in sentence]
        run.keep("names.json", json.dumps([sorted(set(side)) for side in zip(*pairs, strict=True)]))
        words, tags = names_of(run)
        if unknown := {tag for sentence in data.validation for _, tag in sentence}.difference(tags):
            raise ValueError(f"--validation has tags that --train lacks. Received: {', '.join(sorted(unknown))}")
        columns = [columns_of(part, words, tags) for part in (data.train, data.validation)]
        buckets = choose_buckets(np.concatenate([example_lengths(part) for part in columns]), 4)
        common = dict(bucket_lengths=buckets, num_replicas=run.num_replicas, preprocess=example)
        batches = TokenBatches(columns[0], config.tokens_per_batch, seed=config.seed, **common)
        validation = TokenBatches(columns[1], config.tokens_per_batch, shuffle=False, **common)
        if run.is_unfinished():
            run.fit(
                batches,
                validation,
                lambda: run.load_pruned() or make_model(config, attention, len(words), len(tags)),
                optimizer=lambda _: make_optimizer(config, keras.optimizers.Adam, learning_rate=config.learning_rate),
                loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
                throughput=(lambda: batches.num_tokens["words"], "words_per_second"),
            )
        run.report(lambda model: score(run, model, data.tests))
        run.export(lambda model, folder: write(run, config, model, folder))
        run.close()


def read(files):
    """Reads sentences: lists of pairs of a word and its tag."""
    sentences = []
    for path in files:
        for number, line in enumerate(pathlib.Path(path).read_text(encoding="utf-8").splitlines(), 1):
            if wrong := [word for word in line.split() if "/" not in word[1:-1]]:
                raise ValueError(f"{path}, line {number} must have words such as cat/NOUN. Received: {wrong[0]}")
            sentences.append([tuple(word.rsplit("/", 1)) for word in line.split()])
    if files and not any(sentences):
        raise ValueError(f"The files have no sentences. Received: {', '.join(files)}")
    return list(filter(None, sentences))


def read_each(files):
    return {pathlib.Path(path).stem: read([path]) for path in files}


def names_of(run):
    """Returns the words and tags that a run has learned."""
    return json.loads((run.folder / "names.json").read_text())


def columns_of(sentences, words, tags):
    """Ids of words and tags, from 1. An unknown word has the id after the last one."""
    word_ids, tag_ids = ({name: 1 + i for i, name in enumerate(names)} for names in (words, tags))
    return {
        "words": [[word_ids.get(word, 1 + len(word_ids)) for word, _ in sentence] for sentence in sentences],
        "tags": [[tag_ids[tag] for _, tag in sentence] for sentence in sentences],
    }


def example(columns):
    """Inputs, labels, and weights, which are 0 at padding."""
    return columns["words"], columns["tags"], (columns["words"] != 0).astype("float32")


def make_model(config, attention, num_words, num_tags):
    sizes = dict(hidden_dim=config.hidden_dim, intermediate_dim=4 * config.hidden_dim, num_layers=config.num_layers)
    encoder = TransformerEncoder(2 + num_words, attention=attention, **sizes)
    ids = keras.Input((None,), dtype="int32", name="words")
    return keras.Model(ids, keras.layers.Dense(1 + num_tags, dtype="float32")(encoder(ids)))


def tag_words(run, model, sentence):
    """Returns the tags of a list of words."""
    words, tags = names_of(run)
    columns = columns_of([[(word, tags[0]) for word in sentence]], words, tags)
    return [tags[tag - 1] for tag in model(pad_ids(columns["words"], 1, len(sentence))).numpy()[0].argmax(-1)]


def evaluate(run, config, files=None):
    score(run, run.load_model(), read_each(config.test if files is None else files))


def score(run, model, tests):
    for name, sentences in tests.items():
        found = [tag for sentence in sentences for tag in tag_words(run, model, [word for word, _ in sentence])]
        hits = np.equal(found, [tag for sentence in sentences for _, tag in sentence])
        run.add_scores(name, {"accuracy": hits.mean()})
        print(f"{name}: accuracy {hits.mean():.4f} of {len(hits):,} words")


def write(run, config, model, folder):
    model.export(folder, verbose=False)


def tag(options):
    check_readable(options.file)
    run, _ = RECIPE.open(options.folder)
    model = run.load_model()
    for words in map(str.split, pathlib.Path(options.file).read_text(encoding="utf-8").splitlines()):
        print(*(f"{word}/{tag}" for word, tag in zip(words, tag_words(run, model, words), strict=True)))


def add_file(parser):
    RECIPE.add_run(parser)
    parser.add_argument("file", help="a sentence a line")


RECIPE = Recipe(
    name="parts",
    doc=__doc__,
    settings=PartsConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    files=("names.json",),
    check_files=lambda config: check_readable(*config.train, *config.validation, *config.test),
    evaluated=("test",),
    exported=("export",),
    commands={"tag": Command(tag, "the tags of a file's words", add_file)},
)

if __name__ == "__main__":
    RECIPE.main()

"""A tagger's training, its scores and its SavedModel."""

import functools
import json
import math

import keras
import numpy as np

from keras_headattn._files import read_lines, write_atomically
from keras_headattn.data import choose_buckets
from keras_headattn.models import TokenClassifier
from keras_headattn.serving import Tagger, export_tagger, write_examples
from keras_headattn.text import TextWindows, join_words
from keras_headattn.training import EpochScore
from recipes.engine import lora
from recipes.engine.config import passing_on
from recipes.engine.data import check_batch_size
from recipes.engine.encoders import (
    check_encoder,
    fine_tuning_optimizer,
    make_encoder,
    make_tokenizer,
    saved_tokenizer,
    warmup_steps,
    with_reduction,
)
from recipes.engine.exporting import packages_of, smoke_test
from recipes.engine.modelling import column_trainer
from recipes.engine.progress import progress_bar
from recipes.tag.batches import TokenLabelBatches
from recipes.tag.conll import tag_names, tag_scores
from recipes.tag.data import read_corpora, read_tests

PORTION = 1_000  # sentences encoded at a time
SMOKE_TEST = """
found = call(text=tf.constant(given))
rows = zip(found["entities"].numpy(), found["kinds"].numpy())
result = [[f"{kind.decode()} {text.decode()}" for text, kind in zip(*row) if kind] for row in rows]
"""


def train(config, session):
    """Trains a tagger, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        sentences = run.read(lambda: read_corpora(config))
        names = tag_names(sentences.train.tags)
        report_unknown(names, sentences)
        run.keep("labels.txt", "".join(f"{name}\n" for name in names))
        texts = functools.partial(map, " ".join, sentences.train.words)
        tokenizer = run.once(lambda: make_tokenizer(run, config, texts))
        if run.is_unfinished():
            fit(run, sentences, names, tokenizer)
        run.report(lambda model: score(run, config, model, sentences.tests))
        run.export(lambda model, folder: write(run, config, model, folder, sentences))
        run.close([f"python -m recipes.tag predict {config.run} FILE"])


def check(config):
    """Makes a model and an optimizer, thrown away: wrong settings are reported before data are read."""
    check_encoder(config)
    if config.size:
        make_model(config, 8, 2)
    fine_tuning_optimizer(config, 1)


def report_unknown(names, sentences):
    """Prints the tags of test sets that the training set lacks."""
    for corpus in (sentences.validation, *sentences.tests.values()):
        if unknown := set(tag_names(corpus.tags)) - set(names):
            print(f"{corpus.name} has tags that are not learned: {', '.join(sorted(unknown))}")


def fit(run, sentences, names, tokenizer):
    """Trains on windows of sentences, whose pieces have labels."""
    config = run.config
    check_batch_size(config.batch_size, run.num_replicas)
    parts = [encode(part, names, tokenizer, config.max_length) for part in (sentences.train, sentences.validation)]
    buckets = choose_buckets([len(row) for rows, _ in parts for row in rows], config.num_buckets)
    common = dict(batch_size=config.batch_size, bucket_lengths=buckets, seed=config.seed, pad_id=tokenizer.pad_id)
    common["is_sum"] = config.optimizer == "electra"
    batches, validation = (TokenLabelBatches(*part, training=part is parts[0], **common) for part in parts)
    print(f"{len(names)} tags, {tokenizer.vocabulary_size:,} pieces")

    def model():
        network = run.load_pruned() or make_model(config, tokenizer.vocabulary_size, len(names))
        lora.adapt(network.encoder, config)
        return network

    def scores(model):
        tagger, held_out = Tagger(model, tokenizer, names, config.max_length), sentences.validation
        return [EpochScore(lambda _: measure(held_out.tags, tagger.tag_words(held_out.words))["score"], "val_score")]

    run.fit(
        batches,
        validation,
        model,
        trainer=lambda model: column_trainer(["text"], lambda columns: model(columns["text"])),
        optimizer=lambda model: fine_tuning_optimizer(config, len(batches), model.encoder.num_layers),
        loss=with_reduction(keras.losses.SparseCategoricalCrossentropy(from_logits=True), config),
        metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        throughput=(lambda: batches.num_examples, "texts_per_second"),
        scores=scores,
        warmup=warmup_steps(config, len(batches)),
        merge=lambda model: lora.merge(model, config),
    )


def make_model(config, vocabulary_size, num_tags):
    """Returns an encoder of the settings with a head for each token."""
    encoder, _, of_head = make_encoder(config, vocabulary_size, TokenClassifier)
    with passing_on("model_arguments"):
        model = TokenClassifier(encoder, num_tags, **of_head)
    model.build()
    return model


def encode(corpus, names, tokenizer, max_length):
    """Returns rows of ids, the windows of all sentences, and the label of each id, -1 for none."""
    windows = TextWindows(tokenizer, max_length)
    ids = {name: index for index, name in enumerate(names)}
    rows, labels = [], []
    for begin in range(0, len(corpus), PORTION):
        part = corpus.take(range(begin, min(begin + PORTION, len(corpus))))
        texts, *spans = join_words(part.words)
        encoded = windows(texts)
        places = encoded.first_pieces(*spans).flat_values.numpy()
        of_words = np.array([ids.get(tag, -1) for tags in part.tags for tag in tags])
        token_ids = encoded.token_ids.numpy()
        of_ids = np.full(token_ids.size, -1)
        of_ids[places[places >= 0]] = of_words[places >= 0]
        lengths = (token_ids != tokenizer.pad_id).sum(axis=1)
        rows += [row[:length] for row, length in zip(token_ids, lengths, strict=True)]
        labels += [row[:length] for row, length in zip(of_ids.reshape(token_ids.shape), lengths, strict=True)]
    return rows, labels


def learned(run):
    """Returns the tokenizer and the names of the tags of a run."""
    return saved_tokenizer(run.folder / "tokenizer.json"), list(read_lines(run.folder / "labels.txt"))


def evaluate(run, config, files=None):
    """Scores a finished run on the test sets of files, or for `None` on its own."""
    tests = read_tests(config, files)
    tests = run.name_results(config, tests, ["max_examples"], files, ("word_column", "tag_column"))
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests):
    """Tags test sets, prints the scores, and writes them with the predictions."""
    tagger = Tagger(model, *learned(run), config.max_length)
    for name, corpus in tests.items():
        predicted = tagger.tag_words(corpus.words, progress_bar(f"Reading {name}", len(corpus), config.quiet))
        scores = measure(corpus.tags, predicted)
        print(f"{name}: " + ", ".join(f"{measure} {value:.4f}" for measure, value in scores.items()))
        write_results(run.results / name, corpus, predicted, scores)


def measure(tags, predicted):
    """Returns the scores of tags, first `score`: 100 times F1, or the accuracy of tags that mark no entities."""
    scores = tag_scores(tags, predicted)
    return {"score": 100 * scores.get("f1", scores["accuracy"])} | scores


def write_results(folder, corpus, predicted, scores):
    """Writes the scores, and a CoNLL file of words, tags and predicted tags."""
    record = {name: None if math.isnan(value) else value for name, value in scores.items()}
    record["examples"] = len(corpus)
    write_atomically(folder / "scores.json", (json.dumps(record, indent=2) + "\n").encode())
    sentences = zip(corpus.words, corpus.tags, predicted, strict=True)
    blocks = ["".join(f"{' '.join(row)}\n" for row in zip(*columns, strict=True)) for columns in sentences]
    write_atomically(folder / "predictions.conll", "\n".join(blocks).encode("utf-8"))


def write(run, config, model, folder, sentences=None):
    """Writes a SavedModel, and tries it on some sentences of a test set if there are any."""
    tokenizer, names = learned(run)
    common = dict(max_length=config.max_length, run=config.run, **config.export_arguments)
    path = export_tagger(model, tokenizer, names, folder, **common)
    if sentences and config.samples:
        corpus = next(iter(sentences.tests.values()), sentences.validation)
        texts = list(map(" ".join, corpus.sample(config.samples, config.seed).words))
        write_examples(path, [{"text": text} for text in texts])
        tried = smoke_test(path, SMOKE_TEST, texts, *packages_of(tokenizer))
        for text, entities in zip(texts, tried, strict=True):
            print(f"  {text}\n    -> {', '.join(entities) or 'nothing'}")

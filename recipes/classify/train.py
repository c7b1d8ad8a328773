"""Training of a classifier of texts, its scores and its SavedModel."""

import functools

from recipes.classify.modelling import make_classifier
from recipes.classify.predicting import Predictor
from recipes.classify.settings import OPTIMIZERS
from recipes.classify.text import encode_columns, load_embeddings, make_tokenizer
from recipes.engine.modelling import column_trainer, make_optimizer
from recipes.engine.texts import evaluation
from recipes.engine.texts.data import load_corpora, read_tests
from recipes.engine.texts.targets import KINDS
from recipes.engine.texts.training import (
    keep_labels,
    kept_labels,
    make_batches,
    model_inputs,
    start_at_mean,
    try_samples,
    write_classifier,
)


def train(config, session):
    """Trains a classifier, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        texts = run.read(lambda: load_corpora(config))
        targets = targets_of(config, corpus=texts.train)
        keep_labels(run, targets, texts)
        tokenizer = run.once(lambda: tokenizer_of(run, config, texts.train))
        if run.is_unfinished():
            fit(run, texts, targets, tokenizer)
        run.report(lambda model: score(run, config, model, texts.tests))
        run.export(lambda model, folder: write(run, config, model, folder, texts))
        run.close()


def check(config):
    """Makes a model and an optimizer, thrown away: wrong settings are reported before data are read."""
    make_classifier(config, 8, 2)
    optimizer_of(config)


def optimizer_of(config):
    """Returns the optimizer."""
    return make_optimizer(config, OPTIMIZERS[config.optimizer], learning_rate=config.learning_rate)


def targets_of(config, names=None, corpus=None):
    """Returns what is predicted: the labels `names`, or for `None` those of a training set."""
    kind = KINDS[config.predict]
    options = dict(label_smoothing=config.label_smoothing, label_separator=config.label_separator)
    return kind.learn(corpus, config.labels, **options) if names is None else kind(names, **options)


def tokenizer_of(run, config, train=None):
    """Returns the tokenizer of a run, which is learned from a training set if the run's folder lacks it."""
    options = dict(vocabulary_size=config.vocabulary_size, min_count=config.min_count, lowercase=config.lowercase)
    return make_tokenizer(train, run.folder, config.tokens, **options)


def fit(run, texts, targets, tokenizer):
    """Trains on the ids of texts."""
    config = run.config
    encode = functools.partial(encode_columns, tokenizer=tokenizer, max_length=config.max_length)
    batches, validation = make_batches(run, texts, targets, tokenizer, encode, config.tokens)

    def model():
        pruned = run.load_pruned()
        if pruned:
            return pruned
        model = make_classifier(config, tokenizer.vocabulary_size, targets.width)
        if not run.has_checkpoint():
            start_at_mean(model, targets, texts.train)
            rows = [ids for column in batches.columns.values() for ids in column]
            if config.encoder == "naive_bayes":
                model.learn_ratios(rows, targets.of(texts.train))
            elif config.embeddings:
                load_embeddings(config.embeddings, tokenizer, model.encoder.get_layer("embedding"), rows)
        return model

    run.fit(
        batches,
        validation,
        model,
        trainer=lambda model: column_trainer(batches.columns, lambda columns: model(model_inputs(columns))),
        optimizer=lambda model: optimizer_of(config),
        loss=targets.make_loss(),
        metrics=targets.make_metrics,
        throughput=(lambda: batches.num_examples, "texts_per_second"),
        jit_compile=False if config.encoder == "bilstm" else None,  # XLA lacks the cuDNN kernels of a BiLSTM on GPUs
    )


def load_predictor(run, config, model):
    """Returns the `Predictor` of a run, with what it has learned."""
    return Predictor(model, tokenizer_of(run, config), targets_of(config, kept_labels(run)), config.max_length)


def evaluate(run, config, files=None):
    """Scores a finished run on the test sets of files, or for `None` on its own."""
    tests = evaluation.tests_of(run, config, files, load_corpora, read_tests)
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests):
    """Classifies test sets, prints the scores, and writes them with the predictions."""
    predictor = load_predictor(run, config, model)
    evaluation.evaluate(predictor, tests, predictor.targets, run.results, config.quiet)


def write(run, config, model, folder, texts=None):
    """Writes a SavedModel, and tries it on some texts of a test set if there are any."""
    predictor = load_predictor(run, config, model)
    path = write_classifier(predictor, config, folder)
    try_samples(path, config, predictor.tokenizer, texts)

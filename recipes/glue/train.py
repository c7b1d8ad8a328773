"""Fine-tuning of an encoder with a head, or of T5, its scores and its SavedModel."""

import keras
import tensorflow as tf

from recipes.engine import lora
from recipes.engine.encoders import (
    check_encoder,
    fine_tuning_optimizer,
    make_tokenizer,
    saved_tokenizer,
    warmup_steps,
    with_reduction,
)
from recipes.engine.modelling import column_trainer, count_flops
from recipes.engine.texts import evaluation
from recipes.engine.texts.predicting import TextPredictor
from recipes.engine.texts.training import (
    keep_labels,
    kept_labels,
    make_batches,
    model_inputs,
    start_at_mean,
    try_samples,
    write_classifier,
)
from recipes.glue import text_to_text
from recipes.glue.data import read_corpora, read_tests
from recipes.glue.demo import number_sentences
from recipes.glue.label_texts import WRITTEN
from recipes.glue.masked_words import fill_in
from recipes.glue.modelling import is_t5, make_classifier
from recipes.glue.targets import SCORED, targets_of

PRETRAINED = "pretrained.weights.h5"


def train(config, session):
    """Fine-tunes an encoder or a T5, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        writes = is_t5(config.checkpoint, run.folder)  # its labels; others have a head
        texts = run.read(lambda: read_corpora(config))
        targets = targets_of(config, corpus=texts.train, kinds=WRITTEN if writes else SCORED)
        keep_labels(run, targets, texts)
        tokenizer = run.once(lambda: make_tokenizer(run, config, lambda: texts_to_learn(config, texts.train)))
        if config.pretraining_epochs:
            run.once(lambda: pretrain(run, targets, tokenizer))
        if run.is_unfinished():
            (text_to_text.fit if writes else fit)(run, texts, targets, tokenizer)
        run.report(lambda model: score(run, config, model, texts.tests))
        run.export(lambda model, folder: write(run, config, model, folder, texts))
        run.close()


def check(config):
    """Makes a model and an optimizer, thrown away: wrong settings are reported before data are read."""
    check_encoder(config, takes_t5=True)
    if config.size:
        make_classifier(config, 8, 2)
    if config.task == "language" and not config.checkpoint:
        raise ValueError("--task language needs --checkpoint, a run of recipes.pretrain say. Received: none")
    if is_t5(config.checkpoint, config.run):
        text_to_text.check(config)
    fine_tuning_optimizer(config, 1)


def texts_to_learn(config, corpus):
    """Returns the texts that a tokenizer is learned from."""
    if config.built_in:
        return number_sentences(seed=config.split_seed)
    return [*corpus.texts, *(corpus.second_texts or ())]


def pretrain(run, targets, tokenizer):
    """Trains the encoder on masked words of the synthetic sentences and keeps its weights, unless that was done."""
    config, path = run.config, run.folder / PRETRAINED
    if not path.exists():
        encoder = make_model(config, tokenizer, targets).encoder
        rows = tokenizer.encode(number_sentences(seed=config.split_seed))
        epochs, rate = config.pretraining_epochs, config.pretraining_rate
        print(f"Masked words of {len(rows):,} sentences, {epochs} epochs")
        accuracy = fill_in(encoder, rows, tokenizer, epochs, rate, seed=config.seed, quiet=config.quiet)
        print(f"{accuracy:.1%} of the masked words were found.")
        run.save_model(encoder, path)
    keras.utils.set_random_seed(config.seed)  # a continued run does not pre-train again


def make_model(config, tokenizer, targets):
    """Returns an encoder of the settings with a head."""
    model = make_classifier(config, tokenizer.vocabulary_size, targets.width)
    model.build()
    return model


def fit(run, texts, targets, tokenizer):
    """Trains an encoder with its head on the ids of texts."""
    config = run.config

    def encode(corpus):
        ids = tokenizer.encode(corpus.texts, corpus.second_texts)
        return ids if isinstance(ids, dict) else {"text": ids}

    batches, validation = make_batches(run, texts, targets, tokenizer, encode)

    def model():
        model = run.load_pruned()
        if model is None:
            model = make_model(config, tokenizer, targets)
            if not run.has_checkpoint():
                start_at_mean(model, targets, texts.train)
                if config.pretraining_epochs:
                    model.encoder.load_weights(run.folder / PRETRAINED)
        lora.adapt(model.encoder, config)
        return model

    run.fit(
        batches,
        validation,
        model,
        trainer=lambda model: column_trainer(batches.columns, lambda columns: model(model_inputs(columns))),
        optimizer=lambda model: fine_tuning_optimizer(config, len(batches), model.encoder.num_layers),
        loss=with_reduction(targets.make_loss(), config),
        metrics=targets.make_metrics,
        throughput=(lambda: batches.num_examples, "texts_per_second"),
        warmup=warmup_steps(config, len(batches)),
        merge=lambda model: lora.merge(model, config),
        flops=lambda model: count_flops(lambda: model(tf.ones((1, config.max_length), tf.int32))),
    )


def load_predictor(run, config, model):
    """Returns the predictor of a run, with what it has learned: a `TextPredictor`, of T5 a `LabelWriter`."""
    tokenizer, names = saved_tokenizer(run.folder / "tokenizer.json"), kept_labels(run)
    if is_t5(config.checkpoint, run.folder):
        # T5's texts begin with column names: a finished run keeps those that it was trained with.
        targets = targets_of(run.read_config(), names, kinds=WRITTEN)
        return text_to_text.LabelWriter(model, tokenizer, targets, config.max_length)
    return TextPredictor(model, tokenizer, targets_of(config, names), config.max_length)


def evaluate(run, config, files=None):
    """Scores a finished run on the test sets of files, or for `None` on its own."""
    tests = evaluation.tests_of(run, config, files, read_corpora, read_tests)
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests):
    """Predicts the labels of test sets, prints the scores, and writes them with the predictions."""
    predictor = load_predictor(run, config, model)
    evaluation.evaluate(predictor, tests, predictor.targets, run.results, config.quiet)


def write(run, config, model, folder, texts=None):
    """Writes a SavedModel, and tries it on some texts of a test set if there are any."""
    predictor = load_predictor(run, config, model)
    writes = isinstance(predictor, text_to_text.LabelWriter)
    path = (text_to_text.write if writes else write_classifier)(predictor, config, folder)
    try_samples(path, config, predictor.tokenizer, texts)

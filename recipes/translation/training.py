"""Training a translator, to its evaluation and export."""

import functools
import time

from keras_headattn.data import (
    RecordBatches,
    Records,
    TokenBatches,
    choose_buckets,
    example_lengths,
    teacher_forcing,
)
from keras_headattn.training import chief_first, default_jit, gather, is_chief
from recipes.engine.checkpoints import finish, has_stalled
from recipes.engine.start import ready_to_train
from recipes.translation.callbacks import make_callbacks
from recipes.translation.corpora import load_corpora
from recipes.translation.evaluation import check_metrics, evaluate
from recipes.translation.exporting import export
from recipes.translation.modelling import make_attentions, make_trainer, make_transformer
from recipes.translation.prepare import COLUMNS, prepare, sample_pairs, take_text
from recipes.translation.run import Run
from recipes.translation.tensorboard import show_embeddings
from recipes.translation.text import check_text, make_text
from recipes.translation.translator import Translator, check_beam


def train(config, afresh=False):
    """Trains to the end, or on from the last checkpoint; then evaluates, exports and shows translations.

    Args:
        config: `TranslateConfig`.
        afresh: Whether what an earlier run left in the folder is removed.
    """
    with ready_to_train(config, functools.partial(_check, config), config.strategy) as strategy:
        _train(config, Run(config.run), strategy, afresh)


def _check(config):
    check_metrics(config.metrics, config.target_language, config.embeddings)
    check_text(config)
    make_attentions(config)


def _train(config, run, strategy, afresh):
    with chief_first(strategy):
        if afresh and is_chief(strategy):
            run.clear()
        run.check(config)
        corpora = load_corpora(config)  # which may download
    if not corpora.tests:
        print("There is no test set: nothing will be scored. Give --test, or score one later with `evaluate`.")
    with chief_first(strategy):
        if config.records:
            prepare(config)
        if is_chief(strategy):
            run.start(config)
        if config.records:
            take_text(config, run.folder)
        text = make_text(config, corpora.train and sample_pairs(config, corpora.train, corpora.train.name), run.folder)
    check_beam(config, text)
    batches, validation = make_batches(config, corpora, text, strategy.num_replicas_in_sync)
    print(batches.summary())
    transformer = fit(config, run, strategy, text, corpora, batches, validation)
    if is_chief(strategy):
        end(config, run, transformer, text, corpora.tests)


def end(config, run, transformer, text, tests):
    """Finishes a trained model: final weights, scores, SavedModels."""
    epochs = finish(run, transformer, config.average, config.average_of)
    print(f"Final weights: mean of epochs {epochs}" if len(epochs) > 1 else f"Final weights: epoch {epochs[0]}")
    if config.projector:
        show_embeddings(run, transformer, text)
    evaluate(Translator(transformer, text, config), tests, config, run.results)
    if config.export:
        export(config, transformer, text, [s for corpus in tests.values() for s in corpus.source])


def fit(config, run, strategy, text, corpora, batches, validation):
    """Trains the model, new or from the run's last checkpoint, and returns the `Transformer` in it."""
    jit_compile = default_jit(strategy) if config.xla is None else config.xla
    with strategy.scope():
        transformer = make_transformer(config, text.source.vocabulary_size, text.target.vocabulary_size)
        trainer = make_trainer(config, transformer, jit_compile)
    print(
        f"{transformer.count_params():,} parameters, {config.attention} attention, "
        f"{strategy.num_replicas_in_sync} replica(s), XLA {'on' if jit_compile else 'off'}"
    )
    history = run.history()
    is_done = len(history) >= config.epochs or has_stalled(history, config.patience)
    if gather([is_done], strategy).any():
        print("There is no epoch left to train.")
        return transformer
    start = time.monotonic()
    trainer.fit(
        batches.dataset(),
        validation_data=validation,
        epochs=config.epochs,
        shuffle=False,  # the batches have an order of their own, which a resumed run repeats
        callbacks=make_callbacks(config, run, transformer, text, corpora, batches),
    )
    print(f"Trained for {(time.monotonic() - start) / 60:.1f} minutes.")
    return transformer


def make_batches(config, corpora, text, num_replicas):
    """Training and validation batches, in length buckets chosen from the training corpus.

    Validation has one more bucket if it has longer pairs, within `max_length`. It says how many pairs are beyond that.
    """
    if config.records:
        records = Records(config.records)
        histogram = records.histogram()
        lengths, counts = histogram["length"], histogram["examples"]
    else:
        train = _encode(config, text, corpora.train, "train")
        lengths, counts = example_lengths(train), None
    validation = _encode(config, text, corpora.validation, "validation")
    short = lengths <= config.max_length
    buckets = choose_buckets(
        lengths[short], config.num_buckets, config.max_padding, None if counts is None else counts[short]
    )
    common = dict(
        tokens_per_batch=config.tokens_per_batch,
        num_replicas=num_replicas,
        preprocess=functools.partial(teacher_forcing, bos_id=text.target.bos_id),
    )
    if config.records:
        batches = RecordBatches(records, bucket_lengths=buckets, seed=config.seed, columns=COLUMNS, **common)
    else:
        batches = TokenBatches(train, bucket_lengths=buckets, seed=config.seed, **common)
    longest = max(length for length in example_lengths(validation).tolist() if length <= config.max_length)
    if longest > buckets[-1]:
        buckets = *buckets, longest
    validation = TokenBatches(validation, bucket_lengths=buckets, shuffle=False, **common)
    if validation.num_dropped:
        print(
            f"{validation.num_dropped:,} of {len(corpora.validation):,} validation pairs left out: "
            f"a side of more tokens than --max-length {config.max_length}"
        )
    return batches, validation


def _encode(config, text, corpus, name):
    """Token ids of both sides, by their names."""
    columns = {"source": text.encode_source(corpus.source), "target": text.encode_target(corpus.target)}
    if min(example_lengths(columns)) > config.max_length:
        raise ValueError(
            f"Every pair of the {name} set has a side of more tokens than --max-length. "
            f"Received: max_length={config.max_length}"
        )
    return columns

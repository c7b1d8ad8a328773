"""Training a translator, to its evaluation and export."""

import time

import keras

from keras_headattn.training import default_jit, make_strategy
from recipes.data.batching import TokenBatches
from recipes.data.buckets import choose_buckets
from recipes.translation.callbacks import make_callbacks
from recipes.translation.corpora import load_corpora
from recipes.translation.evaluation import evaluate, named_metrics
from recipes.translation.exporting import export
from recipes.translation.modelling import make_trainer, make_transformer
from recipes.translation.run import Run, SaveEpochs, finish
from recipes.translation.text import make_text
from recipes.translation.translator import Translator


def train(config):
    """Trains to the end, or on from the last checkpoint; then evaluates, exports and shows translations."""
    named_metrics(config.metrics, config.target_language, config.embeddings)
    strategy = make_strategy(config.replicas)
    keras.utils.set_random_seed(config.seed)
    keras.config.set_dtype_policy(config.precision)
    run = Run(config.run)
    run.check(config)
    corpora = load_corpora(config)
    run.start(config)
    text = make_text(config, corpora.train, run.folder)
    batches, validation = make_batches(config, corpora, text, strategy.num_replicas_in_sync)
    print(batches.summary())
    transformer = fit(config, run, strategy, text, corpora, batches, validation)
    epochs = finish(run, transformer, config.average)
    print(f"Final weights: mean of epochs {epochs}" if len(epochs) > 1 else f"Final weights: epoch {epochs[0]}")
    evaluate(Translator(transformer, text, config), corpora.tests, config, run.results)
    export(config, transformer, text, [s for corpus in corpora.tests.values() for s in corpus.source])


def fit(config, run, strategy, text, corpora, batches, validation):
    """Trains the model, new or from the run's last checkpoint, and returns the `Transformer` in it."""
    done = run.state()["epoch"]
    jit_compile = default_jit(strategy) if config.xla is None else config.xla
    with strategy.scope():
        if done:
            print(f"Continuing after epoch {done}.")
            trainer = keras.saving.load_model(run.checkpoints / "last.keras")
            trainer.jit_compile = jit_compile
            transformer = next(layer for layer in trainer.layers if hasattr(layer, "decode_step"))
        else:
            transformer = make_transformer(config, text.source.vocabulary_size, text.target.vocabulary_size)
            trainer = make_trainer(config, transformer, jit_compile)
    print(
        f"{transformer.count_params():,} parameters, {config.attention} attention, "
        f"{strategy.num_replicas_in_sync} replica(s), XLA {'on' if jit_compile else 'off'}"
    )
    start = time.monotonic()
    trainer.fit(
        batches,
        validation_data=validation,
        initial_epoch=done,
        epochs=config.epochs,
        shuffle=False,  # the batches have an order of their own, which a resumed run repeats
        callbacks=[
            batches.epoch_callback(),
            *make_callbacks(config, run, transformer, text, corpora, batches),
            SaveEpochs(run, transformer, config.average),
        ],
    )
    print(f"Trained for {(time.monotonic() - start) / 60:.1f} minutes.")
    return transformer


def make_batches(config, corpora, text, num_replicas):
    """Training and validation batches, in length buckets chosen from the training corpus."""
    source, target = text.encode_source(corpora.train.source), text.encode_target(corpora.train.target)
    lengths = [max(len(s), len(t)) for s, t in zip(source, target, strict=True)]
    buckets = choose_buckets([length for length in lengths if length <= config.max_length], config.num_buckets)
    common = dict(
        tokens_per_batch=config.tokens_per_batch,
        num_replicas=num_replicas,
        bos_id=text.target.bos_id,
        bucket_lengths=buckets,
    )
    validation = TokenBatches(
        text.encode_source(corpora.validation.source),
        text.encode_target(corpora.validation.target),
        shuffle=False,
        **common,
    )
    return TokenBatches(source, target, seed=config.seed, **common), validation

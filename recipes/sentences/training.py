"""Training a classifier of texts, to its evaluation and export."""

import functools
import time

from keras_headattn.data import LabelledBatches, balanced_class_weights, choose_buckets, example_lengths
from keras_headattn.training import chief_first, default_jit, gather, is_chief
from recipes.engine.checkpoints import finish, has_stalled
from recipes.engine.start import ready_to_train
from recipes.sentences.callbacks import make_callbacks
from recipes.sentences.data import label_names, label_numbers, load_corpora
from recipes.sentences.evaluation import evaluate
from recipes.sentences.exporting import export
from recipes.sentences.modelling import make_attention, make_classifier, make_optimizer, make_trainer
from recipes.sentences.predicting import Predictor
from recipes.sentences.run import Run
from recipes.sentences.text import embedding_width, encode_columns, load_embeddings, make_tokenizer


def train(config, afresh=False):
    """Trains to the end, or on from the last checkpoint; then evaluates, exports and shows labels of a few texts.

    Args:
        config: `ClassifyConfig`.
        afresh: Whether what an earlier run left in the folder is removed.
    """
    with ready_to_train(config, functools.partial(_check, config), config.strategy) as strategy:
        _train(config, Run(config.run), strategy, afresh)


def _check(config):
    embedding_width(config), make_attention(config), make_optimizer(config)


def _train(config, run, strategy, afresh):
    with chief_first(strategy):
        if afresh and is_chief(strategy):
            run.clear()
        run.check(config)
        corpora = load_corpora(config)  # which may download
    names = label_names(config, corpora.train)
    for corpus in corpora.tests.values():
        label_numbers(corpus, names)  # an unknown label is told before training, not after it
    with chief_first(strategy):
        if is_chief(strategy):
            run.start(config)
            run.save_labels(names)
        tokenizer = make_tokenizer(config, corpora.train, run.folder)
    batches, validation = make_batches(config, corpora, tokenizer, names, strategy.num_replicas_in_sync)
    print(f"{len(names)} labels, {tokenizer.vocabulary_size:,} {config.tokens}\n{batches.summary()}")
    classifier = fit(config, run, strategy, tokenizer, len(names), batches, validation)
    if is_chief(strategy):
        end(config, run, classifier, tokenizer, names, corpora)


def fit(config, run, strategy, tokenizer, num_classes, batches, validation):
    """Trains the model, new or from the run's last checkpoint, and returns the classifier in it."""
    # A BiLSTM has kernels of cuDNN's on GPUs, which XLA does not have.
    jit_compile = default_jit(strategy) and config.encoder != "bilstm" if config.xla is None else config.xla
    with strategy.scope():
        classifier = make_classifier(config, tokenizer.vocabulary_size, num_classes)
        trainer = make_trainer(config, classifier, jit_compile)
    print(
        f"{classifier.count_params():,} parameters, {config.encoder}, {config.num_heads} heads, "
        f"{strategy.num_replicas_in_sync} replica(s), XLA {'on' if jit_compile else 'off'}"
    )
    history = run.history()
    is_done = len(history) >= config.epochs or has_stalled(history, config.patience, config.select)
    if gather([is_done], strategy).any():
        print("There is no epoch left to train.")
        return classifier
    if config.embeddings and not run.has_checkpoint():
        texts = [ids for column in batches.columns.values() for ids in column]
        load_embeddings(config, tokenizer, classifier.encoder.embedding, texts)
    start = time.monotonic()
    trainer.fit(
        batches.dataset(),
        validation_data=validation.dataset(),
        epochs=config.epochs,
        shuffle=False,  # the batches have an order of their own, which a resumed run repeats
        callbacks=make_callbacks(config, run, classifier, batches),
    )
    print(f"Trained for {(time.monotonic() - start) / 60:.1f} minutes.")
    return classifier


def end(config, run, classifier, tokenizer, names, corpora):
    """Finishes a trained model: final weights, measures, SavedModel."""
    epochs = finish(run, classifier, config.average, config.average_of, config.select)
    print(f"Final weights: mean of epochs {epochs}" if len(epochs) > 1 else f"Final weights: epoch {epochs[0]}")
    evaluate(Predictor(classifier, tokenizer, config), corpora.tests, names, run.results)
    if config.export:
        export(config, classifier, tokenizer, names, next(iter(corpora.tests.values()), corpora.validation))


def make_batches(config, corpora, tokenizer, names, num_replicas):
    """Training and validation batches, in length buckets chosen from the training set."""
    common = dict(batch_size=config.batch_size, num_replicas=num_replicas, seed=config.seed)
    train, validation = (
        encode_columns(config, tokenizer, corpus.texts, corpus.second_texts)
        for corpus in (corpora.train, corpora.validation)
    )
    buckets = choose_buckets(example_lengths(train), config.num_buckets)
    labels = label_numbers(corpora.train, names)
    weights = balanced_class_weights(labels, len(names)) if config.class_weights == "balanced" else None
    batches = LabelledBatches(train, labels, bucket_lengths=buckets, class_weights=weights, training=True, **common)
    longest = int(example_lengths(validation).max())
    held_out = LabelledBatches(
        validation,
        label_numbers(corpora.validation, names),
        bucket_lengths=(*buckets, longest) if longest > buckets[-1] else buckets,
        **common,
    )
    return batches, held_out

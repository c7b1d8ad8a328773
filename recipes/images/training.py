"""Training a classifier of images, to its evaluation and export."""

import functools
import time

from keras_headattn.training import default_jit
from recipes.engine.start import ready_to_train
from recipes.images.callbacks import make_callbacks
from recipes.images.data import load_training, load_validation, training_batches, validation_batches
from recipes.images.evaluation import evaluate
from recipes.images.exporting import export
from recipes.images.modelling import make_attention, make_classifier, make_trainer
from recipes.images.run import Run


def train(config, afresh=False):
    """Trains to the end, or on from the last checkpoint; then evaluates, exports and shows classes of a few images.

    Args:
        config: `ImageNetConfig`.
        afresh: Whether what an earlier run left in the folder is removed.
    """
    with ready_to_train(config, functools.partial(make_attention, config)) as strategy:
        run = Run(config.run)
        if afresh:
            run.clear()
        run.check(config)
        source = load_training(config)
        validation = load_validation(config, source.class_names)
        run.start(config)
        run.save_class_names(source.class_names)
        fit(config, run, strategy, source, validation)
        end(config, run, source.class_names, validation)


def fit(config, run, strategy, source, validation):
    """Trains the network, new or from the run's last checkpoint, and writes it to the run's folder."""
    num_replicas = strategy.num_replicas_in_sync
    jit_compile = default_jit(strategy) if config.xla is None else config.xla
    batches = training_batches(config, source, num_replicas)
    held_out = validation_batches(config, validation, num_replicas)
    with strategy.scope():
        classifier = make_classifier(config, len(source.class_names))
        trainer = make_trainer(config, classifier, num_replicas, len(batches), jit_compile)
    print(
        f"{len(source):,} images of {len(source.class_names):,} classes, {len(validation):,} to evaluate on; "
        f"{len(batches):,} steps of {batches.batch_size} images an epoch\n"
        f"{config.model}, attention {config.attention}, {classifier.count_params():,} parameters, "
        f"{num_replicas} replica(s), XLA {'on' if jit_compile else 'off'}"
    )
    start = time.monotonic()
    trainer.fit(
        batches.dataset(),
        validation_data=held_out.dataset(),
        epochs=config.epochs,
        shuffle=False,  # the batches have an order of their own, which a resumed run repeats
        callbacks=make_callbacks(config, run, batches, held_out),
    )
    print(f"Trained for {(time.monotonic() - start) / 60:.1f} minutes.")
    run.save_model(classifier, run.model)


def end(config, run, class_names, validation):
    """Finishes a run: accuracy, SavedModels."""
    classifier = run.load_model()
    evaluate(classifier, validation_batches(config, validation, 1), run.results / config.validation_split)
    if config.export:
        export(config, classifier, class_names, validation)

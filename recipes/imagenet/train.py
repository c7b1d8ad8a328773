"""Training of a classifier of images, its scores and its SavedModels."""

import base64
import math

import keras
import tensorflow as tf
from keras.callbacks import LambdaCallback

from keras_headattn._files import read_lines
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.optimizers import StepDecay
from keras_headattn.serving import export_image_classifier, export_pixel_classifier
from recipes.engine.exporting import smoke_test
from recipes.engine.modelling import count_flops, make_optimizer
from recipes.imagenet.augmentation import decode
from recipes.imagenet.data import (
    evaluation_pixels,
    fingerprint,
    load_validation,
    read_corpora,
    training_batches,
    validation_batches,
)
from recipes.imagenet.evaluation import report_damaged, score_images
from recipes.imagenet.modelling import make_classifier, make_metrics
from recipes.imagenet.settings import OPTIMIZERS

DECAYS = (0.3, 0.6, 0.8, 0.9)  # shares of the epochs after which the rate falls
# Parts of names: biases, norms, class token and positions.
WITHOUT_DECAY = ["bias", "gamma", "beta", "class_token", "embeddings"]
SMOKE_TEST = """
import base64
found = call(images=tf.constant([base64.b64decode(file) for file in given]))
result = [[row[0].decode() for row in found["classes"].numpy()], found["scores"][:, 0].numpy().tolist()]
"""


def train(config, session):
    """Trains a network, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        images = run.read(lambda: read_corpora(config), fingerprint)
        run.keep("classes.txt", "".join(f"{name}\n" for name in images.train.class_names))
        if run.is_unfinished():
            fit(run, images)
        run.report(lambda model: score(run, config, model, images.tests))
        run.export(lambda model, *folders: write(run, config, model, *folders, source=images.validation))
        run.close([f"python -m recipes.imagenet classify {config.run} FILE"])


def check(config):
    """Makes a model and an optimizer, thrown away: wrong settings are reported before data are read."""
    make_classifier(config, 2)
    classifier_optimizer(config, 1, 1)


def fit(run, images):
    """Trains on augmented images."""
    config, num_classes = run.config, len(class_names(run))
    print(f"{len(images.train):,} images of {num_classes:,} classes, {len(images.validation):,} to evaluate on")
    batches = training_batches(config, images.train, run.num_replicas)
    validation = validation_batches(config, images.validation, run.num_replicas, config.mixes)
    steps, size, damaged = len(batches), config.image_size, run.folder / "damaged.txt"
    loss = LabelSmoothedCrossentropy(config.label_smoothing)
    if config.mixes:
        arguments = dict(from_logits=True, label_smoothing=config.label_smoothing, dtype="float32")
        loss = keras.losses.CategoricalCrossentropy(**arguments)
    run.fit(
        batches,
        validation,
        lambda: run.load_pruned() or make_classifier(config, num_classes, len(images.train) / batches.batch_size),
        optimizer=lambda model: classifier_optimizer(config, steps, run.num_replicas),
        loss=loss,
        metrics=lambda: make_metrics(num_classes, config.mixes),
        throughput=(lambda: steps * batches.batch_size, "images_per_second"),
        shown=lambda model: [
            LambdaCallback(on_epoch_end=lambda epoch, logs: report_damaged(damaged, batches, validation))
        ],
        warmup=warmup_steps(config, steps),
        flops=lambda model: count_flops(lambda: model(tf.zeros((1, size, size, 3)))),
    )


def warmup_steps(config, steps):
    """Returns the steps in which the learning rate rises, for so many steps an epoch."""
    epochs = config.warmup_epochs
    return round((min(5, config.epochs / 10) if epochs is None else epochs) * steps)


def classifier_optimizer(config, steps, num_replicas):
    """Returns the optimizer, for so many steps an epoch."""
    arguments = {"learning_rate": learning_rate(config, steps, num_replicas)}
    if config.optimizer == "sgd":  # its weight decay is in the loss
        return make_optimizer(config, keras.optimizers.SGD, **arguments)
    optimizer = make_optimizer(config, OPTIMIZERS[config.optimizer], weight_decay=config.weight_decay, **arguments)
    optimizer.exclude_from_weight_decay(var_names=WITHOUT_DECAY)
    return optimizer


def learning_rate(config, steps, num_replicas):
    """Returns the learning rate by step, for so many steps an epoch."""
    peak = config.learning_rate * config.batch_size * num_replicas / 256
    warmup = warmup_steps(config, steps)
    if config.schedule == "step":
        epochs = config.decay_epochs or sorted({math.ceil(share * config.epochs) for share in DECAYS})
        return StepDecay(peak, warmup, [epoch * steps for epoch in epochs])
    falling = max(1, config.epochs * steps - warmup)
    rise = dict(initial_learning_rate=0.0, warmup_target=peak, warmup_steps=warmup) if warmup else {}
    return keras.optimizers.schedules.CosineDecay(**{"initial_learning_rate": peak, "decay_steps": falling, **rise})


def class_names(run):
    """Returns the names of the classes of a run."""
    return list(read_lines(run.folder / "classes.txt"))


def evaluate(run, config, files=None):
    """Scores a finished run on the validation split of the settings."""
    score(run, config, run.load_model(), read_tests(run, config))


def read_tests(run, config):
    """Reads the validation split of the settings by the name of its results; of other images than the run's, all."""
    run_config = run.read_config()
    is_own_data = all(getattr(config, name) == getattr(run_config, name) for name in config.SOURCES)
    if is_own_data and config.validation_share not in (None, run_config.validation_share):
        raise ValueError(
            "The model may have been trained on these images: only the share that was left out is scored. "
            f"Received: --validation {config.validation}, not {run_config.validation}"
        )
    if any(getattr(config, name) != getattr(run_config, name) for name in (*config.SOURCES, "validation_split")):
        config = config.changed({"validation": config.validation_split})
    tests = {config.validation_split: load_validation(config, class_names(run))}
    names = ("resized", "validation_labels", "first_label")
    if config.validation_split == run_config.validation_split:
        names = *config.SOURCES, *names
    return run.name_results(config, tests, names)


def score(run, config, model, tests):
    """Classifies the images of sources, prints the scores, and writes them."""
    for name, source in tests.items():
        batches = validation_batches(config, source)
        score_images(model, batches, run.results / name, class_names(run), config.quiet)


def write(run, config, model, folder, tensors_folder, source=None):
    """Writes SavedModels of image files and of pixels, and tries the first on some images of a source."""
    names = class_names(run)
    path = export_image_classifier(model, evaluation_pixels(config), names, folder, run=config.run)
    export_pixel_classifier(model, names, tensors_folder, run=config.run)
    if samples := source and take_samples(source, config.samples):
        outputs = smoke_test(path, SMOKE_TEST, [base64.b64encode(file).decode() for *_, file in samples])
        for (name, label, _), label_found, score in zip(samples, *outputs, strict=True):
            print(f"  {name}: {label_found} ({score:.3f}), labelled {names[label]}")


def take_samples(source, count):
    """Returns `(name, label, bytes of the file)` of a few images that can be read."""
    samples = []
    for index in range(0, len(source), max(1, len(source) // count))[:count] if count else ():
        try:
            data, label = source.load(tf.constant(index, tf.int64))
            decode(data)
        except tf.errors.OpError:  # reported already
            continue
        samples.append((source.name(index), int(label), data.numpy()))
    return samples

"""Training on time series, scores and the SavedModel."""

import hashlib
import json
import math
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._figures import write_figure
from keras_headattn._files import is_number, read_json, write_atomically
from keras_headattn.serving import save_signatures
from keras_headattn.utils import new_figure
from recipes.engine.data import Corpora, check_batch_size, named_apart, named_files
from recipes.engine.exporting import smoke_test
from recipes.engine.modelling import make_optimizer
from recipes.engine.report import write_confusion
from recipes.series.batches import SeriesBatches, pad
from recipes.series.demo import make_demo
from recipes.series.files import read_series
from recipes.series.modelling import make_attention, make_network

NOTES = "series.json"  # what a run keeps of its training set
SMOKE_TEST = """
found = call(series=tf.constant(given, tf.float32))
values = found["classes"][:, 0].numpy() if "classes" in found else found["values"].numpy()
result = [value.decode() if isinstance(value, bytes) else f"{value:.3f}" for value in values.tolist()]
"""


def train(config, session):
    """Trains a network, or goes on; then scores and exports it."""
    make_attention(config)
    adam(config)
    with session(config) as run:
        data = run.read(lambda: read_corpora(config), describe)
        run.keep(NOTES, json.dumps(learn(data.train, config), indent=1) + "\n")
        notes = learned(run)
        for name, part in (("training", data.train), ("validation", data.validation)):
            report_cut(name, part.series, notes)
        if run.is_unfinished():
            fit(run, data, notes)
        run.report(lambda model: score(run, config, model, data.tests))
        run.export(lambda model, folder: write(run, config, model, folder, data))
        run.close([f"python -m recipes.series predict {config.run} FILE"])


def adam(config):
    """Returns the optimizer."""
    return make_optimizer(config, keras.optimizers.Adam, learning_rate=config.learning_rate)


def read_corpora(config):
    """Reads the series that `config` names as `Corpora`."""
    if config.built_in:
        parts = make_demo(config.task)
        data = Corpora(parts["train"], parts["validation"], {"test": parts["test"]})
    else:
        train, share = read(config, config.train), config.validation_share
        if share is None:
            validation = read(config, config.validation)
        else:
            order = np.random.default_rng(0).permutation(len(train))
            count = max(1, round(share * len(train)))
            validation, train = train.subset(order[:count], "validation"), train.subset(order[count:], "train")
        if not len(train):
            raise ValueError(f"--train must have two series or more. Received: {config.train}")
        data = Corpora(train, validation, read_tests(config))
    for part in (data.validation, *data.tests.values()):
        classes = config.task == "classification" and data.train.targets
        check(part, data.train.series[0].shape[1], classes, data.train.channels)
    return data


def read(config, path, labelled=True):
    """Reads a `SeriesSet`."""
    series = read_series(path, config.id_column, config.target_column, labelled, config.encoding)
    if labelled and config.task == "regression":
        for target in series.targets:
            if not is_number(target):
                raise ValueError(
                    f"Targets must be finite numbers; give --task classification for classes. "
                    f"Received: {target!r}, {path}"
                )
    return series


def read_tests(config, files=None):
    """Reads the test sets of files, or for `None` those of the settings: dictionary of `SeriesSet` by name."""
    if files is None and config.built_in:
        return {"test": make_demo(config.task)["test"]}
    configured = named_files(config.test, "[.][a-z]+") or (["test"] if config.built_in else [])
    selected = configured if files is None else named_apart(named_files(files, "[.][a-z]+"), configured)
    return {name: read(config, paths[0]) for name, paths in selected.items()}


def check(part, channels, classes=(), names=None):
    """Checks that a set has so many channels, of these names, and no other classes than these."""
    if names and part.channels and part.channels != names:
        raise ValueError(
            f"Columns must be those of the training set, in its order: {', '.join(names)}. "
            f"Received: {', '.join(part.channels)} in {part.name}"
        )
    if part.series[0].shape[1] != channels:
        raise ValueError(
            f"All sets must have the channels of the training set, {channels}. "
            f"Received: {part.series[0].shape[1]} in {part.name}"
        )
    if classes and (unknown := set(part.targets) - set(classes)):
        raise ValueError(
            f"All classes must be among those of the training set. Received: {min(unknown)!r} in {part.name}"
        )


def describe(data):
    """Returns the sizes and checksums of the training and validation sets."""

    def fingerprint(part):
        digest = hashlib.sha256(json.dumps(part.targets).encode())
        for series in part.series:
            digest.update(series.tobytes())
        return {"examples": len(part), "sha256": digest.hexdigest()}

    return {"training": fingerprint(data.train), "validation": fingerprint(data.validation)}


def learn(train, config):
    """Returns what a run keeps of its training set: length, statistics of channels, and of targets or their classes."""
    steps = np.concatenate(train.series).astype("float64")
    known = ~np.isnan(steps)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, steps, 0).sum(axis=0) / counts
    deviation = np.sqrt(np.where(known, (steps - mean) ** 2, 0).sum(axis=0) / counts)
    notes = {"max_length": config.max_length or max(map(len, train.series)), "mean": mean.tolist()}
    notes["deviation"] = np.where(deviation > 0, deviation, 1).tolist()
    notes |= {"channels": train.channels} if train.channels else {}
    if config.task == "classification":
        return notes | {"classes": sorted(set(train.targets))}
    numbers = np.array(train.targets, "float64")
    return notes | {"target_mean": numbers.mean(), "target_deviation": float(numbers.std()) or 1.0}


def learned(run):
    """Reads what a run keeps of its training set."""
    return read_json(run.folder / NOTES)


def report_cut(name, series, notes):
    """Writes to standard error how many series have values behind the steps that are read."""
    most = notes["max_length"]
    if count := sum(not np.isnan(values[most:]).all() for values in series):
        print(f"{name}: {count} of {len(series)} series have more than {most} steps and were cut", file=sys.stderr)


def fit(run, data, notes):
    """Trains on batches of series of like lengths."""
    config = run.config
    check_batch_size(config.batch_size, run.num_replicas)
    batches = SeriesBatches(data.train, notes, config.batch_size, True, config.seed)
    validation = SeriesBatches(data.validation, notes, config.batch_size, False, config.seed)
    if "classes" in notes:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metric = keras.metrics.SparseCategoricalAccuracy, "accuracy"
    else:
        loss = keras.losses.MeanSquaredError()
        metric = keras.metrics.RootMeanSquaredError, "rmse"
    run.fit(
        batches,
        validation,
        lambda: run.load_pruned() or make_network(config, notes),
        optimizer=lambda model: adam(config),
        loss=loss,
        metrics=lambda: [metric[0](name=metric[1])],
        throughput=(lambda: batches.num_examples, "series_per_second"),
    )


def predict(config, notes, model, series):
    """Returns logits `(N, C)` or numbers `(N, 1)` of series."""
    size = config.batch_size
    parts = [padded(series[i : i + size], notes) for i in range(0, len(series), size)]
    return np.concatenate([model.predict_on_batch(part) for part in parts])


def padded(series, notes):
    """Returns series as one array, padded by NaN to the model's length."""
    return pad(series, len(series), notes["max_length"], len(notes["mean"]))


def evaluate(run, config, files=None):
    """Scores a finished run on the test sets of files, or for `None` on its own."""
    tests = read_tests(config, files)
    if not tests:
        raise ValueError(f"The run has no test set. Give --test. Received: {run.folder}, without --test")
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests):
    """Predicts test sets, prints scores, and writes them with predictions and a picture."""
    notes = learned(run)
    for name, part in tests.items():
        check(part, len(notes["mean"]), notes.get("classes"), notes.get("channels"))
        report_cut(name, part.series, notes)
        outputs, folder = predict(config, notes, model, part.series), run.results / name
        folder.mkdir(parents=True, exist_ok=True)
        if "classes" in notes:
            scores, predicted = score_classes(folder, outputs, part.targets, notes["classes"])
        else:
            scores, predicted = score_numbers(folder, outputs[:, 0], np.array(part.targets, "float64"))
        lines = [f"{target}\t{prediction}\n" for target, prediction in zip(part.targets, predicted, strict=True)]
        write_atomically(folder / "predictions.tsv", "".join(["target\tpredicted\n", *lines]).encode())
        scores["examples"] = len(part)
        write_atomically(folder / "scores.json", (json.dumps(scores, indent=2) + "\n").encode())
        print(f"{name}: " + ", ".join(f"{key} {value:.4f}" for key, value in scores.items() if key != "examples"))


def score_classes(folder, logits, targets, classes):
    """Returns the accuracy, and the predictions as text; draws the confusion matrix."""
    labels = np.array([classes.index(target) for target in targets])
    if len(classes) > 1:
        write_confusion(folder, labels, tf.nn.softmax(logits).numpy(), classes)
    predicted = logits.argmax(axis=1)
    return {"accuracy": float((predicted == labels).mean())}, [classes[i] for i in predicted]


def score_numbers(folder, predicted, targets):
    """Returns RMSE, MAE and R2, and the predictions as text; draws them against the targets."""
    errors = predicted - targets
    scores = {"rmse": math.sqrt((errors**2).mean()), "mae": float(np.abs(errors).mean())}
    variance = targets.var()
    scores["r2"] = float(1 - (errors**2).mean() / variance) if variance else None
    figure = new_figure(4.5, 4.5, f"{folder.name}: RMSE {scores['rmse']:.3g}")
    axes = figure.add_subplot(xlabel="target", ylabel="predicted")
    axes.axline((targets.mean(), targets.mean()), slope=1, color="0.7")
    axes.plot(targets, predicted, ".", markersize=4)
    write_figure(folder / "predictions.png", figure)
    return {name: score for name, score in scores.items() if score is not None}, [f"{value:.6g}" for value in predicted]


def write(run, config, model, folder, data=None):
    """Writes a SavedModel, and tries it on some series of the validation set if there are any."""
    notes = learned(run)
    names = "classes" in notes and tf.constant(notes["classes"])
    spec = tf.TensorSpec((None, None, len(notes["mean"])), tf.float32, name="series")

    def call(series):
        outputs = model(series, training=False)
        rest = series[:, notes["max_length"] :]
        cut = {"is_cut": tf.reduce_any(tf.logical_not(tf.math.is_nan(rest)), axis=[1, 2])}
        if "classes" not in notes:
            return {"values": outputs[:, 0]} | cut
        scores, places = tf.math.top_k(tf.nn.softmax(outputs), len(notes["classes"]))
        return {"classes": tf.gather(names, places), "scores": scores} | cut

    path = save_signatures({"serving_default": (call, [spec])}, folder, run=config.run)
    if data and config.samples:
        samples = data.validation.series[: config.samples]
        results = smoke_test(path, SMOKE_TEST, padded(samples, notes).tolist())
        for target, value in zip(data.validation.targets, results, strict=False):
            print(f"  {value}, target {target}")

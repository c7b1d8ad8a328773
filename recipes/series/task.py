"""Training on time series."""

import hashlib
import io
import json
import math
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import is_number, read_json, write_atomically
from keras_headattn.data import MemoryBatches, choose_buckets
from keras_headattn.serving import save_signatures
from keras_headattn.utils import new_figure
from recipes.engine.confusion import write_confusion
from recipes.engine.fresh_process import smoke_test
from recipes.engine.task import Corpora, Task, check_batch_size, named_apart, named_files
from recipes.engine.training import make_optimizer
from recipes.series.demo import make_demo
from recipes.series.files import SeriesSet, read_series
from recipes.series.modelling import make_attention, make_network

NOTES = "series.json"
BUCKETS = 3
SMOKE_TEST = """
found = call(series=tf.constant(given, tf.float32))
values = found["classes"][:, 0].numpy() if "classes" in found else found["values"].numpy()
result = [value.decode() if isinstance(value, bytes) else f"{value:.3f}" for value in values.tolist()]
"""


class SeriesTask(Task):
    """Network of series, and the statistics of its data."""

    def check(self):
        make_attention(self.config)

    def load(self):
        config = self.config
        if config.embedded:
            parts = make_demo(config.task)
            self.data = Corpora(parts["train"], parts["validation"], {"test": parts["test"]})
        else:
            train, share = self.read(config.train), config.validation_share
            if share is None:
                validation = self.read(config.validation)
            else:
                order = np.random.default_rng(0).permutation(len(train))
                number = max(1, round(share * len(train)))
                validation, train = train.subset(order[:number], "validation"), train.subset(order[number:], "train")
            if not len(train):
                raise ValueError(f"--train must have two series or more. Received: {config.train}")
            self.data = Corpora(train, validation, self.load_tests())
        for part in (self.data.validation, *self.data.tests.values()):
            self._check(part, self.data.train)

    def read(self, path, labelled=True):
        """Reads a `SeriesSet`."""
        found = read_series(path, self.config.id_column, self.config.target_column, labelled, self.config.encoding)
        if labelled and self.config.task == "regression":
            for target in found.targets:
                if not is_number(target):
                    raise ValueError(
                        f"Targets must be finite numbers; give --task classification for classes. "
                        f"Received: {target!r}, {path}"
                    )
        return found

    def _check(self, part, train):
        if part.series[0].shape[1] != train.series[0].shape[1]:
            raise ValueError(
                f"All sets must have the channels of the training set, {train.series[0].shape[1]}. "
                f"Received: {part.series[0].shape[1]} in {part.name}"
            )
        unknown = set(part.targets) - set(train.targets)
        if self.config.task == "classification" and unknown:
            raise ValueError(
                f"All classes must be among those of the training set. Received: {min(unknown)!r} in {part.name}"
            )

    def load_tests(self, files=None):
        if files is None and self.config.embedded:
            return {"test": make_demo(self.config.task)["test"]}
        own = named_files(self.config.test, "[.][a-z]+") or (["test"] if self.config.embedded else [])
        found = own if files is None else named_apart(named_files(files, "[.][a-z]+"), own)
        return {name: self.read(paths[0]) for name, paths in found.items()}

    def fingerprint(self):
        def one(part):
            digest = hashlib.sha256(json.dumps(part.targets).encode())
            for series in part.series:
                digest.update(series.tobytes())
            return {"examples": len(part), "sha256": digest.hexdigest()}

        return {"training": one(self.data.train), "validation": one(self.data.validation)}

    def prepare(self):
        if self.data:
            self.run.keep(NOTES, json.dumps(self._learn(self.data.train), indent=1) + "\n")
        self.notes = read_json(self.run.folder / NOTES)
        if self.data:
            self.report_cut("training", self.data.train.series)
            self.report_cut("validation", self.data.validation.series)

    def report_cut(self, name, series):
        """Writes to standard error how many series have values behind the steps that are read."""
        most = self.notes["max_length"]
        if count := sum(not np.isnan(each[most:]).all() for each in series):
            print(f"{name}: {count} of {len(series)} series have more than {most} steps and were cut", file=sys.stderr)

    def _learn(self, train):
        steps = np.concatenate(train.series).astype("float64")
        known = ~np.isnan(steps)
        counts = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, steps, 0).sum(axis=0) / counts
        deviation = np.sqrt(np.where(known, (steps - mean) ** 2, 0).sum(axis=0) / counts)
        notes = {"max_length": self.config.max_length or max(map(len, train.series)), "mean": mean.tolist()}
        notes["deviation"] = np.where(deviation > 0, deviation, 1).tolist()
        if self.config.task == "classification":
            return notes | {"classes": sorted(set(train.targets))}
        numbers = np.array(train.targets, "float64")
        return notes | {"target_mean": numbers.mean(), "target_deviation": float(numbers.std()) or 1.0}

    @property
    def classes(self):
        """Names of the classes; `None` for numbers."""
        return self.notes.get("classes")

    def make_batches(self, num_replicas):
        check_batch_size(self.config.batch_size, num_replicas)
        return self.batches(self.data.train, True), self.batches(self.data.validation)

    def batches(self, part, training=False):
        """Batches of a `SeriesSet`."""
        return SeriesBatches(part, self.notes, self.config.batch_size, training, self.config.seed)

    def make_model(self):
        return make_network(self.config, self.notes)

    def make_optimizer(self, steps, num_replicas):
        return make_optimizer(self.config, keras.optimizers.Adam, learning_rate=self.config.learning_rate)

    def make_loss(self):
        if self.config.task == "classification":
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return keras.losses.MeanSquaredError()

    def make_metrics(self):
        if self.config.task == "classification":
            return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        return [keras.metrics.RootMeanSquaredError(name="rmse")]

    def throughput(self, batches):
        return lambda: batches.num_examples, "series_per_second"

    def predict(self, model, series):
        """Returns logits `(N, C)` or numbers `(N, 1)` of series."""
        size = self.config.batch_size
        parts = [self.padded(series[i : i + size]) for i in range(0, len(series), size)]
        return np.concatenate([model.predict_on_batch(part) for part in parts])

    def padded(self, series):
        """Returns series as one array, padded by NaN to the model's length."""
        return pad(series, len(series), self.notes["max_length"], len(self.notes["mean"]))

    def evaluate(self, model, tests):
        for name, part in tests.items():
            self._check(part, self.data.train if self.data else SeriesSet("", part.series, self.classes or []))
            self.report_cut(name, part.series)
            outputs, folder = self.predict(model, part.series), self.run.results / name
            folder.mkdir(parents=True, exist_ok=True)
            if self.classes:
                scores, predicted = self._score_classes(folder, outputs, part.targets)
            else:
                scores, predicted = score_numbers(folder, outputs[:, 0], np.array(part.targets, "float64"))
            lines = [f"{target}\t{found}\n" for target, found in zip(part.targets, predicted, strict=True)]
            write_atomically(folder / "predictions.tsv", "".join(["target\tpredicted\n", *lines]).encode())
            scores["examples"] = len(part)
            write_atomically(folder / "scores.json", (json.dumps(scores, indent=2) + "\n").encode())
            print(f"{name}: " + ", ".join(f"{key} {value:.4f}" for key, value in scores.items() if key != "examples"))

    def _score_classes(self, folder, logits, targets):
        labels = np.array([self.classes.index(target) for target in targets])
        if len(self.classes) > 1:
            write_confusion(folder, labels, tf.nn.softmax(logits).numpy(), self.classes)
        found = logits.argmax(axis=1)
        return {"accuracy": float((found == labels).mean())}, [self.classes[i] for i in found]

    def export(self, model, folder):
        spec = tf.TensorSpec((None, None, len(self.notes["mean"])), tf.float32, name="series")
        names = self.classes and tf.constant(self.classes)

        def call(series):
            outputs = model(series, training=False)
            rest = series[:, self.notes["max_length"] :]
            cut = {"is_cut": tf.reduce_any(tf.logical_not(tf.math.is_nan(rest)), axis=[1, 2])}
            if not self.classes:
                return {"values": outputs[:, 0]} | cut
            scores, places = tf.math.top_k(tf.nn.softmax(outputs), len(self.classes))
            return {"classes": tf.gather(names, places), "scores": scores} | cut

        path = save_signatures({"serving_default": (call, [spec])}, folder, run=self.config.run)
        if self.data and self.config.samples:
            part = self.data.validation
            samples, targets = part.series[: self.config.samples], part.targets[: self.config.samples]
            found = smoke_test(path, SMOKE_TEST, self.padded(samples).tolist())
            for target, value in zip(targets, found, strict=True):
                print(f"  {value}, target {target}")

    def next_commands(self):
        return [f"python -m recipes.series predict {self.config.run} FILE"]


class SeriesBatches(MemoryBatches):
    """Batches `(series, targets, weights)` of a `SeriesSet`, by length; weights scale losses to standard targets."""

    def __init__(self, part, notes, batch_size, training, seed):
        self.notes, self.width = notes, len(notes["mean"])
        series = [each[: notes["max_length"]] for each in part.series]
        classes = notes.get("classes")
        numbers = [classes.index(target) if classes else float(target) for target in part.targets]
        self.targets = np.array(numbers, "int32" if classes else "float32")
        self.scale = 1 if classes else notes["target_deviation"] ** -2
        buckets = choose_buckets([len(each) for each in series], BUCKETS)
        super().__init__({"series": series}, [batch_size] * len(buckets), buckets, training, seed)

    def make_batch(self, bucket, members):
        rows, members = self.rows[bucket], list(members)
        targets, weights = np.zeros(rows, self.targets.dtype), np.zeros(rows, "float32")
        targets[: len(members)] = self.targets[members]
        real = len(members) if self.shuffle else self.num_examples / len(self)
        weights[: len(members)] = self.scale * rows / max(real, 1)
        series = [self.columns["series"][i] for i in members]
        return pad(series, rows, self.bucket_lengths[bucket], self.width), targets, weights


def pad(series, rows, length, width):
    """Returns float32 `(rows, length, width)`, NaN at padding."""
    found = np.full((rows, length, width), np.nan, "float32")
    for row, each in zip(found, series, strict=False):
        row[: len(each)] = each[:length]
    return found


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
    picture = io.BytesIO()
    figure.savefig(picture, dpi=110, format="png")
    write_atomically(folder / "predictions.png", picture.getvalue())
    return {name: score for name, score in scores.items() if score is not None}, [f"{value:.6g}" for value in predicted]

"""The target of a text: its class, a number, or any of several labels."""

import keras
import numpy as np

from keras_headattn._files import is_number
from keras_headattn.analysis import evaluate_classifier
from keras_headattn.losses import LabelSmoothedCrossentropy


class Classes:
    """One of several classes.

    Args:
        names: list of str, in the order of their numbers.
        label_smoothing: share of a label that is spread over the others.
        label_separator: str between the labels of a text, for `Labels`.
    """

    columns = ("label", "predicted")

    def __init__(self, names, label_smoothing=0.0, label_separator=","):
        self.names = names
        self.label_smoothing = label_smoothing
        self.label_separator = label_separator

    @classmethod
    def learn(cls, corpus, labels=(), **options):
        """The classes of the settings, `labels`, or else those of a training set; `options` are arguments of the class.

        Numbers are sorted as numbers, other names by the alphabet. Fewer than two are an error, and so are names that
        look like numbers to predict.
        """
        if labels:
            return cls(list(labels), **options)
        names = sorted(cls((), **options)._names(corpus))
        if len(names) < 2:
            raise ValueError(f"{corpus.name} must have two labels or more. Received: {', '.join(names)}")
        if broken := [name for name in names if "\n" in name]:
            raise ValueError(f"Labels of {corpus.name} must have no line breaks. Received: {broken[0]!r}")
        if all(name.removeprefix("-").isdecimal() for name in names):
            names.sort(key=int)
        elif len(names) > 10 and all(map(is_number, names)):
            raise ValueError(
                f"The labels of {corpus.name} look like numbers: --predict number predicts them, --labels names "
                f"classes. Received: {len(names)} labels, {', '.join(names[:5])} and so on"
            )
        return cls(names, **options)

    def _names(self, corpus):
        return set(corpus.labels)

    @property
    def width(self):
        """Number of outputs of the model."""
        return len(self.names)

    def of(self, corpus):
        """Returns the targets of a corpus: integers `(N,)`. An unknown label is a `ValueError`."""
        index_of = {name: index for index, name in enumerate(self.names)}
        if unknown := sorted(self._names(corpus) - set(self.names)):
            raise ValueError(
                f"{corpus.name} has labels that are none of {', '.join(self.names[:20])}. Leave out their examples by "
                f"--drop-labels, or name all by --labels. Received: {', '.join(unknown[:5])}"
            )
        return np.array([index_of[label] for label in corpus.labels])

    def make_loss(self):
        return LabelSmoothedCrossentropy(self.label_smoothing)

    def make_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    activation = "softmax"

    def measure(self, targets, predicted):
        """Measures of probabilities `(N, C)`: those of `evaluate_classifier` and the cross-entropy `loss`, in nats."""
        of_labels = predicted[np.arange(len(targets)), targets].astype("float64")
        loss = -np.mean(np.log(np.maximum(of_labels, 1e-30)))
        return evaluate_classifier(targets, predicted) | {"loss": float(loss)}

    def cells(self, predicted):
        """Returns the prediction for each text, as a str."""
        return [self.names[index] for index in predicted.argmax(axis=1)]


class Labels(Classes):
    """Any of several labels. In the data they are separated by `label_separator`."""

    activation = "sigmoid"

    def _names(self, corpus):
        return {name for label in corpus.labels for name in self._parts(label)}

    def _parts(self, label):
        return [name.strip() for name in label.split(self.label_separator) if name.strip()]

    def of(self, corpus):
        """Returns the targets of a corpus: `(N, C)`, 1 where a text has the label."""
        if unknown := sorted(self._names(corpus) - set(self.names)):
            raise ValueError(
                f"{corpus.name} has labels that are none of {', '.join(self.names[:20])}. Name all by --labels. "
                f"Received: {', '.join(unknown[:5])}"
            )
        rows = [[name in self._parts(label) for name in self.names] for label in corpus.labels]
        return np.array(rows, "float32")

    def make_loss(self):
        return keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=self.label_smoothing)

    def make_metrics(self):
        return [keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)]  # of logits

    def measure(self, targets, predicted):
        """Measures of probabilities `(N, C)`: the share of right labels, of right texts, F1, and the loss in nats."""
        from sklearn import metrics

        positive = predicted > 0.5
        likely = np.where(targets > 0.5, predicted, 1 - predicted).astype("float64")
        return {
            "accuracy": float(np.mean(positive == (targets > 0.5))),
            "exact": float(np.mean((positive == (targets > 0.5)).all(axis=1))),
            "f1_micro": float(metrics.f1_score(targets, positive, average="micro", zero_division=0)),
            "f1_macro": float(metrics.f1_score(targets, positive, average="macro", zero_division=0)),
            "loss": float(-np.mean(np.log(np.maximum(likely, 1e-30)))),
        }

    def cells(self, predicted):
        return [self.label_separator.join(np.array(self.names)[row > 0.5]) for row in predicted]


class Numbers:
    """A number, such as the similarity of two texts."""

    columns = ("number", "predicted")
    activation = "linear"
    width = 1
    names = ()

    def __init__(self, names=(), **options):
        """Takes what `Classes` does, and needs none of it."""

    @classmethod
    def learn(cls, corpus, labels=(), **options):
        return cls((), **options)

    def of(self, corpus):
        """Returns the targets of a corpus: `(N,)`. A label that is no number is a `ValueError`."""
        if wrong := [label for label in corpus.labels if not is_number(label)]:
            raise ValueError(f"--predict number needs numbers in {corpus.name}. Received: {', '.join(wrong[:5])}")
        return np.array(corpus.labels, "float32")

    def make_loss(self):
        return keras.losses.MeanSquaredError()

    def make_metrics(self):
        return [keras.metrics.MeanAbsoluteError(name="mae")]

    def measure(self, targets, predicted):
        """Measures of numbers `(N, 1)`: correlations (NaN where one side is constant) and mean errors."""
        from scipy import stats

        values = predicted[:, 0].astype("float64")
        varies = np.ptp(targets) > 0 and np.ptp(values) > 0
        return {
            "pearson": float(stats.pearsonr(targets, values).statistic) if varies else np.nan,
            "spearman": float(stats.spearmanr(targets, values).statistic) if varies else np.nan,
            "mae": float(np.mean(np.abs(targets - values))),
            "loss": float(np.mean(np.square(targets - values))),
        }

    def cells(self, predicted):
        return [f"{value:.4f}" for value in predicted[:, 0]]


KINDS = {"class": Classes, "labels": Labels, "number": Numbers}

"""The likeliest classes, in graphs and in Python."""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Classification:
    """Likeliest classes of a text or an image, likeliest first.

    Args:
        classes: tuple of str.
        scores: tuple of float, their probabilities.

    >>> Classification(("cat", "dog"), (0.75, 0.25)).label
    'cat'
    """

    classes: tuple
    scores: tuple

    @property
    def label(self) -> str:
        """str, the likeliest class."""
        return self.classes[0]

    @property
    def score(self) -> float:
        """float, its probability."""
        return self.scores[0]


def probabilities_of(model, class_names, activation="softmax"):
    """Returns a function from a model's inputs to class probabilities. An empty batch is run as one row of zeros."""

    activate = {"softmax": tf.nn.softmax, "sigmoid": tf.nn.sigmoid, "linear": tf.identity}.get(activation)
    if activate is None:
        raise ValueError(f"`activation` must be 'softmax' or 'sigmoid'. Received: activation={activation!r}")

    def probabilities(inputs):
        rows = tf.shape(tf.nest.flatten(inputs)[0])[0]
        logits = tf.cast(model(tf.nest.map_structure(not_empty, inputs), training=False), tf.float32)
        if logits.shape[-1] != len(class_names):
            raise ValueError(
                f"`class_names` must name the classes of the model, {logits.shape[-1]}. "
                f"Received: {len(class_names)} names"
            )
        return activate(logits)[:rows]

    return probabilities


def likeliest(model, class_names, top=None, activation="softmax"):
    """Returns a function from a model's inputs to class names, likeliest first, and their probabilities."""
    class_names = list(class_names)
    probabilities = probabilities_of(model, class_names, activation)
    names = tf.constant(class_names)
    top = len(class_names) if top is None else min(top, len(class_names))

    def classify(inputs):
        scores, labels = tf.math.top_k(probabilities(inputs), top)
        return {"classes": tf.gather(names, labels), "scores": scores}

    return classify


def classifications(probabilities, class_names, top=None):
    orders = (-probabilities).argsort(axis=1, kind="stable")[:, :top]
    return [
        Classification(tuple(class_names[label] for label in order), tuple(float(row[label]) for label in order))
        for row, order in zip(probabilities, orders, strict=True)
    ]


def not_empty(tensor):
    """Pads axes of size 0 to size 1."""
    sizes = tf.shape(tensor)
    least = [size if size is not None else tf.maximum(sizes[axis], 1) for axis, size in enumerate(tensor.shape)]
    padded = tf.pad(tensor, [[0, size - sizes[axis]] for axis, size in enumerate(least)])
    return tf.ensure_shape(padded, tensor.shape)

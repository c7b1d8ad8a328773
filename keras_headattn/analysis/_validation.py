"""Checks of the arguments of measures and drawings."""

import keras
import numpy as np

SUM_TOLERANCE = 1e-3


def as_probabilities(probabilities):
    """Returns checked probabilities as float64 `(B, C)`."""
    array = np.asarray(keras.ops.convert_to_numpy(probabilities), "float64")
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(
            "`probabilities` must be (batch, classes), of at least two classes; if p is the probability of the "
            "positive class, pass np.stack([1 - p, p], axis=-1). "
            f"Received: probabilities of shape {array.shape}"
        )
    if not len(array):
        raise ValueError(
            f"`probabilities` must have at least one prediction. Received: probabilities of shape {array.shape}"
        )
    return _check_rows("probabilities", array, "; apply a softmax to logits first")


def _check_rows(name, array, hint=""):
    right = (array >= 0).all(-1) & (np.abs(array.sum(-1) - 1) <= SUM_TOLERANCE)
    if not right.all():
        row = int(np.argmin(right))
        raise ValueError(
            f"Every row of `{name}` must be at least 0 and sum to 1{hint}. "
            f"Received: row {row}, {array[row]}, whose sum is {array[row].sum():.6g}"
        )
    return array


def as_labels(labels, probabilities):
    """Returns checked labels as int64 `(B,)`."""
    array = np.asarray(keras.ops.convert_to_numpy(labels))
    if array.shape != probabilities.shape[:1]:
        raise ValueError(
            f"`labels` must be ({len(probabilities)},), the class of each row of `probabilities`. "
            f"Received: labels of shape {array.shape}"
        )
    classes = probabilities.shape[1]
    right = (array >= 0) & (array < classes) & (array == np.floor(array))
    if not right.all():
        index = int(np.argmin(right))
        raise ValueError(
            f"`labels` must be whole numbers from 0 to {classes - 1}, as `probabilities` has {classes} classes. "
            f"Received: {array[index]} at place {index}"
        )
    return array.astype("int64")


def check_named(name, values):
    """Raises a ValueError unless the argument is a dictionary with entries."""
    if not isinstance(values, dict) or not values:
        raise ValueError(f"`{name}` must be a dictionary of names, not empty. Received: {name}={values}")


def as_posteriors(posteriors, tokens, padded=False):
    """Returns checked posteriors as float64 `(n, C)`; if `padded`, surplus rows are cut off."""
    if isinstance(tokens, str) or not len(tokens):
        raise ValueError(f"`tokens` must be a list of at least one string. Received: tokens={tokens!r}")
    array = np.asarray(keras.ops.convert_to_numpy(posteriors), "float64")
    if array.ndim != 2 or not array.size or len(array) < len(tokens) or (len(array) > len(tokens) and not padded):
        raise ValueError(
            f"`posteriors` must be ({len(tokens)}, clusters), a row for each token. "
            f"Received: posteriors of shape {array.shape}"
        )
    return _check_rows("posteriors", array[: len(tokens)])

"""Losses."""

from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Tensor
from keras_headattn._validation import check_number
from keras_headattn.ops._linear_crossentropy import smoothed_crossentropy

__all__ = ["LabelSmoothedCrossentropy"]


@register_keras_serializable(package="keras_headattn")
class LabelSmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy between smoothed integer labels and logits, in float32.

    The label's class gets `1 - label_smoothing`, and every class `label_smoothing / V` more. With sample weights of 0
    at padding and mean 1 over the global batch, the loss is the mean over its tokens, on any number of replicas.

    Source: Szegedy et al. 2016, "Rethinking the Inception architecture", section 7.

    Args:
        label_smoothing: at least 0 and below 1.

    Call arguments:
        y_true: integers `(B, m)` or `(B, m, 1)`. Negative ones, such as -100, have a loss of 0, but count in a mean
            unless their sample weight is 0. From V on the loss is NaN.
        y_pred: logits `(B, m, V)`.

    Returns:
        Scalar, in nats; with `reduction=None`, `(B, m)`.

    Raises:
        ValueError: for a `label_smoothing` out of range, or `y_true` of another shape, such as one-hot labels.

    >>> loss = LabelSmoothedCrossentropy(0.0)
    >>> round(float(loss(np.array([[0]]), np.zeros((1, 1, 4)))), 4)
    1.3863
    """

    def __init__(
        self, label_smoothing: float = 0.1, reduction: str | None = "sum_over_batch_size", name: str = "crossentropy"
    ):
        # Keras casts labels, too, to the dtype of the loss: in bfloat16 513 would be 512.
        super().__init__(name=name, reduction=reduction, dtype="float32")
        self.label_smoothing = check_number("label_smoothing", label_smoothing, least=0, below=1)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        y_true, y_pred = as_labels(y_true, y_pred), ops.cast(y_pred, "float32")
        return smoothed_crossentropy(y_true, y_pred, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


class MeanOfLosses(keras.losses.Loss):
    """Reduction of precomputed losses, scaled for Keras's sum over replicas."""

    def __init__(self, reduction="sum_over_batch_size"):
        super().__init__(name="mean", reduction=reduction, dtype="float32")

    def call(self, y_true, y_pred):
        return y_pred


def as_labels(y_true, y_pred):
    """Returns the labels `(B, m)` of predictions `(B, m, ...)` as integers."""
    y_true = ops.cast(y_true, "int32")
    received = f"y_true of shape {tuple(y_true.shape)} and y_pred of shape {tuple(y_pred.shape)}"
    if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] in (None, 1):
        y_true = ops.squeeze(y_true, axis=-1)  # as `fit` gives them for a model of one token
    if len(y_true.shape) != len(y_pred.shape) - 1:
        raise ValueError(
            "`y_true` must hold integer labels, not one-hot ones: the shape of `y_pred` without its last axis. "
            f"Received: {received}"
        )
    return y_true

"""Losses."""

from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Tensor
from keras_headattn._validation import check_number

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
        y_true: integers `(B, m)` or `(B, m, 1)`.
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
        y_true, y_pred = ops.cast(y_true, "int32"), ops.cast(y_pred, "float32")
        received = f"y_true of shape {tuple(y_true.shape)} and y_pred of shape {tuple(y_pred.shape)}"
        if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] in (None, 1):
            y_true = ops.squeeze(y_true, axis=-1)  # as `fit` gives them for a model of one token
        if len(y_true.shape) != len(y_pred.shape) - 1:
            raise ValueError(
                "`y_true` must hold integer labels, not one-hot ones: the shape of `y_pred` without its last axis. "
                f"Received: {received}"
            )
        return _crossentropy(y_true, y_pred, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def _crossentropy(labels, logits, smoothing):
    """Computes cross-entropy and its gradient from one softmax: each pass over the logits, a model's largest tensor,
    counts.
    """
    size = ops.shape(logits)[-1]
    share = smoothing / ops.cast(size, logits.dtype) if smoothing else 0.0

    @ops.custom_gradient
    def crossentropy(logits):
        probabilities = ops.softmax(logits)
        log_sum = ops.max(logits, axis=-1) - ops.log(ops.max(probabilities, axis=-1))
        known = ops.clip(labels, 0, size - 1)  # labels such as -100 come with weight 0
        of_label = ops.take_along_axis(logits, known[..., None], axis=-1)[..., 0]
        loss = log_sum - (1 - smoothing) * of_label
        if smoothing:
            loss = loss - smoothing * ops.mean(logits, axis=-1)

        def gradient(*args, upstream=None):
            upstream = (args[0] if upstream is None else upstream)[..., None]
            is_label = ops.equal(labels[..., None], ops.arange(size, dtype="int32"))
            smooth = (probabilities - share) * upstream
            return ops.where(is_label, smooth - (1 - smoothing) * upstream, smooth)

        return loss, gradient

    return crossentropy(logits)

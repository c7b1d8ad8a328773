"""Losses."""

import keras
from keras import ops
from keras.saving import register_keras_serializable


@register_keras_serializable(package="keras_headattn")
class LabelSmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy between integer labels, smoothed, and logits, in float32.

    The label's class gets `1 - label_smoothing` and every class `label_smoothing / V` more. Which tokens
    count is said by sample weights: give padding weight 0, and weights whose mean over the global batch is
    1, and the loss is the mean over its tokens, on any number of replicas.

    Source: Szegedy et al. 2016, "Rethinking the Inception architecture", section 7.

    Args:
        label_smoothing: in [0, 1).

    Call arguments:
        y_true: integers `(B, m)`.
        y_pred: logits `(B, m, V)`.

    Returns:
        Scalar, in nats; with `reduction=None`, `(B, m)`.

    >>> loss = LabelSmoothedCrossentropy(0.0)
    >>> round(float(loss(np.array([[0]]), np.zeros((1, 1, 4)))), 4)
    1.3863
    """

    def __init__(self, label_smoothing=0.1, reduction="sum_over_batch_size", name="crossentropy", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"`label_smoothing` must be in [0, 1). Received: {label_smoothing}")
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        y_pred = ops.cast(y_pred, "float32")
        if not self.label_smoothing:
            return ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        size = y_pred.shape[-1]
        # Smoothed one-hot labels and the backend's fused cross-entropy: the fewest passes over logits.
        classes = ops.arange(size, dtype="int32")
        labels = ops.where(
            ops.equal(ops.cast(y_true, "int32")[..., None], classes),
            1 - self.label_smoothing + self.label_smoothing / size,
            self.label_smoothing / size,
        )
        return ops.categorical_crossentropy(ops.cast(labels, "float32"), y_pred, from_logits=True)

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}

from typing import Any

import keras
from keras import ops

from keras_headattn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_headattn")
class MatthewsCorrelationCoefficient(keras.metrics.Metric):
    """Matthews correlation coefficient of predicted and true classes, from -1 to 1.

    It is 0 at chance, and, as in scikit-learn, if all predictions or all labels are one class.

    Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient".

    Args:
        num_classes: int, at least 2.

    Call arguments:
        y_true, y_pred: one-hot, probabilities or logits `(B, num_classes)`; or labels `(B,)` or `(B, 1)`, or, with two
            classes, probabilities of class 1, which is predicted above 0.5. True labels below 0 are left out.
        sample_weight: `(B,)` or `(B, 1)`. Default `None`: all 1.

    Raises:
        ValueError: if `num_classes` is less than 2, or for other shapes.

    >>> metric = MatthewsCorrelationCoefficient(2)
    >>> round(float(metric([0, 0, 1, 1], [0.1, 0.7, 0.8, 0.9])), 4)
    0.5774
    """

    def __init__(self, num_classes: int, name: str = "matthews_correlation_coefficient", dtype: str | None = None):
        super().__init__(name=name, dtype=dtype)
        if num_classes < 2:
            raise ValueError(f"`num_classes` must be at least 2. Received: num_classes={num_classes}")
        self.num_classes = num_classes
        self.confusion = self.add_variable((num_classes, num_classes), "zeros", self.dtype, name="confusion")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        true, predicted = self._labels("y_true", y_true), self._labels("y_pred", y_pred)
        rows = ops.one_hot(predicted, self.num_classes, dtype=self.dtype)
        if sample_weight is not None:
            rows *= ops.reshape(ops.cast(sample_weight, self.dtype), (-1, 1))
        # Sums, rather than a product of matrices, which GPUs may round to ten bits.
        self.confusion.assign_add(ops.segment_sum(rows, true, num_segments=self.num_classes))

    def _labels(self, name, values):
        values = ops.convert_to_tensor(values)
        if values.shape[1:] == (self.num_classes,):
            return ops.argmax(values, axis=-1)
        if values.shape[1:] not in ((), (1,)):
            raise ValueError(
                f"`{name}` must have the shape (batch,), (batch, 1) or (batch, {self.num_classes}). "
                f"Received: {name} of shape {tuple(values.shape)}"
            )
        values = ops.reshape(values, (-1,))
        if self.num_classes == 2:
            positive = ops.greater(values, 0.5)
            values = ops.where(ops.less(values, 0), -1, positive) if name == "y_true" else positive
        return ops.cast(values, "int32")

    def result(self) -> Tensor:
        true, predicted = ops.sum(self.confusion, axis=1), ops.sum(self.confusion, axis=0)
        # Shares rather than counts, whose fourth powers would overflow.
        total = ops.sum(true)
        true, predicted = ops.divide_no_nan(true, total), ops.divide_no_nan(predicted, total)
        correct = ops.divide_no_nan(ops.trace(self.confusion), total)
        # In this form, unlike 1 - sum(share ** 2), it is exactly 0 when there is one class.
        variance = [ops.sum(share * (ops.sum(share) - share)) for share in (true, predicted)]
        return ops.divide_no_nan(correct - ops.sum(true * predicted), ops.sqrt(variance[0] * variance[1]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}

"""The score of a task while it is learned, as a Keras metric."""

import keras
from keras import ops

from keras_headattn.metrics import MatthewsCorrelationCoefficient


class ClassScore(MatthewsCorrelationCoefficient):
    """Mean of some measures of classes, such as "mcc", times 100; `f1` is that of class 1.

    >>> metric = ClassScore(2, ["f1", "accuracy"])
    >>> round(float(metric([0, 0, 1, 1], [0.1, 0.7, 0.8, 0.9])), 2)
    77.5
    """

    def __init__(self, num_classes, measures, name="score", dtype=None):
        super().__init__(num_classes, name, dtype)
        self.measures = tuple(measures)

    def result(self):
        hits = ops.diagonal(self.confusion)
        both = ops.sum(self.confusion, axis=0) + ops.sum(self.confusion, axis=1)
        f1 = ops.divide_no_nan(2 * hits, both)
        scores = {
            "accuracy": ops.divide_no_nan(ops.sum(hits), ops.sum(self.confusion)),
            "f1": f1[min(1, self.num_classes - 1)],
            "f1_macro": ops.divide_no_nan(ops.sum(f1), ops.sum(ops.cast(both > 0, self.dtype))),
            "mcc": super().result(),
        }
        return 100 * sum(scores[name] for name in self.measures) / len(self.measures)

    def get_config(self):
        return {**super().get_config(), "measures": self.measures}


class NumberScore(keras.metrics.Metric):
    """Pearson's correlation over all examples, times 100. Spearman's would need all ranks at once.

    >>> metric = NumberScore()
    >>> round(float(metric([1.0, 2.0, 4.0], [[1.0], [3.0], [4.0]])), 2)
    92.86
    """

    def __init__(self, name="score", dtype="float64"):  # variances are small differences of large sums
        super().__init__(name=name, dtype=dtype)
        self.sums = self.add_variable((6,), "zeros", self.dtype, name="sums")

    def update_state(self, y_true, y_pred, sample_weight=None):
        x, y = (ops.reshape(ops.cast(values, self.dtype), (-1,)) for values in (y_true, y_pred))
        weight = ops.ones_like(x) if sample_weight is None else ops.reshape(ops.cast(sample_weight, self.dtype), (-1,))
        self.sums.assign_add(ops.stack([ops.sum(weight * z) for z in (ops.ones_like(x), x, y, x * x, y * y, x * y)]))

    def result(self):
        n, x, y, xx, yy, xy = (self.sums[index] for index in range(6))
        x, y, xx, yy, xy = (ops.divide_no_nan(total, n) for total in (x, y, xx, yy, xy))
        variances = ops.maximum(xx - x * x, 0.0) * ops.maximum(yy - y * y, 0.0)
        return 100 * ops.divide_no_nan(xy - x * y, ops.sqrt(variances))

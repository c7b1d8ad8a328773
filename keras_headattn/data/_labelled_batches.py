from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_headattn.data._batches import MemoryBatches
from keras_headattn.data._buckets import pad_columns


class LabelledBatches(MemoryBatches):
    """Batches of examples and labels for `fit` and `evaluate`, with `dataset()` as a `tf.data.Dataset`.

    An example goes to the shortest bucket that holds all its columns. All batches have the same number of rows; a
    bucket's last batch is filled up. A row without ids gets one id: 1, or 0 if 1 is padding. Order and resuming in
    training: see `MemoryBatches`; otherwise examples come in the given order, shortest bucket first.

    In training, weights make the mean over a batch's rows the mean over its real rows, times their class weights. In
    evaluation they are constant, so that the mean of the batches' losses is the mean over the examples.

    Args:
        columns: dict from name to a list of integer arrays, equally many in each.
        labels: `(N,)`, ints for classes or floats for regression; or `(N, C)` of 0 and 1 for multiple labels.
        batch_size, num_replicas: rows of a batch, B, and a divisor of it.
        bucket_lengths: ascending ints.
        class_weights: floats `(C,)`, for class labels. Default `None`: all 1.
        training, seed: True to shuffle, and its seed.
        pad_id: id of padding; in a column `"segment_ids"` it is 0.

    Each item is a tuple `(inputs, labels, sample_weight)`:
        inputs: dict of int32 `(B, L)`, the columns.
        labels: `(B,)` or `(B, C)`, int32 or float32.
        sample_weight: float32 `(B,)`, 0 in filler rows.

    Raises:
        ValueError: for invalid columns, labels or weights, an example that no bucket holds, or a batch that replicas
            cannot share evenly.

    >>> columns = {"text": [[5, 3], [6, 7, 3]]}
    >>> batches = LabelledBatches(columns, [1, 0], batch_size=4, bucket_lengths=(4,))
    >>> inputs, labels, sample_weight = batches[0]
    >>> labels.tolist(), sample_weight.tolist()
    ([1, 0, 0, 0], [2.0, 2.0, 0.0, 0.0])
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[np.ndarray]],
        labels: ArrayLike,
        batch_size: int = 32,
        bucket_lengths: Sequence[int] = (16, 32, 64, 128),
        class_weights: ArrayLike | None = None,
        num_replicas: int = 1,
        training: bool = False,
        seed: int = 0,
        pad_id: int = 0,
        **kwargs: Any,
    ):
        if batch_size % num_replicas:
            raise ValueError(
                f"`batch_size` must be a multiple of the {num_replicas} replicas. Received: batch_size={batch_size}"
            )
        super().__init__(columns, [batch_size] * len(bucket_lengths), bucket_lengths, training, seed, **kwargs)
        if self.num_dropped:
            raise ValueError(
                f"`bucket_lengths` must have a bucket for every example. Received: bucket_lengths={self.bucket_lengths}"
            )
        self.batch_size = batch_size
        self.pad_id = pad_id
        self.labels = _checked_labels(labels, self.num_examples)
        self.class_weights = None if class_weights is None else np.asarray(class_weights, "float32")
        if class_weights is not None and (self.labels.ndim > 1 or self.labels.dtype != "int32"):
            raise ValueError(
                "`class_weights` must come with class labels, integers (N,). "
                f"Received: labels of shape {self.labels.shape} and type {self.labels.dtype}"
            )

    def make_batch(self, bucket: int, members: Any) -> Any:
        count = len(members)
        length, filler = self.bucket_lengths[bucket], int(self.pad_id != 1)
        inputs = pad_columns(self.columns, members, self.batch_size, length, filler, self.pad_id)
        labels = np.zeros((self.batch_size, *self.labels.shape[1:]), self.labels.dtype)
        weights = np.zeros(self.batch_size, "float32")
        if count:
            labels[:count] = self.labels[members]
            weights[:count] = 1 if self.class_weights is None else self.class_weights[labels[:count]]
            rows = count if self.shuffle else self.num_examples / len(self)  # the mean over all batches
            weights *= np.float32(self.batch_size / rows)
        return inputs, labels, weights


def _checked_labels(labels, num_examples):
    """Returns labels as int32 or float32."""
    labels = np.asarray(labels)
    if labels.ndim not in (1, 2) or len(labels) != num_examples:
        raise ValueError(
            f"`labels` must have a label for each of {num_examples} examples. Received: labels of shape {labels.shape}"
        )
    is_class = np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool
    wrong = (labels < 0 if is_class else ~np.isfinite(labels)).reshape(num_examples, -1).any(axis=1)
    if wrong.any():
        raise ValueError(
            "`labels` must be classes from 0, or finite numbers. "
            f"Received: labels[{wrong.argmax()}]={labels[wrong.argmax()]}"
        )
    return labels.astype("int32" if is_class else "float32")

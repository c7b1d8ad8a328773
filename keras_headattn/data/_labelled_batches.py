"""Batches of the ids of texts with their labels, in a few fixed shapes."""

import numpy as np
import tensorflow as tf

from keras_headattn.data._batching import as_dataset
from keras_headattn.data._buckets import bucket_of, pad_ids, plan_batches


class TextBatches:
    """Batches of texts, or of pairs of texts, in one shape for each bucket of lengths.

    A text goes to the shortest bucket that holds it; of a pair both texts do, to one that holds both. Every batch has
    the same number of rows; the last one of a bucket is filled up with rows of the one id 1.

    Args:
        texts: list of integer arrays, none of them empty.
        second_texts: list of integer arrays, as many; `None` where each example is one text. Default `None`.
        batch_size: int, B. Default 32.
        bucket_lengths: ascending ints. Default (16, 32, 64, 128).

    Raises:
        ValueError: for a text that no bucket holds.

    >>> batches = TextBatches([[5, 3], [6, 7, 3]], batch_size=4, bucket_lengths=(4,))
    >>> [(members.tolist(), inputs["text"].tolist()) for members, inputs in batches.batches()]
    [([0, 1], [[5, 3, 0, 0], [6, 7, 3, 0], [1, 0, 0, 0], [1, 0, 0, 0]])]
    """

    def __init__(self, texts, second_texts=None, batch_size=32, bucket_lengths=(16, 32, 64, 128)):
        self.texts = {"text": texts} | ({} if second_texts is None else {"second_text": second_texts})
        self.batch_size = batch_size
        self.bucket_lengths = tuple(bucket_lengths)
        self._bucket = bucket_of(longer_side(texts, second_texts), self.bucket_lengths)
        if np.any(self._bucket == len(self.bucket_lengths)):
            raise ValueError(f"Every text must fit in a bucket. Received: bucket_lengths={self.bucket_lengths}")
        self._counts = np.bincount(self._bucket, minlength=len(self.bucket_lengths))

    def __len__(self):
        """Batches an epoch."""
        return int(np.ceil(self._counts / self.batch_size).sum())

    @property
    def num_texts(self):
        """How many examples there are."""
        return len(self._bucket)

    @property
    def padding_share(self):
        """float, the share of an epoch's positions that is padding, of all texts together."""
        rows = np.ceil(self._counts / self.batch_size) * self.batch_size
        positions = len(self.texts) * np.dot(rows, self.bucket_lengths)
        return float(1 - sum(len(ids) for texts in self.texts.values() for ids in texts) / positions)

    def batches(self, rng=None):
        """Yields tuples of the indices of the first rows, int array `(k,)`, and the batch.

        Args:
            rng: NumPy generator that shuffles texts and batches. Default `None`: in order, shortest bucket first.

        Each batch is a dict of `"text"` and, of pairs, `"second_text"`, int32 `(B, L)`.
        """
        for bucket, members in plan_batches(self._bucket, [self.batch_size] * len(self.bucket_lengths), rng):
            inputs = {}
            for name, texts in self.texts.items():
                inputs[name] = pad_ids([texts[i] for i in members], self.batch_size, self.bucket_lengths[bucket])
                inputs[name][len(members) :, 0] = 1
            yield members, inputs


class LabelledBatches(TextBatches):
    """Batches of texts and their labels for `fit` and `evaluate`, of which `dataset()` makes a `tf.data.Dataset`.

    Each text comes once an epoch. To train, the order is a function of `(seed, epoch)` alone, so that training can be
    resumed exactly: `keras_headattn.training.Resume` sets `epoch`.

    The weights make the mean over all rows of a batch the mean over its real ones, times the weights of their classes.
    To evaluate they are all the same, so that the mean of the batches' losses is that over the texts.

    Args:
        texts: list of integer arrays, none of them empty.
        labels: ints `(N,)`.
        second_texts, batch_size, bucket_lengths: as `TextBatches` takes them.
        class_weights: floats `(C,)`. Default `None`: all 1.
        num_replicas: int, of which B must be a multiple. Default 1.
        training: bool. Default False.
        seed: int. Default 0.

    Each item is a tuple `(inputs, labels, sample_weight)`:
        inputs: as `TextBatches.batches` makes them.
        labels: int32 `(B,)`.
        sample_weight: float32 `(B,)`, 0 of rows that fill up.

    Raises:
        ValueError: for a text that no bucket holds, or a batch that cannot be split evenly.

    >>> batches = LabelledBatches([[5, 3], [6, 7, 3]], [1, 0], batch_size=4, bucket_lengths=(4,))
    >>> inputs, labels, weights = next(iter(batches))
    >>> labels.tolist(), weights.tolist()
    ([1, 0, 0, 0], [2.0, 2.0, 0.0, 0.0])
    """

    def __init__(
        self,
        texts,
        labels,
        second_texts=None,
        batch_size=32,
        bucket_lengths=(16, 32, 64, 128),
        class_weights=None,
        num_replicas=1,
        training=False,
        seed=0,
    ):
        if batch_size % num_replicas:
            raise ValueError(
                f"A batch must be a multiple of the {num_replicas} replicas. Received: batch_size={batch_size}"
            )
        super().__init__(texts, second_texts, batch_size, bucket_lengths)
        self.labels = np.asarray(labels, "int32")
        self.class_weights = None if class_weights is None else np.asarray(class_weights, "float32")
        self.training = training
        self.seed = seed
        self.epoch = 0

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch]) if self.training else None
        for members, inputs in self.batches(rng):
            labels, weights = np.zeros(self.batch_size, "int32"), np.zeros(self.batch_size, "float32")
            labels[: len(members)] = self.labels[members]
            weights[: len(members)] = 1 if self.class_weights is None else self.class_weights[self.labels[members]]
            rows = len(members) if self.training else self.num_texts / len(self)  # the mean over all batches
            yield inputs, labels, weights * np.float32(self.batch_size / rows)

    def dataset(self):
        """Returns a `tf.data.Dataset` of `len(self)` batches, those of the `epoch` set when it is gone through."""
        ids = tf.TensorSpec((self.batch_size, None), "int32")
        labels, weights = (tf.TensorSpec((self.batch_size,), dtype) for dtype in ("int32", "float32"))
        return as_dataset(self, (dict.fromkeys(self.texts, ids), labels, weights))

    def summary(self):
        """Returns a line of text: examples, batches, lengths, share of padding."""
        lengths = ", ".join(map(str, self.bucket_lengths))
        return (
            f"{self.num_texts:,} examples in {len(self):,} batches of {self.batch_size} an epoch, "
            f"lengths {lengths}, {self.padding_share:.1%} padding"
        )


def longer_side(texts, second_texts=None):
    """Length of each text, or of the longer one of each pair: int array."""
    sides = [np.array([len(ids) for ids in side], "int64") for side in (texts, second_texts) if side is not None]
    return np.max(sides, axis=0)


def balanced_class_weights(labels, num_classes):
    """Weights with which all classes count the same: the mean number of examples of a class over its own.

    Args:
        labels: ints `(N,)`.
        num_classes: int, C.

    Returns:
        float32 array `(C,)`. Over all examples their mean is 1. A class without examples has 0.

    >>> balanced_class_weights([0, 0, 0, 1], 2).tolist()
    [0.6666666865348816, 2.0]
    """
    counts = np.bincount(np.asarray(labels), minlength=num_classes)
    present = counts > 0
    weights = np.zeros(num_classes, "float32")
    weights[present] = len(labels) / (present.sum() * counts[present])
    return weights

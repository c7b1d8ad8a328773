"""Batches of token ids in a few fixed shapes, so that XLA compiles once for each shape."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._tensorflow import generated, keep_freed_buffers, untuned
from keras_headattn.data._buckets import bucket_of, column_lengths, pad_columns, plan_batches


class Batches:
    """Base of batches in length buckets: shapes, statistics and the `tf.data.Dataset`.

    A subclass can be iterated over and implements `make_batch`.

    Args:
        counts: int array, number of examples in each bucket and, last, of those too long for any.
        num_tokens: dict from column name to its tokens in an epoch.
        rows, bucket_lengths: rows and length of the batches of each bucket, shortest first.
        seed: int.
    """

    def __init__(
        self,
        counts: np.ndarray,
        num_tokens: Mapping[str, int],
        rows: Sequence[int],
        bucket_lengths: Sequence[int],
        seed: int,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_tokens = num_tokens
        self.bucket_lengths = tuple(bucket_lengths)
        self.seed = seed
        self._counts = counts
        self.rows = rows
        if not counts[:-1].any():
            raise ValueError(
                f"`bucket_lengths` must have a bucket for some example; all {self.num_dropped} are longer. "
                f"Received: bucket_lengths={self.bucket_lengths}"
            )
        if not all(rows[bucket] for bucket in self._used()):
            raise ValueError(
                "A batch must hold an example of the longest bucket on each replica: raise `tokens_per_batch`, or use "
                f"fewer replicas. Received: batches (rows x length) of {self._shapes_in_words()}"
            )

    def make_batch(self, bucket: int, members: Any) -> Any:
        """Makes a batch, a structure of arrays.

        Args:
            bucket: index of the bucket; the batch has `self.rows[bucket]` rows.
            members: its examples, at most one for each row; in memory, their indices as an int array. `dataset()` calls
                it without any to learn shapes and types.
        """
        raise NotImplementedError

    def _used(self):
        """Returns the indices of the buckets in use."""
        return np.flatnonzero(self._counts[:-1]).tolist()

    def __len__(self):
        return sum(math.ceil(self._counts[bucket] / self.rows[bucket]) for bucket in self._used())

    @property
    def num_examples(self) -> int:
        """Number of examples in an epoch."""
        return int(self._counts[:-1].sum())

    @property
    def num_rows(self) -> int:
        """Number of rows of an epoch's batches, with those that fill up the last ones."""
        return sum(math.ceil(self._counts[bucket] / self.rows[bucket]) * self.rows[bucket] for bucket in self._used())

    @property
    def num_dropped(self) -> int:
        """Number of examples left out because they are longer than the last bucket."""
        return int(self._counts[-1])

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """List of the batches' shapes (B, L), one for each bucket in use."""
        return [(self.rows[bucket], self.bucket_lengths[bucket]) for bucket in self._used()]

    @property
    def padding_share(self) -> dict[str, float]:
        """Share of an epoch's positions that is padding, by column."""
        batches = [math.ceil(self._counts[bucket] / self.rows[bucket]) for bucket in self._used()]
        positions = sum(count * rows * length for count, (rows, length) in zip(batches, self.shapes, strict=True))
        return {name: 1 - tokens / positions for name, tokens in self.num_tokens.items()}

    def dataset(self) -> tf.data.Dataset:
        """Returns a `tf.data.Dataset` of the batches of the current `epoch`."""

        def spec(*arrays):
            axes = zip(*(array.shape for array in arrays), strict=True)
            return tf.TensorSpec([axis[0] if len({*axis}) == 1 else None for axis in axes], arrays[0].dtype)

        return dataset_of(self, tf.nest.map_structure(spec, *(self.make_batch(bucket, []) for bucket in self._used())))

    def summary(self) -> str:
        """Returns a summary of examples, tokens, padding and shapes as text."""
        return (
            f"{self.num_examples:,} examples in {len(self):,} batches an epoch "
            f"({self.num_dropped:,} longer than {self.bucket_lengths[-1]} tokens left out)\n"
            f"tokens: {', '.join(f'{name} {tokens:,}' for name, tokens in self.num_tokens.items())}\n"
            f"padding: {', '.join(f'{name} {share:.1%}' for name, share in self.padding_share.items())}\n"
            f"shapes (rows x length): {self._shapes_in_words()}"
        )

    def _shapes_in_words(self):
        return ", ".join(f"{rows} x {length}" for rows, length in self.shapes)


def dataset_of(batches: Any, signature: Any) -> tf.data.Dataset:
    """Makes a `tf.data.Dataset` that iterates over the batches anew each time.

    Args:
        batches: iterable with a length. If it raises an error, its attribute `fault` is that error, and TensorFlow
            raises a `tf.errors.OpError`.
        signature: structure of `tf.TensorSpec` of a batch.
    """

    def generate():
        batches.fault = None
        try:
            yield from batches
        except Exception as error:
            batches.fault = error
            raise

    dataset = generated(generate, signature)
    return untuned(dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(2))


class MemoryBatches(Batches, keras.utils.PyDataset):
    """Length-bucketed batches of columns in memory; base of `TokenBatches`, `LabelledBatches` and your own.

    A subclass overrides `make_batch`. Each example comes once an epoch, in an order that depends on `(seed, epoch)`
    alone: `keras_headattn.training.Resume` sets `epoch` to resume training exactly.

    Args:
        columns: dict from name to a list of integer arrays, equally many in each.
        rows, bucket_lengths: rows and length of the batches of each bucket, shortest first.
        shuffle, seed: True to change the order from epoch to epoch, and its seed.
        bucket: int array, index of each example's bucket, `len(bucket_lengths)` to leave it out. Default `None`: the
            shortest that holds all columns.

    Raises:
        ValueError: for columns of different lengths, no example that fits, or a bucket in use without rows.

    >>> class Lengths(MemoryBatches):
    ...     def make_batch(self, bucket, members):
    ...         return np.array([len(self.columns["text"][i]) for i in members])
    >>> batches = Lengths({"text": [[5], [6, 7], [8, 9]]}, rows=[2, 2], bucket_lengths=(1, 4), shuffle=False, seed=0)
    >>> [batches[0].tolist(), batches[1].tolist()]
    [[1], [2, 2]]
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[np.ndarray]],
        rows: Sequence[int],
        bucket_lengths: Sequence[int],
        shuffle: bool,
        seed: int,
        bucket: np.ndarray | None = None,
        **kwargs: Any,
    ):
        lengths = column_lengths(columns)
        self.columns = columns
        self.shuffle = shuffle
        longest = np.max(list(lengths.values()), axis=0)
        self._bucket = bucket_of(longest, bucket_lengths) if bucket is None else bucket
        counts = np.bincount(self._bucket, minlength=len(bucket_lengths) + 1)
        kept = self._bucket < len(bucket_lengths)
        num_tokens = {name: int(of_rows[kept].sum()) for name, of_rows in lengths.items()}
        super().__init__(counts, num_tokens, rows, bucket_lengths, seed, **kwargs)
        self.epoch = 0

    @property
    def epoch(self) -> int:
        """Index of the current epoch; can be set."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        self._epoch = epoch
        rng = np.random.default_rng([self.seed, epoch]) if self.shuffle else None
        self._batches = plan_batches(self._bucket, self.rows, rng)

    def on_epoch_end(self) -> None:
        """Advances to the next epoch. Keras calls it if `fit` gets the object itself."""
        self.epoch += 1

    def __getitem__(self, index):
        keep_freed_buffers()  # Keras makes a generator of this object
        return self.make_batch(*self._batches[index])


class TokenBatches(MemoryBatches):
    """Training batches with about the same number of tokens each, in one shape per length bucket.

    An example goes to the shortest bucket that holds all its columns. Batches of length L have
    `B = tokens_per_batch // L` rows, rounded down to a multiple of `num_replicas`; a bucket's last batch is filled with
    rows of zeros. Order and resuming: see `MemoryBatches`. Pass `dataset()` to `fit`, or the object itself with
    `shuffle=False`.

    Args:
        columns: dict from name to a list of integer arrays, equally many in each. No row may be empty or contain the id
            0.
        tokens_per_batch: positions of each column in a batch, padding included.
        bucket_lengths: ascending ints, see `choose_buckets`. Longer examples are left out.
        num_replicas: divisor of the row counts.
        preprocess: function from the padded columns, a dict of int32 `(B, L)`, to the batch; also called with all
            zeros. Default `None`: the columns are the batch.
        shuffle, seed: see `MemoryBatches`.

    Raises:
        ValueError: for invalid columns or buckets, too small a `tokens_per_batch`, or no example that fits.

    >>> columns = {"source": [[5, 3], [6, 7, 3]], "target": [[8, 3], [9, 3]]}
    >>> batches = TokenBatches(columns, tokens_per_batch=8, bucket_lengths=(4,), preprocess=teacher_forcing)
    >>> inputs, labels, sample_weight = batches[0]
    >>> labels.shape, float(sample_weight.mean())
    ((2, 4), 1.0)
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[np.ndarray]],
        tokens_per_batch: int = 4096,
        bucket_lengths: Sequence[int] = (16, 32, 64, 128),
        num_replicas: int = 1,
        preprocess: Callable[[dict[str, Any]], Any] | None = None,
        shuffle: bool = True,
        seed: int = 0,
        **kwargs: Any,
    ):
        self.preprocess = preprocess
        rows = rows_of_tokens(tokens_per_batch, bucket_lengths, num_replicas)
        super().__init__(columns, rows, bucket_lengths, shuffle, seed, **kwargs)
        for name, column in columns.items():
            if not all(map(len, column)) or not np.concatenate(column).all():
                bad = next(i for i, ids in enumerate(column) if not len(ids) or not np.all(ids))
                raise ValueError(
                    "`columns` must have at least one id in every row, and none may be 0, which is padding. "
                    f"Received: {name}[{bad}]={list(column[bad])}"
                )

    def make_batch(self, bucket: int, members: Any) -> Any:
        padded = pad_columns(self.columns, members, self.rows[bucket], self.bucket_lengths[bucket])
        return self.preprocess(padded) if self.preprocess else padded


def rows_of_tokens(tokens_per_batch, bucket_lengths, num_replicas):
    """Returns the rows of each bucket's batches."""
    return [tokens_per_batch // length // num_replicas * num_replicas for length in bucket_lengths]


def teacher_forcing(
    columns: dict[str, Any], target: str = "target", bos_id: int = 2, tokens_per_row: float | None = None
) -> tuple[dict[str, Any], Any, Any]:
    """Makes a batch to train a decoder, which predicts each token of a column from those before it.

    The weighted mean over a batch is the mean over its real target tokens, also if the batch is split over replicas
    whose losses are averaged. A Keras mask on the output would scale the loss by the padding twice.

    Args:
        columns: dict of int32 `(B, L)`, padded with 0.
        target: column to predict; its rows end in the end symbol.
        bos_id: id that starts the decoder input.
        tokens_per_row: mean number of tokens of a row of all batches to evaluate on, `num_tokens[target] / num_rows`:
            the loss of `evaluate`, a mean over rows, is then that over tokens. Default `None`: the batch's own.

    Returns:
        Tuple `(inputs, labels, sample_weight)`:
            inputs: the columns, with `target` replaced by the decoder input [bos, y_1, y_2, ...], int32 `(B, L)`.
            labels: int32 `(B, L)`, [y_1, y_2, ..., eos, 0, ...].
            sample_weight: float32 `(B, L)`, 0 at padding, constant elsewhere, with mean 1 by default.

    >>> inputs, labels, sample_weight = teacher_forcing({"target": np.array([[4, 5, 3, 0]], "int32")})
    >>> inputs["target"].tolist(), labels.tolist(), (3 * sample_weight).tolist()
    ([[2, 4, 5, 0]], [[4, 5, 3, 0]], [[4.0, 4.0, 4.0, 0.0]])
    """
    labels = columns[target]
    real = labels != 0
    shifted = np.zeros_like(labels)
    shifted[:, 0] = bos_id * real[:, 0]
    shifted[:, 1:] = labels[:, :-1] * real[:, 1:]  # without the end symbol
    tokens_per_row = real.sum() / len(labels) if tokens_per_row is None else tokens_per_row
    sample_weight = real * np.float32(labels.shape[1] / (tokens_per_row or 1))
    return columns | {target: shifted}, labels, sample_weight

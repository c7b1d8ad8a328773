"""Batches of named columns of ids in a few fixed shapes, so that XLA compiles once a shape and no more."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.data._buckets import bucket_of, column_lengths, pad_columns, plan_batches


class Batches:
    """The common part of batches in length buckets: their shapes, figures about them, and the `tf.data.Dataset`.

    A subclass yields its batches when it is gone through, and has the method `make_batch`, as `MemoryBatches` has it.

    Args:
        counts: int array, the number of examples in each bucket and, last, of those that none holds.
        num_tokens: dict of str to int, the tokens of each column in an epoch.
        rows: list of ints, the rows of the batches of each bucket.
        bucket_lengths: ascending ints.
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
                f"All {self.num_dropped} examples are longer than the last bucket. Add a longer bucket. "
                f"Received: bucket_lengths={self.bucket_lengths}"
            )
        if not all(rows[bucket] for bucket in self._used()):
            raise ValueError(
                "A batch must hold an example of the longest bucket on each replica: more tokens_per_batch, or fewer "
                f"replicas. Received: batches (rows x length) of {self._shapes_in_words()}"
            )

    def make_batch(self, bucket: int, members: Any) -> Any:
        """Makes a batch.

        Args:
            bucket: int, the number of its bucket: it has `self.rows[bucket]` rows.
            members: its examples, at most one a row. In memory an int array, their positions in the columns. Of none
                `dataset()` makes a batch that says what shapes and types there are.

        Returns:
            Structure of arrays.
        """
        raise NotImplementedError

    def _used(self):
        """List of the numbers of the buckets in use."""
        return np.flatnonzero(self._counts[:-1]).tolist()

    def __len__(self):
        return sum(math.ceil(self._counts[bucket] / self.rows[bucket]) for bucket in self._used())

    @property
    def num_examples(self) -> int:
        """int, the examples that come in an epoch."""
        return int(self._counts[:-1].sum())

    @property
    def num_dropped(self) -> int:
        """int, the examples left out because they are longer than the last bucket."""
        return int(self._counts[-1])

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """List of (B, L), the shapes of the batches, one for each bucket in use."""
        return [(self.rows[bucket], self.bucket_lengths[bucket]) for bucket in self._used()]

    @property
    def padding_share(self) -> dict[str, float]:
        """Dict of str to float, the share of an epoch's positions of each column that is padding."""
        batches = [math.ceil(self._counts[bucket] / self.rows[bucket]) for bucket in self._used()]
        positions = sum(number * rows * length for number, (rows, length) in zip(batches, self.shapes, strict=True))
        return {name: 1 - tokens / positions for name, tokens in self.num_tokens.items()}

    def dataset(self) -> tf.data.Dataset:
        """Returns a `tf.data.Dataset` of `len(self)` batches, those of the `epoch` set when it is gone through."""

        def spec(*arrays):
            axes = zip(*(array.shape for array in arrays), strict=True)
            return tf.TensorSpec([axis[0] if len({*axis}) == 1 else None for axis in axes], arrays[0].dtype)

        return dataset_of(self, tf.nest.map_structure(spec, *(self.make_batch(bucket, []) for bucket in self._used())))

    def _batch(self, bucket, members):
        raise NotImplementedError

    def summary(self) -> str:
        """Returns a few lines of text: examples, tokens, padding, shapes."""
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
    """Makes a `tf.data.Dataset` of batches, which are gone through anew each time.

    Args:
        batches: iterable that has a length. Its attribute `fault` becomes the error that it raises, of which TensorFlow
            makes one of its own.
        signature: structure of `tf.TensorSpec`, that of a batch.

    Returns:
        `tf.data.Dataset` of `len(batches)` batches.

    Raises:
        tf.errors.OpError: when gone through, if the iterable raises an error.
    """

    def generate():
        batches.fault = None
        try:
            yield from batches
        except Exception as error:
            batches.fault = error
            raise

    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(2)
    # There is nothing to tune, and on a busy machine the thread that tunes took up to 40 seconds to end.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class MemoryBatches(Batches, keras.utils.PyDataset):
    """Batches of columns in memory in length buckets: the base of `TokenBatches`, `LabelledBatches` and your own.

    A subclass overrides `make_batch`. Each example comes once an epoch, and the order is a function of `(seed, epoch)`
    alone, so that training can be resumed exactly: `keras_headattn.training.Resume` sets `epoch`.

    Args:
        columns: dict of str to a list of integer arrays, as many in each.
        rows: list of ints, the rows of the batches of each bucket.
        bucket_lengths: ascending ints.
        shuffle: bool, whether the order changes from epoch to epoch.
        seed: int.
        bucket: int array, the number of the bucket of each example, `len(bucket_lengths)` for one that is left out.
            Default `None`: the shortest that holds all columns.

    Raises:
        ValueError: for columns of different lengths, no example that fits, or a used bucket without rows.

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
        """int, the number of the epoch whose batches are served. It can be set."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        self._epoch = epoch
        rng = np.random.default_rng([self.seed, epoch]) if self.shuffle else None
        self._batches = plan_batches(self._bucket, self.rows, rng)

    def on_epoch_end(self) -> None:
        """Advances to the order of the next epoch. Keras calls it where `fit` is given the object itself."""
        self.epoch += 1

    def __getitem__(self, index):
        return self.make_batch(*self._batches[index])


class TokenBatches(MemoryBatches):
    """Training batches with about the same number of tokens each, in one shape per length bucket.

    An example goes to the shortest bucket that holds all of its columns. Every batch of a bucket of length L has
    the same B = tokens_per_batch // L rows (rounded down to a multiple of `num_replicas`); the last one of an
    epoch is filled up with rows of zeros. Each example comes exactly once an epoch. The order is a function
    of `(seed, epoch)` alone, so that training can be resumed exactly: `keras_headattn.training.Resume` sets
    `epoch`. Give `fit` `dataset()`, or the object itself with `shuffle=False`.

    Args:
        columns: dict of str to a list of integer arrays, as many in each. No row may be empty, nor have the id 0.
        tokens_per_batch: int, positions of each column in a batch, padding included. Default 4096.
        bucket_lengths: ascending ints. `choose_buckets` finds those which pad least. Longer examples are left out.
            Default (16, 32, 64, 128).
        num_replicas: int, row counts are multiples of it. Default 1.
        preprocess: function that makes a batch of the padded columns, a dict of str to int32 `(B, L)`. It is called
            with zeros alone, too. Default `None`: the columns are the batch.
        shuffle: bool, whether the order changes from epoch to epoch. Default True.
        seed: int. Default 0.

    Raises:
        ValueError: for columns of different lengths, empty rows, ids of 0, buckets that do not ascend, too small a
            `tokens_per_batch`, no example that fits.

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
                    "Every row needs at least one id, and none may be 0, which is padding. "
                    f"Received: {name}[{bad}]={list(column[bad])}"
                )

    def make_batch(self, bucket: int, members: Any) -> Any:
        padded = pad_columns(self.columns, members, self.rows[bucket], self.bucket_lengths[bucket])
        return self.preprocess(padded) if self.preprocess else padded


def rows_of_tokens(tokens_per_batch, bucket_lengths, num_replicas):
    """Rows of the batches of each bucket: list of ints."""
    return [tokens_per_batch // length // num_replicas * num_replicas for length in bucket_lengths]


def teacher_forcing(
    columns: dict[str, Any], target: str = "target", bos_id: int = 2
) -> tuple[dict[str, Any], Any, Any]:
    """The batch to train a decoder on, which predicts each token of a column from those before it.

    The weights make the mean over all positions of a batch the mean over its real target tokens. That stays
    true when the batch is split over replicas whose losses are averaged, however unevenly the padding falls.
    Losses need no mask besides: a Keras mask on the model's output would make them scale by the padding
    twice.

    Args:
        columns: dict of str to int32 `(B, L)`, padded with 0.
        target: str, the column that is predicted. Each of its rows ends in the end symbol. Default "target".
        bos_id: int, the id that starts the decoder input. Default 2.

    Returns:
        Tuple `(inputs, labels, sample_weight)`:
            inputs: the columns, in which `target` is int32 `(B, L)`, the decoder input [bos, y_1, y_2, ...].
            labels: int32 `(B, L)`, [y_1, y_2, ..., eos, 0, ...].
            sample_weight: float32 `(B, L)`, 0 at padding and the same number everywhere else, with mean 1.

    >>> inputs, labels, sample_weight = teacher_forcing({"target": np.array([[4, 5, 3, 0]], "int32")})
    >>> inputs["target"].tolist(), labels.tolist(), (3 * sample_weight).tolist()
    ([[2, 4, 5, 0]], [[4, 5, 3, 0]], [[4.0, 4.0, 4.0, 0.0]])
    """
    labels = columns[target]
    real = labels != 0
    shifted = np.zeros_like(labels)
    shifted[:, 0] = bos_id * real[:, 0]
    # The last label of a row is its end symbol, which is never an input.
    shifted[:, 1:] = labels[:, :-1] * real[:, 1:]
    sample_weight = real * np.float32(labels.size / max(1, real.sum()))
    return columns | {target: shifted}, labels, sample_weight

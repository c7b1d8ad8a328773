"""TFRecord shards of records."""

import collections
import contextlib
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from keras_headattn._files import atomic_path, checksum
from keras_headattn._tensorflow import untuned

DAMAGE = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError)


def write_shard(path: pathlib.Path, rows: Iterable[Mapping[str, ArrayLike]]) -> None:
    """Writes a shard of `Records`, a TFRecord file that appears when it is complete.

    Args:
        path: path of the file.
        rows: iterable of dicts from column name to integer array.

    Raises:
        OSError: if it cannot be written, such as on a full disk; an earlier file is kept.
    """
    try:
        with atomic_path(path) as temporary, tf.io.TFRecordWriter(str(temporary)) as writer:
            for row in rows:
                example = tf.train.Example()
                for name, ids in row.items():
                    example.features.feature[name].int64_list.value.extend(np.asarray(ids).tolist())
                writer.write(example.SerializeToString(deterministic=True))
    except tf.errors.OpError as error:  # such as a full disk
        raise OSError(f"The shard cannot be written. Received: {path}: {error.message}") from error


def row_lengths(block):
    """Returns the number of ids in each row of a block, by column."""
    return {name: ids.row_lengths().numpy() for name, ids in block.items()}


def describe_shard(
    path: pathlib.Path, columns: Sequence[str], count: Callable[[dict[str, Any]], dict[str, np.ndarray]] = row_lengths
) -> dict[str, Any]:
    """Reads a shard, checks its internal checksums, and returns its entry in `Records.shards`.

    Args:
        path: path of the file.
        columns: names of the columns.
        count: function from a block of rows, a dict of ragged tensors, to a dict of int arrays, the tokens in each row.
            Default: all ids are tokens.

    Raises:
        ValueError: if the file is missing, damaged, or not a regular file.
    """
    if not path.is_file():
        raise ValueError(f"A shard must be a file of TFRecords. Received: {path}")
    parts = [np.zeros((0, len(columns)), "int64")]
    with damage_reported(path):
        for block in read_blocks([str(path)], columns, 10_000):
            counts = count(block)
            parts.append(np.stack([counts[name] for name in columns], axis=1))
    lengths = np.concatenate(parts)
    values, places = np.unique(lengths.max(axis=1), return_inverse=True)

    def summed(numbers=None):
        return np.bincount(places, numbers, len(values)).astype(int).tolist()

    return {
        "name": path.name,
        "bytes": path.stat().st_size,
        "sha256": checksum(path),
        "examples": len(lengths),
        "histogram": {
            "length": values.tolist(),
            "examples": summed(),
            "tokens": {name: summed(lengths[:, i]) for i, name in enumerate(columns)},
        },
    }


@contextlib.contextmanager
def damage_reported(path):
    """Raises a `ValueError` that names the shard if TensorFlow finds it damaged."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"The shard is damaged. Received: {path}: {error.message}") from error


def read_blocks(paths, columns, size, parallel=1):
    """Yields up to `size` examples at a time, as dicts of ragged int64 tensors by column."""
    features = {name: tf.io.RaggedFeature(tf.int64) for name in columns}
    records = tf.data.Dataset.from_tensor_slices(paths).interleave(
        tf.data.TFRecordDataset, cycle_length=parallel, block_length=16
    )

    def parse(some):
        return tf.io.parse_example(some, features)

    try:
        for block in untuned(records.batch(size).map(parse).prefetch(1)):
            yield {name: block[name] for name in columns}
    except DAMAGE:  # TensorFlow does not say which shard is damaged
        for path in paths:
            with damage_reported(path):
                collections.deque(untuned(tf.data.TFRecordDataset(path).batch(size).map(parse)), 0)
        raise

"""Length buckets: their choice, the batches of an epoch, and padding."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def pad_ids(ids: Sequence[Sequence[int] | np.ndarray], rows: int, length: int, pad_id: int = 0) -> np.ndarray:
    """Pads lists of ids to one int32 array `(rows, length)`.

    Args:
        ids: at most `rows` integer arrays of at most `length` ids.
        rows, length: shape of the result; rows beyond `len(ids)` are all padding.
        pad_id: id of padding.

    >>> pad_ids([[5, 3], [7, 8, 3]], rows=3, length=4).tolist()
    [[5, 3, 0, 0], [7, 8, 3, 0], [0, 0, 0, 0]]
    """
    padded = np.full((rows, length), pad_id, "int32")
    if len(ids):
        lengths = np.zeros(rows, "int64")
        lengths[: len(ids)] = [len(row) for row in ids]
        padded[np.arange(length) < lengths[:, None]] = np.concatenate(ids)
    return padded


def choose_buckets(
    lengths: Sequence[int] | np.ndarray,
    max_buckets: int,
    max_padding: float | None = None,
    counts: Sequence[int] | np.ndarray | None = None,
) -> tuple[int, ...]:
    """Chooses the bucket lengths that pad a data set least, exactly, by dynamic programming.

    Args:
        lengths: length of each example, such as from `example_lengths`. The longest always fits.
        max_buckets: largest number of buckets.
        max_padding: share of positions in (0, 1) that may be padding in the longest column: the fewest buckets that
            keep to it are chosen. Default `None`: `max_buckets` buckets.
        counts: number of examples of each of `lengths`. Default `None`: one.

    Returns:
        Tuple of ints, ascending.

    Raises:
        ValueError: if there are no lengths, `max_buckets` is below 1, or so many buckets pad more than `max_padding`.

    >>> choose_buckets([3, 3, 4, 9, 10, 10], 2)
    (4, 10)
    >>> choose_buckets([3, 3, 4, 9, 10, 10], 6, max_padding=0.1)
    (4, 10)
    """
    lengths = np.asarray(lengths, "int64")
    values, places = np.unique(lengths, return_inverse=True)
    if not len(values) or max_buckets < 1:
        raise ValueError(
            "`lengths` must have at least one example, and `max_buckets` must be at least 1. "
            f"Received: {len(values)} distinct lengths, max_buckets={max_buckets}"
        )
    counts = np.bincount(places, counts).astype("int64")
    below = np.concatenate([[0], np.cumsum(counts)])
    # cost[j]: padded positions of the j shortest distinct lengths; one bucket pads them all to the j-th.
    cost = below * np.concatenate([[0], values])
    starts = []
    enough = 0 if max_padding is None else np.dot(values, counts) / (1 - max_padding)
    while cost[-1] > enough and len(starts) + 1 < min(max_buckets, len(values)):
        # One more bucket, (i, j]: its examples are padded to values[j - 1].
        total = cost[:, None] + (below[None, :] - below[:, None]) * np.concatenate([[0], values])
        total[np.tril_indices(len(total), -1)] = np.iinfo("int64").max
        starts.append(total.argmin(axis=0))
        cost = total.min(axis=0)
    if max_padding is not None and cost[-1] > enough:
        share = 1 - np.dot(values, counts) / cost[-1]
        raise ValueError(
            f"With {max_buckets} buckets {share:.1%} of the positions are padding: allow more buckets or more padding. "
            f"Received: max_buckets={max_buckets}, max_padding={max_padding}"
        )
    buckets, end = [], len(values)
    for start in [*reversed(starts), np.zeros(len(below), int)]:
        if end:
            buckets.append(int(values[end - 1]))
            end = start[end]
    return tuple(reversed(buckets))


def bucket_of(lengths, bucket_lengths):
    """Returns the index of the shortest bucket that holds each example, `len(bucket_lengths)` if none does.

    >>> bucket_of([3, 4, 5, 9], (4, 8)).tolist()
    [0, 0, 1, 2]
    """
    buckets = np.asarray(bucket_lengths)
    if not len(buckets) or buckets[0] < 1 or np.any(np.diff(buckets) <= 0):
        raise ValueError(
            f"`bucket_lengths` must be positive and ascending. Received: bucket_lengths={tuple(bucket_lengths)}"
        )
    return np.searchsorted(buckets, lengths)


def plan_batches(bucket, rows, rng=None):
    """Returns the batches of an epoch, `[(bucket, indices of examples)]`, shuffled if `rng` is given.

    >>> [(index, members.tolist()) for index, members in plan_batches(np.array([0, 1, 0, 0]), [2, 1])]
    [(0, [0, 2]), (1, [1]), (0, [3])]
    """
    order = np.arange(len(bucket)) if rng is None else rng.permutation(len(bucket))
    batches = []
    for index, size in enumerate(rows):
        members = order[bucket[order] == index]
        batches += [(index, members[start : start + size]) for start in range(0, len(members), size)]
    if rng is not None:
        batches = [batches[position] for position in rng.permutation(len(batches))]
    # Keras infers the shapes for tf.data from the first two batches, which must therefore differ.
    other = next((i for i, batch in enumerate(batches) if batch[0] != batches[0][0]), None)
    if other is not None:
        batches[1], batches[other] = batches[other], batches[1]
    return batches


def column_lengths(columns):
    """Returns the length of each row of each column."""
    lengths = {name: np.array([len(ids) for ids in column], "int64") for name, column in columns.items()}
    if len({len(rows) for rows in lengths.values()}) != 1 or not next(map(len, lengths.values())):
        raise ValueError(
            "`columns` must all have the same number of rows, and at least one. "
            f"Received: {', '.join(f'{name} with {len(rows)}' for name, rows in lengths.items()) or 'no columns'}"
        )
    return lengths


def example_lengths(columns: Mapping[str, Sequence[np.ndarray]]) -> np.ndarray:
    """Returns the length of each example's longest column, ints `(N,)`.

    Args:
        columns: dict from name to a list of integer arrays, equally many in each.

    Raises:
        ValueError: if there are no columns or rows, or columns differ in length.

    >>> example_lengths({"source": [[5, 3], [7, 3]], "target": [[8, 3], [9, 8, 3]]}).tolist()
    [2, 3]
    """
    return np.max(list(column_lengths(columns).values()), axis=0)


def source_lengths(max_length: int) -> tuple[int, ...]:
    """Returns lengths to pad sources to for decoding: powers of two from 16 to at least twice `max_length`.

    >>> source_lengths(40)
    (16, 32, 64, 128)
    """
    lengths = [16]
    while lengths[-1] < 2 * max_length:
        lengths.append(2 * lengths[-1])
    return tuple(lengths)


def source_batches(
    columns: Sequence[np.ndarray] | Mapping[str, Sequence[np.ndarray]],
    bucket_lengths: Sequence[int] = (16, 32, 64, 128),
    batch_size: int = 32,
    filler: int = 0,
    pad_id: int = 0,
) -> list[tuple[np.ndarray, Any]]:
    """Makes batches for decoding or classification: shortest examples first, in one shape per bucket.

    Args:
        columns: list of N integer arrays, or a dict of these.
        bucket_lengths, batch_size: ascending lengths L, and rows B of every batch.
        filler, pad_id: the single id in rows without ids, and the id of padding; both 0 in a column `"segment_ids"`.

    Returns:
        List of `(indices, padded)`: ints `(k,)`, the examples in the first k rows, and int32 `(B, L)`, or a dict of
        these. Rows beyond k are fillers.

    Raises:
        ValueError: if an example is longer than the last bucket.

    >>> for indices, padded in source_batches([[4, 5, 3], [6, 3]], bucket_lengths=(2, 4), batch_size=1):
    ...     print(indices.tolist(), padded.tolist())
    [1] [[6, 3]]
    [0] [[4, 5, 3, 0]]
    """
    named = columns if isinstance(columns, Mapping) else {"ids": columns}
    lengths = example_lengths(named) if any(map(len, named.values())) else np.zeros(0, "int64")
    bucket = bucket_of(lengths, bucket_lengths)
    if np.any(bucket == len(bucket_lengths)):
        raise ValueError(
            f"`bucket_lengths` must have a bucket for the longest example, of {lengths.max()} tokens. "
            f"Received: bucket_lengths={tuple(bucket_lengths)}"
        )
    order = np.argsort(lengths, kind="stable")
    batches = []
    for index, length in enumerate(bucket_lengths):
        members = order[bucket[order] == index]
        for start in range(0, len(members), batch_size):
            indices = members[start : start + batch_size]
            padded = pad_columns(named, indices, batch_size, length, filler, pad_id)
            batches.append((indices, padded if named is columns else padded["ids"]))
    return batches


def pad_columns(columns, indices, rows, length, filler=0, pad_id=0):
    """Pads the examples at these indices to a dict of int32 `(rows, length)`; `filler` is the one id of empty rows."""
    padded = {}
    for name, column in columns.items():
        pad, fill = (0, 0) if name == "segment_ids" else (pad_id, filler)
        padded[name] = ids = pad_ids([column[i] for i in indices], rows, length, pad)
        ids[(ids == pad).all(axis=1), 0] = fill
    return padded

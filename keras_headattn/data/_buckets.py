"""Length buckets: which lengths to pad to, which examples come together, and the padding."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def pad_ids(ids: Sequence[Sequence[int] | np.ndarray], rows: int, length: int, pad_id: int = 0) -> np.ndarray:
    """Writes lists of ids into one array, padded with `pad_id`.

    Args:
        ids: sequence of at most `rows` integer arrays, each of at most `length` ids.
        rows: int, rows of the result; those beyond `len(ids)` are all padding.
        length: int, columns of the result.
        pad_id: int. Default 0.

    Returns:
        int32 array (rows, length).

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
    number: int,
    max_padding: float | None = None,
    counts: Sequence[int] | np.ndarray | None = None,
) -> tuple[int, ...]:
    """Chooses the bucket lengths that pad a data set least.

    Exact, by dynamic programming over the distinct lengths. The longest example always fits.

    Args:
        lengths: sequence of ints, the length of every example, such as `example_lengths` gives.
        number: int, the largest number of buckets wanted. Fewer distinct lengths give fewer buckets.
        max_padding: float in (0, 1), the share of positions that may be padding: the fewest buckets are chosen
            that keep to it. Default `None`: `number` of them. It is the padding of the longest column; the
            others have more, which no choice of buckets can help.
        counts: sequence of ints, how many examples there are of each of `lengths`. Default `None`: one.

    Returns:
        Tuple of ints, ascending.

    Raises:
        ValueError: if there are no lengths, `number` is below 1, or `number` buckets pad more than `max_padding`.

    >>> choose_buckets([3, 3, 4, 9, 10, 10], 2)
    (4, 10)
    >>> choose_buckets([3, 3, 4, 9, 10, 10], 6, max_padding=0.1)
    (4, 10)
    """
    lengths = np.asarray(lengths, "int64")
    values, places = np.unique(lengths, return_inverse=True)
    if not len(values) or number < 1:
        raise ValueError(
            "choose_buckets needs at least one example and at least one bucket. "
            f"Received: {len(values)} distinct lengths, number={number}"
        )
    counts = np.bincount(places, counts).astype("int64")
    below = np.concatenate([[0], np.cumsum(counts)])
    # cost[j]: padded positions of the j shortest distinct lengths; one bucket pads them all to the j-th.
    cost = below * np.concatenate([[0], values])
    starts = []
    enough = 0 if max_padding is None else np.dot(values, counts) / (1 - max_padding)
    while cost[-1] > enough and len(starts) + 1 < min(number, len(values)):
        # One more bucket, (i, j]: its examples are padded to values[j - 1].
        total = cost[:, None] + (below[None, :] - below[:, None]) * np.concatenate([[0], values])
        total[np.tril_indices(len(total), -1)] = np.iinfo("int64").max
        starts.append(total.argmin(axis=0))
        cost = total.min(axis=0)
    if max_padding is not None and cost[-1] > enough:
        share = 1 - np.dot(values, counts) / cost[-1]
        raise ValueError(
            f"With {number} buckets {share:.1%} of the positions are padding. Allow more buckets, or more padding. "
            f"Received: number={number}, max_padding={max_padding}"
        )
    buckets, end = [], len(values)
    for start in [*reversed(starts), np.zeros(len(below), int)]:
        if end:
            buckets.append(int(values[end - 1]))
            end = start[end]
    return tuple(reversed(buckets))


def bucket_of(lengths, bucket_lengths):
    """Returns the index of the shortest bucket that holds each example; `len(bucket_lengths)` where none does.

    >>> bucket_of([3, 4, 5, 9], (4, 8)).tolist()
    [0, 0, 1, 2]
    """
    buckets = np.asarray(bucket_lengths)
    if not len(buckets) or buckets[0] < 1 or np.any(np.diff(buckets) <= 0):
        raise ValueError(f"bucket_lengths must be positive and ascending. Received: {tuple(bucket_lengths)}")
    return np.searchsorted(buckets, lengths)


def plan_batches(bucket, rows, rng=None):
    """Returns the batches of an epoch, `[(bucket, indices of examples)]`, shuffled if there is a generator.

    >>> [(number, members.tolist()) for number, members in plan_batches(np.array([0, 1, 0, 0]), [2, 1])]
    [(0, [0, 2]), (1, [1]), (0, [3])]
    """
    order = np.arange(len(bucket)) if rng is None else rng.permutation(len(bucket))
    batches = []
    for number, size in enumerate(rows):
        members = order[bucket[order] == number]
        batches += [(number, members[start : start + size]) for start in range(0, len(members), size)]
    if rng is not None:
        batches = [batches[position] for position in rng.permutation(len(batches))]
    # Keras reads the shapes for tf.data off the first two batches, and fixes an axis on which they agree.
    other = next((i for i, batch in enumerate(batches) if batch[0] != batches[0][0]), None)
    if other is not None:
        batches[1], batches[other] = batches[other], batches[1]
    return batches


def column_lengths(columns):
    """The length of each row of each column."""
    lengths = {name: np.array([len(ids) for ids in column], "int64") for name, column in columns.items()}
    if len({len(rows) for rows in lengths.values()}) != 1 or not next(map(len, lengths.values())):
        raise ValueError(
            "All columns must have the same number of rows, and at least one. "
            f"Received: {', '.join(f'{name} with {len(rows)}' for name, rows in lengths.items()) or 'no columns'}"
        )
    return lengths


def example_lengths(columns: Mapping[str, Sequence[np.ndarray]]) -> np.ndarray:
    """The length of each example: that of the longest of its columns.

    Args:
        columns: dict of str to a list of integer arrays, as many in each.

    Returns:
        int array `(N,)`.

    Raises:
        ValueError: if there are no columns or no rows, or not as many rows in each column.

    >>> example_lengths({"source": [[5, 3], [7, 3]], "target": [[8, 3], [9, 8, 3]]}).tolist()
    [2, 3]
    """
    return np.max(list(column_lengths(columns).values()), axis=0)


def source_lengths(max_length: int) -> tuple[int, ...]:
    """Lengths to which sources are padded for decoding: powers of two from 16, up to twice `max_length` or more.

    So there is room for a source longer than any translation.

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
    """Batches without an order of epochs, to decode or classify: shortest examples first, in one shape a bucket.

    Args:
        columns: list of N integer arrays; or a dict of str to such a list, as many in each.
        bucket_lengths: ascending ints. Default (16, 32, 64, 128).
        batch_size: int, B, the rows of every batch. Default 32.
        filler: int, the one id of rows without ids. Default 0.
        pad_id: int, id of padding; that of a column `"segment_ids"` is 0, as is its filler. Default 0.

    Returns:
        List of tuples (indices, padded): int array `(k,)` with k <= B, the positions of the first k rows among the
        examples, and int32 array `(B, L)`, or a dict of them. Rows beyond k have no ids: drop what the model makes of
        them.

    Raises:
        ValueError: if an example is longer than the last bucket. Nothing is left out of an evaluation.

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
            f"The longest example has {lengths.max()} tokens, which no bucket holds. Add a longer bucket. "
            f"Received: bucket_lengths={tuple(bucket_lengths)}"
        )
    order = np.argsort(lengths, kind="stable")
    batches = []
    for number, length in enumerate(bucket_lengths):
        members = order[bucket[order] == number]
        for start in range(0, len(members), batch_size):
            indices = members[start : start + batch_size]
            padded = pad_columns(named, indices, batch_size, length, filler, pad_id)
            batches.append((indices, padded if named is columns else padded["ids"]))
    return batches


def pad_columns(columns, indices, rows, length, filler=0, pad_id=0):
    """The examples at these indices: a dict of int32 arrays `(rows, length)`; the one id of empty rows is `filler`."""
    padded = {}
    for name, column in columns.items():
        pad, fill = (0, 0) if name == "segment_ids" else (pad_id, filler)
        padded[name] = ids = pad_ids([column[i] for i in indices], rows, length, pad)
        ids[(ids == pad).all(axis=1), 0] = fill
    return padded

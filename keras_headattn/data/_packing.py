"""Several texts in one row."""

import bisect
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from keras_headattn._validation import check_positive
from keras_headattn.data._buckets import pad_ids


def pack_ids(ids: Sequence[Sequence[int] | np.ndarray], length: int, pad_id: int = 0) -> dict[str, np.ndarray]:
    """Packs lists of ids into rows of a length, as few as best fit by falling length finds.

    Args:
        ids: integer arrays of at most `length` ids.
        length: length of the rows.
        pad_id: id of padding.

    Returns:
        Dictionary, inputs of `models.Bert`: `"token_ids"` and `"sequence_ids"`, int32 `(rows, length)`. The latter are
        the indices of the texts, and -1 at padding.

    Raises:
        ValueError: if a text is longer than the rows.

    >>> packed = pack_ids([[5, 3], [7, 8, 9], [4]], length=4)
    >>> packed["token_ids"].tolist(), packed["sequence_ids"].tolist()
    ([[7, 8, 9, 4], [5, 3, 0, 0]], [[1, 1, 1, 2], [0, 0, -1, -1]])
    """
    sizes = [len(row) for row in ids]
    if max(sizes, default=0) > check_positive("length", length):
        raise ValueError(f"`ids` must have at most `length` ids each. Received: {max(sizes)} ids for length={length}")
    rows: list[list[int]] = []
    by_room: list[list[list[int]]] = [[] for _ in range(length + 1)]
    for index in sorted(range(len(ids)), key=lambda index: -sizes[index]):
        room = next((room for room in range(sizes[index], length + 1) if by_room[room]), length)
        if not by_room[room]:
            rows.append([])
            by_room[room].append(rows[-1])
        row = by_room[room].pop()
        row.append(index)
        by_room[room - sizes[index]].append(row)
    tokens = [np.concatenate([np.asarray(ids[index], "int32") for index in row]) for row in rows]
    numbers = [np.repeat(row, [sizes[index] for index in row]) for row in rows]
    return {
        "token_ids": pad_ids(tokens, len(rows), length, pad_id),
        "sequence_ids": pad_ids(numbers, len(rows), length, -1),
    }


def fill_rows(lengths: Sequence[int], length: int, buffer: int = 1000) -> Iterator[list[tuple[int, int]]]:
    """Yields full rows of documents, each as pairs of a document and the number of its ids in the row.

    The longest document of the buffer that fits is placed next. If none fits, the shortest is cut to fill the row.

    >>> list(fill_rows([5, 2, 3, 4, 6], length=6))
    [[(4, 6)], [(0, 5), (1, 1)], [(3, 4), (2, 2)]]
    """
    waiting: list[tuple[int, int]] = []  # lengths, and the documents by falling number
    documents = zip(map(int, lengths), itertools.count(0, -1), strict=False)
    while True:
        row: list[tuple[int, int]] = []
        room = length
        while room:
            for document in itertools.islice(documents, buffer - len(waiting)):
                bisect.insort(waiting, document)
            if not waiting:
                return
            fitting = bisect.bisect(waiting, (room, 1))
            size, negative_index = waiting.pop(max(fitting - 1, 0))
            row.append((-negative_index, min(size, room)))
            room -= row[-1][1]
        yield row

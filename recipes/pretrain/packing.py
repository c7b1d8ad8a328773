"""Lines of tokens packed to sequences of one or two segments, which encoders are pre-trained on."""

import itertools
import math

import numpy as np

ONE_SEGMENT, OTHER_TARGET = 0.1, 0.05  # probabilities of sequences of one segment, and of another target length
SHORTEST_TARGET = 5
COLUMNS = ("input_ids", "input_mask", "segment_ids")


def pack_lines(lines, max_length, rng):
    """Packs the lines of documents to pairs of segments, as ELECTRA's pre-training reads them.

    Lines are collected until their tokens reach a target length, or the document ends. What is collected becomes one
    sequence: nothing is carried over, and what is too long is cut off. The target is `max_length`, but for one sequence
    of 20 a random number from 5 on. One sequence of 10 has a single segment. Of the others the lines that fill less
    than half of the target are segment A, the rest is segment B, and a coin decides about the line between them.

    Lines are lists of token ids, and `None` ends a document. Yields `(first, second)`, lists of ids without special
    tokens, for which `max_length` leaves room; `second` may be empty.

    >>> lines = [[7, 8, 9], [10, 11], [12, 13, 14], None, [15]]
    >>> list(pack_lines(lines, 8, np.random.default_rng(0)))
    [([7, 8, 9], [10, 11]), ([15], [])]
    """
    target, collected, num_tokens = max_length, [], 0
    for line in itertools.chain(lines, [None]):
        if line is not None:
            collected.append(line)
            num_tokens += len(line)
        if num_tokens >= target or (line is None and num_tokens):
            yield _segments(collected, target, max_length, rng)
            is_other = rng.random() < OTHER_TARGET
            target = int(rng.integers(SHORTEST_TARGET, max_length, endpoint=True)) if is_other else max_length
            collected, num_tokens = [], 0


def _segments(lines, target, max_length, rng):
    """Splits lines into two segments, cut to the longest sequence."""
    room = math.inf if rng.random() < ONE_SEGMENT else (target - 3) // 2
    first, second = [], []
    for line in lines:
        fits = not first or len(first) + len(line) < room
        if fits or (not second and len(first) < room and rng.random() < 0.5):
            first.extend(line)
        else:
            second.extend(line)
    first = first[: max_length - 2]
    return first, second[: max(0, max_length - 3 - len(first))]


def sequence_row(first, second, max_length, bos_id, eos_id):
    """Returns a sequence as it is kept in records: `[CLS] A [SEP] B [SEP]`, padded with 0.

    Its columns are `input_ids`, `input_mask` (1 at tokens) and `segment_ids` (1 at B and its `[SEP]`), int64 `(L,)`.

    >>> row = sequence_row([7, 8], [9], 8, bos_id=2, eos_id=3)
    >>> row["input_ids"].tolist(), row["segment_ids"].tolist()
    ([2, 7, 8, 3, 9, 3, 0, 0], [0, 0, 0, 0, 1, 1, 0, 0])
    """
    ids = [bos_id, *first, eos_id] + ([*second, eos_id] if second else [])
    row = {name: np.zeros(max_length, "int64") for name in COLUMNS}
    row["input_ids"][: len(ids)] = ids
    row["input_mask"][: len(ids)] = 1
    row["segment_ids"][len(first) + 2 : len(ids)] = 1
    return row

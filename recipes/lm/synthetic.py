"""Tasks made by code that need heads which work together. Examples are lines of equal length that end in an answer."""

import dataclasses
import string
from collections.abc import Callable

import numpy as np

COUNTS = {"train": 100_000, "validation": 1_000, "test": 1_000}  # examples
LETTERS = np.frombuffer(string.ascii_lowercase.encode(), "uint8")
BLOCKS, SIZE = 12, 5
PAIRS = 16


@dataclasses.dataclass(frozen=True)
class Task:
    """A task.

    Args:
        make: function of a number of examples and a `np.random.Generator` that returns ASCII codes `(count, length)`.
        length: characters of an example, with the line break.
        answers: slice of the labels of an example, the characters after each, that are its answer.
    """

    make: Callable
    length: int
    answers: slice

    def text(self, count, seed):
        """Returns examples, one a line."""
        return self.make(count, np.random.default_rng(seed)).tobytes().decode("ascii")

    @property
    def weights(self):
        """Weights of the labels of an example: 1 at the answer, else 0."""
        weights = np.zeros(self.length)
        weights[self.answers] = 1
        return weights


def make_blocks(count, rng):
    """Makes blocks of letters and two letters, `abcde.fghij#gf`, after which the block with both is asked.

    Golovneva et al. 2025, "Multi-token attention", section 4.1.
    """
    blocks = _different(rng, count * BLOCKS, SIZE).reshape(count, BLOCKS, SIZE)
    wanted = blocks[np.arange(count), rng.integers(BLOCKS, size=count)]
    letters = rng.permuted(wanted, axis=1)[:, :2]
    has_both = (blocks[:, :, None] == letters[:, None, :, None]).any(-1).all(-1)
    is_clear = has_both.sum(axis=1) == 1
    rows = np.full((count, BLOCKS, SIZE + 1), ord("."), "uint8")
    rows[:, :, :SIZE] = blocks
    rows[:, -1, SIZE] = ord("#")
    rows = np.concatenate([rows.reshape(count, -1), letters, wanted, np.full((count, 1), ord("\n"), "uint8")], axis=1)
    rows = rows[is_clear]
    return rows if len(rows) == count else np.concatenate([rows, make_blocks(count - len(rows), rng)])


def make_recall(count, rng):
    """Makes pairs of a letter and a capital, `aXbY#`, after which the letters come again in another order.

    Arora et al. 2023, "Zoology", section 3.
    """
    pairs = np.stack([_different(rng, count, PAIRS), rng.choice(LETTERS - 32, (count, PAIRS))], axis=-1)
    order = rng.permuted(np.tile(np.arange(PAIRS), (count, 1)), axis=1)
    asked = np.take_along_axis(pairs, order[:, :, None], axis=1)
    marks = (np.full((count, 1), ord(mark), "uint8") for mark in "#\n")
    return np.concatenate([pairs.reshape(count, -1), next(marks), asked.reshape(count, -1), next(marks)], axis=1)


def _different(rng, count, size):
    """Returns rows of different letters, `(count, size)`."""
    return rng.permuted(np.tile(LETTERS, (count, 1)), axis=1)[:, :size]


LONGEST = (SIZE + 1) * BLOCKS + SIZE + 3  # an example of blocks
TASKS = {
    "blocks": Task(make_blocks, LONGEST, slice(LONGEST - SIZE - 2, LONGEST - 2)),
    "recall": Task(make_recall, 4 * PAIRS + 2, slice(2 * PAIRS + 1, 4 * PAIRS, 2)),
}

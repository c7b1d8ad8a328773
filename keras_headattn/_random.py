"""Random numbers inside loops."""

import keras
from keras import ops

from keras_headattn.ops._dense import sizes

BLOCK = 128  # classes counted off together


class FixedSeed(keras.random.SeedGenerator):
    """Seed generator that returns a given tensor."""

    def __init__(self, seed):
        self.seed = seed

    def next(self, ordered=True):
        return self.seed


def sample(logits, shares):
    """Draws a class `(...)` from the softmax of logits `(..., V)`, without a gradient.

    Counts off a share of the probabilities, first in blocks and then within one. `shares` `(...)` are uniform random
    numbers below 1; Gumbel noise takes V of them, and three times as long on a CPU.
    """
    *shape, size = sizes(logits)
    rows = ops.reshape(ops.stop_gradient(logits), (-1, size))
    parts = ops.exp(rows - ops.max(rows, axis=-1, keepdims=True, initial=float("-inf")))
    num_blocks = -(-size // BLOCK)
    blocks = ops.reshape(ops.pad(parts, [(0, 0), (0, num_blocks * BLOCK - size)]), (-1, num_blocks, BLOCK))
    ends = ops.cumsum(ops.sum(blocks, axis=-1), axis=-1)  # (rows, num_blocks)
    share = ends[:, -1:] * ops.reshape(shares, (-1, 1))
    block = _count_below(ends, share, num_blocks)
    begin = ops.where(block > 0, ops.take_along_axis(ends, ops.maximum(block - 1, 0), axis=-1), 0.0)
    inside = ops.take_along_axis(blocks, block[..., None], axis=1)[:, 0]  # (rows, BLOCK)
    last = ops.max(ops.where(inside > 0, ops.arange(BLOCK, dtype="int32"), 0), axis=-1, keepdims=True, initial=0)
    token = _count_below(ops.cumsum(inside, axis=-1), share - begin, BLOCK)
    return ops.reshape(BLOCK * block + ops.minimum(token, last), shape)  # sums may round above the last possible token


def _count_below(ends, share, count):
    """Counts the ends `(rows, count)` that are no more than a share `(rows, 1)`, but never all: int32 `(rows, 1)`."""
    is_below = ops.cast(ops.less_equal(ends, share), "int32")
    return ops.minimum(ops.sum(is_below, axis=-1, keepdims=True), count - 1)

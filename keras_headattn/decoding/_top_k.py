"""A faster `top_k` for many numbers."""

import numpy as np
from keras import ops

from keras_headattn.ops._dense import sizes

BLOCK = 32


def top_k(x, k):
    """Returns `keras.ops.top_k`, faster for many numbers: only the `k` blocks with the largest maxima are searched.

    The first of equal values comes first, except on PyTorch.

    >>> values, indices = top_k(np.arange(1000.0), 2)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([999.0, 998.0], [999, 998])
    """
    x = ops.convert_to_tensor(x)
    n = x.shape[-1]
    num_blocks = 0 if n is None else -(-n // BLOCK)  # no blocks if the size is unknown
    if num_blocks < 4 * k:
        return ops.top_k(x, k)
    shape = (*sizes(x)[:-1], k)
    if n % BLOCK:
        padding = [(0, 0)] * (len(shape) - 1) + [(0, num_blocks * BLOCK - n)]
        x = ops.pad(x, padding, constant_values=float("-inf"))
    blocks = ops.reshape(x, (-1, BLOCK))
    maxima = ops.reshape(ops.max(blocks, axis=-1, initial=float("-inf")), (-1, num_blocks))  # (rows, num_blocks)
    _, chosen = ops.top_k(maxima, k)
    chosen = -ops.top_k(-chosen, k)[0]  # keeps equal numbers in order
    first = num_blocks * ops.arange(ops.shape(maxima)[0], dtype="int32")[:, None]
    candidates = ops.take(blocks, first + chosen, axis=0)  # (rows, k, BLOCK)
    values, places = ops.top_k(ops.reshape(candidates, (-1, k * BLOCK)), k)
    indices = ops.reshape(BLOCK * chosen[..., None] + np.arange(BLOCK, dtype="int32"), (-1, k * BLOCK))
    return ops.reshape(values, shape), ops.reshape(pick(indices, places), shape)


def pick(values, chosen):
    """Returns `(B, m, ...)` of `values` `(B, n, ...)` at the indices `chosen` `(B, m)`."""
    numbers = np.arange(values.shape[1], dtype="int32").reshape(-1, *[1] * (len(values.shape) - 2))
    is_chosen = ops.equal(chosen[(..., *[None] * (len(values.shape) - 1))], numbers)  # (B, m, n, ...)
    return ops.sum(ops.where(is_chosen, values[:, None], 0), axis=2)

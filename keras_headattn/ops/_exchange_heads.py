import math

import keras
import numpy as np
from keras import ops

from keras_headattn._types import Tensor


def exchange_heads(maps: Tensor, kernel: Tensor) -> Tensor:
    """Applies a linear map to the head axis, the same at every query and key (Shazeer et al. 2020, eqs. 5 and 7).

    Args:
        maps: `(B, h, n, m)`.
        kernel: `(h, g)`.

    Returns:
        `(B, g, n, m)`.
    """
    if keras.backend.backend() != "tensorflow" or None in maps.shape[1:] or math.prod(maps.shape[2:]) < LONG:
        return _product(maps, kernel)

    @ops.custom_gradient
    def exchange(maps, kernel):
        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _product(upstream, ops.transpose(kernel)), _kernel_gradient(maps, upstream)

        return _product(maps, kernel), gradient

    return exchange(maps, ops.copy(kernel))


def exchange_in_groups(maps, kernels):
    """Adds to maps `(B, h, n, m)` what kernels `(h / g, g, g)`, or `None`, make of the heads of each group."""
    if kernels is None:
        return maps
    groups, g, _ = kernels.shape
    # One matrix (h, h), with the kernels along its diagonal.
    blocks = kernels[:, :, None] * ops.cast(np.eye(groups)[:, None, :, None], kernels.dtype)
    return exchange_heads(maps, ops.reshape(blocks, (groups * g, -1)) + ops.cast(np.eye(groups * g), kernels.dtype))


def _product(maps, kernel):
    batch, heads, n, m = ops.shape(maps)
    # Broadcast by hand: XLA is slower at broadcast products.
    kernels = ops.broadcast_to(ops.transpose(kernel), (batch, kernel.shape[1], heads))
    mixed = ops.matmul(kernels, ops.reshape(maps, (batch, heads, n * m)))
    return ops.reshape(mixed, (batch, kernel.shape[1], n, m))


LONG = 2**16  # terms from which XLA on a CPU takes twice as long for a product that sums over them


def _kernel_gradient(maps, upstream):
    """Sums the gradient `(h, g)` of the kernel over parts of a few queries of `(B, h, n, m)` and `(B, g, n, m)`."""
    n, m = maps.shape[2:]
    rows = max(LONG // 8 // m, -(-n // 16))  # at most 16 parts
    total = 0.0
    for start in range(0, n, rows):
        part, of_mixed = (
            ops.reshape(x[:, :, start : start + rows], (-1, x.shape[1], min(rows, n - start) * m))
            for x in (maps, upstream)
        )
        total = total + ops.sum(ops.matmul(part, ops.swapaxes(of_mixed, 1, 2)), axis=0)
    return total

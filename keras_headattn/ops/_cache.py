"""Writes rows into the tensors of a decoding cache."""

import numpy as np
from keras import ops

from keras_headattn._types import Tensor


def row_indices(rows: Tensor, index: int | Tensor) -> Tensor:
    """Returns item, head and row of each of the rows `(B, h, n, ...)`, written from `index` on: `(B * h * n, 3)`."""
    batch, *places = ops.shape(rows)[:3]
    first = ops.stack([0, 0, ops.cast(index, "int32")])
    if isinstance(batch, int):
        return ops.add(_grid(batch, *places), first)
    heads_and_rows = ops.add(_grid(1, *places), first)  # (h * n, 3)
    items = ops.arange(batch, dtype="int32")[:, None, None] * ops.convert_to_tensor([1, 0, 0], "int32")
    return ops.reshape(items + heads_and_rows, (-1, 3))


def _grid(*sizes):
    """Returns all indices of these sizes, the last the fastest: integers `(product, len(sizes))`."""
    if all(isinstance(size, int) for size in sizes):
        return np.indices(sizes, "int32").reshape(len(sizes), -1).T
    grids = ops.meshgrid(*(ops.arange(size, dtype="int32") for size in sizes), indexing="ij")
    return ops.stack([ops.reshape(grid, (-1,)) for grid in grids], axis=-1)


def write_rows(cache: Tensor, rows: Tensor, indices: Tensor) -> Tensor:
    """Replaces rows of a cache `(B, h, L, ...)` by `(B, h, n, ...)`, at the places of `row_indices`."""
    # Unlike `slice_update`, a scatter works in place under XLA, and model servers have its TensorFlow op.
    return ops.scatter_update(cache, indices, ops.reshape(ops.cast(rows, cache.dtype), (-1, *ops.shape(rows)[3:])))

"""Boolean masks, True = may attend; they are combined only here."""

import numpy as np
from keras import ops

from keras_headattn._types import Shape, Tensor


def causal_mask(query_length: int | Tensor, key_length: int | Tensor, offset: int | Tensor = 0) -> Tensor:
    """Returns a boolean mask `(1, n, m)` under which row `i` may attend to columns 0 to `offset + i`.

    Args:
        query_length, key_length: number of queries `n` and of keys `m`.
        offset: position of the first query among the keys; an integer or a scalar tensor.
    """
    rows, columns = (_arange(length) for length in (query_length, key_length))
    return ops.less_equal(columns[None, None], ops.add(rows[None, :, None], offset))


def _arange(length):
    """Returns 0, 1, ..., as a constant if the length is known."""
    return (np if isinstance(length, int) else ops).arange(length, dtype="int32")


def sliding_window_mask(query_positions: Tensor, key_positions: Tensor, window: int) -> Tensor:
    """Returns a boolean mask `(1, n, m)` under which a query may attend to keys less than `window` positions away.

    Args:
        query_positions, key_positions: integers `(n,)` and `(m,)`.
        window: positive integer.
    """
    distances = ops.expand_dims(query_positions, 1) - ops.expand_dims(key_positions, 0)
    return ops.less(ops.abs(distances), window)[None]


def where_allowed(maps, mask):
    """Returns maps `(B, h, n, m)` with 0 where the mask, or `None`, forbids."""
    return maps if mask is None else ops.where(mask, maps, ops.zeros((), maps.dtype))


def check_mask(name: str, mask: Tensor, shape: Shape) -> Tensor:
    """Returns a mask of booleans, or of zeros and ones, as a boolean tensor that broadcasts to `shape`."""
    check_dense(name, mask)
    mask = ops.convert_to_tensor(mask)
    received = tuple(mask.shape)
    fits = len(received) <= len(shape) and all(
        size in (None, 1) or wanted is None or size == wanted
        for size, wanted in zip(received[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"`{name}` must broadcast to shape {tuple(shape)} (None = any size). Received: {name} of shape {received}"
        )
    if "bool" not in str(mask.dtype):
        _check_zeros_and_ones(name, mask)
        mask = ops.cast(mask, "bool")
    return mask


def check_dense(name: str, tensor: Tensor) -> None:
    """Raises a ValueError for a ragged or a sparse tensor of TensorFlow."""
    if type(tensor).__name__ in ("RaggedTensor", "SparseTensor"):
        raise ValueError(f"`{name}` must be dense: padded, with a mask. Received: {name}={type(tensor)}")


def _check_zeros_and_ones(name, mask):
    try:
        values = ops.convert_to_numpy(mask)
    except Exception:  # a symbolic tensor: the exception depends on the backend
        return
    if not np.isin(values, (0, 1)).all():
        wrong = values[~np.isin(values, (0, 1))]
        raise ValueError(
            f"`{name}` must be boolean or hold only 0 and 1 (1 = may attend): it is not added to "
            f"the logits. Received: dtype {mask.dtype} with values such as {wrong.ravel()[:3].tolist()}"
        )


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Combines boolean masks that broadcast together by logical 'and'; `None` means no restriction."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined

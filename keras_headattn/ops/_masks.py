"""Boolean masks, True = may attend; they are combined only here."""

from typing import Any

import numpy as np
from keras import ops

from keras_headattn._types import Shape, Tensor
from keras_headattn.ops._dense import is_one, take


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
    if values.dtype.kind == "f" and values.size and not values.any():
        raise ValueError(
            f"`{name}` of floats must have a 1 (1 = may attend): give `mask == 0` in place of an additive mask, and "
            f"booleans to allow nothing at all. Received: dtype {mask.dtype} with zeros alone"
        )


def as_list(mask: Any) -> list[Tensor]:
    """Returns a mask, several, or `None` as a list of masks with four axes."""
    masks = mask if isinstance(mask, (list, tuple)) else [mask]
    masks = [ops.convert_to_tensor(x) for x in masks if x is not None]
    return [ops.reshape(x, (*[1] * (4 - len(x.shape)), *ops.shape(x))) if len(x.shape) < 4 else x for x in masks]


def split_masks(masks):
    """Splits masks of four axes into those of queries alone, those of keys alone, and the rest."""
    kinds = [], [], []
    for mask in masks:
        kinds[0 if is_one(mask.shape[3]) else 1 if is_one(mask.shape[2]) else 2].append(mask)
    return kinds


def length_mask(lengths: Tensor, size: int | Tensor) -> Tensor:
    """Returns a boolean mask `(B, 1, 1, m)` of the first `lengths` `(B,)` of m = `size` keys."""
    lengths = ops.cast(ops.convert_to_tensor(lengths), "int32")
    return ops.less(ops.reshape(_arange(size), (1, 1, 1, -1)), ops.reshape(lengths, (-1, 1, 1, 1)))


def plain_masks(n, m, is_causal, sliding_window):
    """Returns the causal mask and that of the sliding window, of queries and keys at positions 0, 1, ..."""
    masks = [causal_mask(n, m)[None]] if is_causal else []
    if sliding_window is not None:
        masks.append(sliding_window_mask(_arange(n), _arange(m), sliding_window)[None])
    return masks


def attending_queries(n, m, masks, is_causal=False, sliding_window=None):
    """Returns a boolean that broadcasts to `(B, h, n, 1)`, True = may attend to something; `None` if all may.

    It makes no map `(n, m)` unless `masks`, a list with four axes, has one.
    """
    of_queries, of_keys, of_both = split_masks(masks)
    keys, rows = combine_masks(*of_keys), None
    if of_both:
        rows = combine_masks(*of_both, keys, *plain_masks(n, m, is_causal, sliding_window))
        rows = ops.any(rows, axis=-1, keepdims=True)
    elif sliding_window is None and not is_causal:
        rows = None if keys is None else ops.any(keys, axis=-1, keepdims=True)
    elif keys is not None or sliding_window is not None:
        rows = _keys_in_reach(n, m, keys, is_causal, sliding_window)
    return combine_masks(rows, *of_queries)


def _keys_in_reach(n, m, keys, is_causal, sliding_window):
    """Returns `attending_queries` of a mask of keys `(B, h, 1, m)`, from running counts, or of all keys."""
    queries = ops.arange(n, dtype="int32")
    end = ops.minimum(queries + (1 if is_causal else sliding_window), m)
    start = 0 * queries if sliding_window is None else ops.clip(queries - sliding_window + 1, 0, m)
    if keys is None:
        return ops.greater(end, start)[None, None, :, None]
    counts = ops.cumsum(ops.cast(keys, "int32"), axis=-1)
    counts = ops.pad(counts, [(0, 0), (0, 0), (0, 0), (1, 0)])  # of the keys before each position
    return ops.swapaxes(ops.greater(take(counts, end, axis=3), take(counts, start, axis=3)), 2, 3)


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Combines boolean masks that broadcast together by logical 'and'; `None` means no restriction."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined

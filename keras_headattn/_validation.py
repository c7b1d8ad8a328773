"""Checks of what attention layers are given."""

import numbers
import operator

from keras import backend


def positive(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")
    return value


def rate(name, value):
    if not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={value}")
    return value


def number(name, value, least=None, above=None, most=None, below=None):
    """A number within bounds, as it was given.

    Args:
        name: of the argument.
        value: what was received.
        least, above, most, below: bounds, the first and the third included. Default `None`: there is none.

    Raises:
        ValueError: for a number outside of them, NaN, a bool, or anything else that is no number.
    """
    bounds = ("at least", least, operator.ge), ("above", above, operator.gt)
    bounds += ("at most", most, operator.le), ("below", below, operator.lt)
    bounds = [bound for bound in bounds if bound[1] is not None]
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value
    if not is_number or not all(holds(value, bound) for _, bound, holds in bounds):
        words = " and ".join(f"{words} {bound}" for words, bound, _ in bounds)
        range_ = (
            f" from {least} to {most}" if words == f"at least {least} and at most {most}" else words and f", {words}"
        )
        raise ValueError(f"`{name}` must be a number{range_}. Received: {name}={value!r}")
    return value


def as_shape(output_shape):
    if output_shape is None:
        return None
    shape = tuple(output_shape) if isinstance(output_shape, (tuple, list)) else (output_shape,)
    return tuple(positive("output_shape", size) for size in shape)


def as_axes(axes):
    if axes is None:
        return None
    as_tuple = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    if not all(isinstance(axis, int) for axis in as_tuple):
        raise ValueError(f"`attention_axes` must be an integer or a tuple of integers. Received: attention_axes={axes}")
    return as_tuple


def chains(previous_map_shape, map_shape):
    """Whether a map of the first shape, or `None`, is carried on in one of the second; a size of `None` fits any."""
    if previous_map_shape is None:
        return False
    return all(
        None in sizes or sizes[0] == sizes[1] for sizes in zip(previous_map_shape[1:], map_shape[1:], strict=True)
    )


def check_inputs(query, value, key, cache, index, ranks, widths):
    """Raises a ValueError that names what does not fit and what was received.

    Args:
        query, value, key, cache, index: as in `Attention.call`.
        ranks, widths: of query, value and key when the layer was built.
    """
    _check_cache(value, cache, index)
    _check_batch(query, value, cache)
    for name, tensor in (("query", query), ("value", value), ("key", key)):
        if tensor is not None and not backend.is_float_dtype(tensor.dtype):
            dtype = backend.standardize_dtype(tensor.dtype)
            raise ValueError(f"`{name}` must be of a floating dtype. Received: {name} of dtype {dtype}")
    if value is None:
        return
    for name, tensor in (("query", query), ("value", value), ("key", key)):
        if len(tensor.shape) != ranks[name] or tensor.shape[-1] not in (None, widths[name]):
            raise ValueError(
                f"`{name}` must have {ranks[name]} axes, the last of size {widths[name]}, as when the layer was "
                f"built. Received: {name} of shape {tuple(tensor.shape)}"
            )
    if tuple(key.shape[1:-1]) != tuple(value.shape[1:-1]):
        raise ValueError(
            "`key` and `value` must have the same length. Received: "
            f"key of shape {tuple(key.shape)} and value of shape {tuple(value.shape)}"
        )


def _check_cache(value, cache, index):
    if value is None and cache is None:
        raise ValueError("Attention needs `value`, or a `cache`. Received: value=None, cache=None")
    if cache is not None and not {"key", "value"} <= set(cache):
        raise ValueError(
            f"`cache` must come from `init_cache` or `project_cache`. Received: cache with keys {sorted(cache)}"
        )
    if cache is not None and value is not None and index is None:
        raise ValueError(
            "With a `cache`, `value` is written at `index`: give both, or no value to attend to what is there. "
            f"Received: index=None, value of shape {tuple(value.shape)}"
        )
    if index is not None and cache is None:
        raise ValueError(f"`index` says where in a `cache` to write. Received: index={index}, cache=None")
    if isinstance(index, int) and value is not None:
        rows, length = value.shape[1], cache["value"].shape[2]
        if None not in (rows, length) and not 0 <= index <= length - rows:
            raise ValueError(
                f"`index` must leave room for the {rows} rows of `value` in a cache of length {length}. "
                f"Received: index={index}"
            )


def _check_batch(query, value, cache):
    against = [("value", value)] if cache is None else [("cache", cache["key"]), ("value", value)]
    for name, tensor in against:
        sizes = {query.shape[0], None if tensor is None else tensor.shape[0]} - {None}
        if len(sizes) > 1:
            raise ValueError(
                f"`query` and `{name}` must have the same batch size. Received: query of shape "
                f"{tuple(query.shape)} and {name} of shape {tuple(tensor.shape)}"
            )

"""Checks of the call arguments of attention, and all masks as one."""

import dataclasses
import functools
from typing import Any

import numpy as np
from keras import backend, ops

from keras_headattn._validation import differ
from keras_headattn.ops import combine_masks, sliding_window_mask
from keras_headattn.ops._dense import is_one
from keras_headattn.ops._masks import attending_queries, check_dense, length_mask


def as_floats(dtype, *tensors):
    """Casts integer tensors to `dtype`, as the stock layer does; `None` stays."""
    return tuple(x if x is None or backend.is_float_dtype(x.dtype) else ops.cast(x, dtype) for x in tensors)


def check_inputs(layer, query, value, key, cache, index, positions):
    """Checks these arguments of a call of `layer`."""
    for name, tensor in (("query", query), ("value", value), ("key", key)):
        check_dense(name, tensor)
        dtype = "float32" if tensor is None else backend.standardize_dtype(tensor.dtype)
        if "complex" in dtype or dtype == "string":
            raise ValueError(f"`{name}` must hold real numbers. Received: {name} of dtype {dtype}")
    _check_cache(layer, value, cache, index)
    _check_batch(layer, query, value, cache)
    if positions is not None:
        _check_integers("positions", positions)
        n = layer.axes.length(query.shape, "query")
        if len(positions.shape) != 1 or differ(positions.shape[0], n):
            raise ValueError(
                f"`positions` must be one integer for each of the {n} queries. "
                f"Received: positions of shape {tuple(positions.shape)}"
            )
    if value is None:
        return
    ranks = layer.axes.rank
    for name, tensor in (("query", query), ("value", value), ("key", key)):
        if len(tensor.shape) != ranks[name] or tensor.shape[-1] not in (None, layer.widths[name]):
            raise ValueError(
                f"`{name}` must have {ranks[name]} axes, the last of size {layer.widths[name]}, as when the layer was "
                f"built. Received: {name} of shape {tuple(tensor.shape)}"
            )
    if tuple(key.shape[1:-1]) != tuple(value.shape[1:-1]):
        raise ValueError(
            "`key` and `value` must have the same length. Received: "
            f"key of shape {tuple(key.shape)} and value of shape {tuple(value.shape)}"
        )


def check_step(layer, query, mask, length):
    """Checks these arguments of `layer.step`."""
    if len(query.shape) != 2 or differ(query.shape[-1], layer.widths["query"]):
        raise ValueError(
            f"`query` must be one query for each item, (B, {layer.widths['query']}). "
            f"Received: query of shape {tuple(query.shape)}"
        )
    if mask is None:
        return
    if backend.standardize_dtype(mask.dtype) != "bool" or len(mask.shape) not in (2, 3):
        raise ValueError(
            "`mask` must be boolean, (B, m) or (B, h, m). "
            f"Received: mask of shape {tuple(mask.shape)} and dtype {backend.standardize_dtype(mask.dtype)}"
        )
    heads = [layer.softmax_heads] * (len(mask.shape) - 2)
    _check_map("mask", mask, (query.shape[0], *heads, length))


def query_of_each_item(query, value):
    """Repeats queries of one item for the batch of `value`."""
    if value is None or not is_one(query.shape[0]) or is_one(value.shape[0]):
        return query
    return ops.broadcast_to(query, (ops.shape(value)[0], *ops.shape(query)[1:]))


def check_residual(name, layer, shape):
    """Checks that the output of `layer`, argument `name` of a block, can be added to its input of this shape."""
    width = layer.compute_output_shape(shape)[-1]
    if width != shape[-1]:
        raise ValueError(
            f"`{name}` must have outputs as wide as its inputs, {shape[-1]}. Received: outputs of width {width}"
        )


def check_segments(layer, segment_ids, query, cache):
    """Checks the argument `segment_ids` of a call of `layer`."""
    if segment_ids is None:
        return
    _check_integers("segment_ids", segment_ids)
    interacts = layer.rows_interact and not layer.separates_segments
    if cache is not None or interacts or not layer.axes.trivial:
        raise ValueError(
            "`segment_ids` are for inputs of 3 axes without a cache, and for layers in which no row of scores "
            f"influences later rows. Received: segment_ids of shape {tuple(segment_ids.shape)} for {layer}"
        )
    if len(segment_ids.shape) != 2 or any(map(differ, segment_ids.shape, query.shape[:2])):
        raise ValueError(
            f"`segment_ids` must have the shape of the tokens, {tuple(query.shape[:2])}. "
            f"Received: segment_ids of shape {tuple(segment_ids.shape)}"
        )


def check_built(layer, method):
    """Checks that a layer has its weights, for a method or function of this name."""
    if not layer.built:
        raise ValueError(
            f"`{method}` needs the layer's weights: call the layer, or `build` it, first. "
            f"Received: a layer {layer.name!r} that is not built"
        )


def check_lengths(layer, key_lengths, query):
    """Checks the argument `key_lengths` of a call of `layer`."""
    if key_lengths is None:
        return
    _check_integers("key_lengths", key_lengths)
    shape = tuple(np.shape(key_lengths))
    if len(shape) != 1 or differ(shape[0], query.shape[0]) or not layer.axes.trivial:
        raise ValueError(
            f"`key_lengths` must be one integer for each of the {query.shape[0]} sequences, for inputs of 3 axes. "
            f"Received: key_lengths of shape {shape} for a query of shape {tuple(query.shape)}"
        )


def check_maps(layer, inputs, sizes):
    """Checks the arguments of a call that are of logits; `sizes` are B, n and m after folding."""
    batch, n, m = sizes
    _check_map("bias", inputs.bias, (batch, layer.score_heads, n, m))
    _check_bias(inputs.bias)
    _check_map("previous_logits", inputs.previous_logits, (batch, None, None, None), rank=4)


def _check_map(name, value, shape, rank=None):
    """Checks that an argument, or `None`, broadcasts to the shape of logits, `None` = any size, and has `rank` axes."""
    received = None if value is None else tuple(value.shape if hasattr(value, "shape") else np.shape(value))
    known = tuple(size if isinstance(size, int) else None for size in shape)
    if received is not None and (not _fits(received, shape) or rank not in (None, len(received))):
        raise ValueError(
            f"`{name}` must {'broadcast to' if rank is None else 'have'} the shape {known} (None = any size). "
            f"Received: {name} of shape {received}"
        )


def _fits(received, shape):
    pairs = zip(received[::-1], shape[::-1], strict=False)
    return len(received) <= len(shape) and not any(size != 1 and differ(size, other) for size, other in pairs)


def _check_bias(bias):
    """Raises a ValueError if `bias` is an additive mask and its values are known."""
    if bias is None or 0 in np.shape(bias):
        return
    if backend.standardize_dtype(getattr(bias, "dtype", "float32")) == "bool":
        raise ValueError(
            "`bias` must hold numbers to add to the logits: pass a mask as `attention_mask`. "
            "Received: bias of dtype bool"
        )
    try:
        least = float(ops.min(bias))
        # BERT's masks hold 0 and -10000. A bias may hold them too, but other numbers as well.
        is_mask = least <= -1e8 or least <= -1e3 and bool(ops.all((bias == 0) | (bias == least)))
    except Exception:  # a symbolic tensor: the exception depends on the backend
        return
    if is_mask:
        raise ValueError(
            "`bias` must not be a mask, as mixed heads would undo it: use `attention_mask=bias == 0`. "
            f"Received: bias with {least}"
        )


def call_mask(layer, query, value, sizes, masks, use_causal_mask, first_row, segment_ids):
    """Collects all masks of a call in a `CallMask`.

    `sizes` are B, n and m after folding; `query` and `value` are not folded. A cache's new rows begin at `first_row`.
    """
    batch, n, m = (size if isinstance(size, int) else None for size in sizes)
    shapes = {"attention_mask": (batch, layer.softmax_heads, n, m), "query_mask": (batch, n)}
    folded = {
        name: layer.axes.fold_mask(name, mask, shapes.get(name, (batch, m)), query, value)
        for name, mask in masks.items()
        # With a cache, masks of the new rows say nothing about the rows already there.
        if mask is not None and (first_row is None or name in shapes)
    }
    tensors = [folded[name] for name in ("attention_mask",) if name in folded]
    # `expand_dims`, as LiteRT has no new axes in slices of unknown sizes.
    tensors += [ops.expand_dims(folded[name], (1, 3)) for name in ("query_mask",) if name in folded]
    tensors += [ops.expand_dims(folded[name], (1, 2)) for name in ("value_mask", "key_mask") if name in folded]
    rules = [] if segment_ids is None else [(_same_segment, segment_ids, segment_ids)]
    offset = 0 if first_row is None else first_row
    columns = ops.arange(sizes[2], dtype="int32")
    if use_causal_mask:
        rules.append((_not_later, ops.arange(sizes[1], dtype="int32") + offset, columns))
    elif first_row is not None and masks["attention_mask"] is None:
        tensors.append(ops.less(columns, offset + sizes[1])[None, None, None])
    return CallMask(tensors, rules, use_causal_mask and first_row is None, sizes=sizes)


@dataclasses.dataclass
class CallMask:
    """Masks of a call, combined into one on demand, for some rows or for all.

    `tensors` are booleans that broadcast to `(B, h, n, m)`. A rule makes a mask `(B or 1, n, m)` from integers of the
    queries, `(n,)` or `(B, n)`, and of the keys, `(m,)` or `(B, m)`.
    """

    tensors: list = dataclasses.field(default_factory=list)
    rules: list = dataclasses.field(default_factory=list)
    is_causal: bool = False  # the first query reads the first key alone
    window: int | None = None  # of queries and keys at positions 0, 1, ...
    key_lengths: Any = None  # integers (B,)
    sizes: tuple = ()  # B, n, m

    @property
    def segment_ids(self):
        """`(B, n)` of packed sequences, or `None`."""
        return next((ids for rule, ids, _ in self.rules if rule is _same_segment), None)

    @functools.cached_property
    def combined(self):
        """One boolean mask that broadcasts to `(B, h, n, m)`, or `None`."""
        return combine_masks(*self.parts())

    def parts(self):
        """Returns all masks, which broadcast to `(B, h, n, m)`."""
        return [*self.all_tensors(), *(_made(rule) for rule in self.rules)]

    def all_tensors(self):
        """Returns all masks but those of rules."""
        if self.key_lengths is None:
            return self.tensors
        return [*self.tensors, length_mask(self.key_lengths, self.sizes[2])]

    def for_kernels(self):
        """Returns the arguments of `ops.attend` that say the same."""
        return {
            "mask": [*self.tensors, *self._rest()],
            "is_causal": self.is_causal,
            "sliding_window": self.window,
            "key_lengths": self.key_lengths,
        }

    def real_queries(self):
        """Returns a boolean `(B, n)`: True = a query that may attend to something."""
        batch, n, m = self.sizes
        rows = attending_queries(n, m, [*self.all_tensors(), *self._rest()], self.is_causal, self.window)
        if rows is None:
            return ops.ones((batch, n), "bool")
        return ops.broadcast_to(ops.any(rows, axis=(1, 3)), (batch, n))

    def _rest(self):
        """Makes the masks of rules that `is_causal` and `window` do not stand for."""
        known = [_not_later] * self.is_causal + [sliding_window_mask] * (self.window is not None)
        return [_made(rule) for rule in self.rules if getattr(rule[0], "func", rule[0]) not in known]


def _made(rule):
    function, queries, keys = rule
    return function(queries, keys)[:, None]


def tiled(x, axis, length, times):
    """Tiles an axis, counted from the end, of a mask or bias that broadcasts to `length` there; `None` stays."""
    if x is None or len(x.shape) < -axis or is_one(x.shape[axis]):
        return x
    if not isinstance(x.shape[axis], int):  # 1, or the length
        sizes = [*ops.shape(x)]
        sizes[axis] = length
        x = ops.broadcast_to(x, sizes)
    # Not `ops.tile`, whose division of indices XLA on a CPU computes again for each exponential of a softmax.
    return ops.concatenate([x] * times, axis=axis)


def _same_segment(queries, keys):
    return ops.equal(queries[:, :, None], keys[:, None])


def _not_later(rows, columns):
    return ops.less_equal(columns, rows[:, None])[None]


def _check_integers(name, tensor):
    dtype = backend.standardize_dtype(getattr(tensor, "dtype", None) or type(tensor).__name__)
    if "int" not in dtype:
        raise ValueError(f"`{name}` must be a tensor of integers. Received: {name}={tensor!r}")


def _check_cache(layer, value, cache, index):
    if value is None and cache is None:
        raise ValueError("Attention needs `value`, or a `cache`. Received: value=None, cache=None")
    if index is not None and cache is None:
        raise ValueError(f"`index` needs a `cache` to write to. Received: index={index}, cache=None")
    if cache is None:
        return
    shape = tuple(cache["value"].shape) if isinstance(cache, dict) and "value" in cache else ()
    wanted = layer.projections["value"]
    if len(shape) != 4 or (shape[1], shape[3]) != wanted:
        received = {name: tuple(x.shape) for name, x in cache.items()} if isinstance(cache, dict) else cache
        raise ValueError(
            f"`cache` must come from `init_cache` or `project_cache` of a layer with {wanted[0]} value heads of "
            f"width {wanted[1]}. Received: cache={received}"
        )
    if value is not None and index is None:
        raise ValueError(
            "With a `cache`, `value` is written at `index`: pass both, or no `value` to attend to the cache alone. "
            f"Received: index=None, value of shape {tuple(value.shape)}"
        )
    if index is not None and (isinstance(index, (bool, str, float)) or not _is_integer(index)):
        raise ValueError(f"`index` must be an integer or a scalar tensor of integers. Received: index={index!r}")
    if isinstance(index, (int, np.integer)) and value is not None:
        rows, length = layer.axes.length(value.shape, "key"), shape[2]
        if None not in (rows, length) and not 0 <= index <= length - rows:
            raise ValueError(
                f"`index` must leave room for the {rows} rows of `value` in a cache of length {length}. "
                f"Received: index={index}"
            )


def _is_integer(index):
    return isinstance(index, int) or "int" in backend.standardize_dtype(getattr(index, "dtype", "float32"))


def _check_batch(layer, query, value, cache):
    against = [("value", value)]
    if cache is not None and layer.axes.trivial:
        against.append(("cache", cache["value"]))
    for name, tensor in against:
        is_repeated = name == "value" and cache is None and is_one(query.shape[0])
        if tensor is not None and not is_repeated and differ(query.shape[0], tensor.shape[0]):
            raise ValueError(
                f"`query` and `{name}` must have the same batch size. Received: query of shape "
                f"{tuple(query.shape)} and {name} of shape {tuple(tensor.shape)}"
            )

"""Attention computed a chunk of queries at a time, with one chunk's map in memory (Rabe and Staats 2021)."""

import dataclasses
import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_headattn._recompute import chunk_sizes, map_chunks
from keras_headattn.layers._attention_inputs import CallMask
from keras_headattn.ops._dense import is_one

AUTO_BYTES = 2**28  # of a map, above which "auto" makes chunks
AUTO_SIZE = 256
SEGMENTS = 8  # groups of chunks of a causal map, each reads the keys up to its end; more skip more and compile longer
COPIES = 9  # most copies of a key: each chunk gets one of the keys in its window
NOWHERE = -(2**30)  # position of padding, outside every window
PRIME = 104729  # difference between the seeds of two chunks


def as_chunk_size(size, layer, is_possible):
    """Checks and returns the argument `query_chunk_size` of a layer."""
    if size is not None and not is_possible:
        raise ValueError(
            "`query_chunk_size` needs scores that are not passed on and do not depend on other queries. "
            f"Received: query_chunk_size={size!r} for {type(layer).__name__}"
        )
    if size is None or isinstance(size, str) and size == "auto":
        return size
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ValueError(
            f"`query_chunk_size` must be a positive integer, 'auto' or None. Received: query_chunk_size={size!r}"
        )
    return int(size)


def rows_at_once(layer, batch, n, m):
    """Returns the number of queries in a chunk, `None` for the whole map. Unknown sizes are not integers."""
    size, is_known = layer.query_chunk_size, isinstance(n, int) and isinstance(m, int)
    if keras.backend.backend() != "tensorflow" and not isinstance(n, int):
        return None  # JAX finds shapes, or PyTorch traces a loop for ONNX with as many rounds as it has then
    if size == "auto":
        items = batch if isinstance(batch, int) else 1
        size = None if is_known and 4 * items * layer.softmax_heads * n * m <= AUTO_BYTES else AUTO_SIZE
    return None if size is None or isinstance(n, int) and n <= size else size


@dataclasses.dataclass(eq=False)
class _Part:
    """A tensor of a call, with the axis of its queries or of its keys, or both."""

    tensor: Any
    row_axis: int | None = None
    key_axis: int | None = None
    padding: int = 0

    @property
    def axis(self):
        return self.key_axis if self.row_axis is None else self.row_axis


def attend_in_chunks(layer, query, entry, state):
    """Returns the heads `(B, h, n, d)` of `layer.attend`, with the map of `state.chunk_size` queries in memory."""
    masks, n, m = state.masks, query.shape[2], entry["value"].shape[2]
    length = ops.shape(query)[2]
    size, count = chunk_sizes(length, state.chunk_size)
    structure = _parts(query, entry, state)
    parts = keras.tree.flatten(structure)
    window = _window(parts, masks, size, n, m)
    cut = [part for part in parts if part.row_axis is not None or window and part.key_axis is not None]
    whole = [part for part in parts if part not in cut]
    sliced = [_blocks(part, size, count, *(window if part.row_axis is None else ())) for part in cut]
    if state.seed is not None:
        sliced.append(_seeds(state.seed, count))
    variables = _variables_inside(layer)

    def chunk(keys, *tensors):
        shared = tensors[len(sliced) :]
        values = dict(zip(cut, tensors, strict=False)) | dict(zip(whole, shared, strict=False))

        def read(part):
            x = ops.moveaxis(values[part], 0, part.axis) if part in cut else values[part]
            has_more = keys is not None and part.key_axis is not None
            return x[(slice(None),) * part.key_axis + (slice(keys),)] if has_more else x

        named = keras.tree.map_structure(read, structure)
        seed = None if state.seed is None else tensors[len(cut)]
        with keras.StatelessScope(zip(variables, shared[len(whole) :], strict=True)):
            return layer.attend(named["queries"], named["entry"], _chunk_state(state, named, seed)).heads

    segments = [
        (functools.partial(chunk, keys), first, last)
        for first, last, keys in _segments(size, count, m, masks.is_causal and not window)
    ]
    heads = map_chunks(segments, sliced, [*(part.tensor for part in whole), *variables], entry["value"].dtype)
    heads = ops.moveaxis(heads, 0, 2)  # (B, h, count, size, d)
    sizes = ops.shape(heads)
    return ops.reshape(heads, (*sizes[:2], count * size, layer.value_dim))[:, :, :length]


def _parts(query, entry, state):
    """Returns the tensors that chunks read, by name."""
    parts = {
        "queries": _Part(query, 2),
        "query": _Part(ops.reshape(state.query, ops.shape(state.query)), 1),  # turns a variable into a tensor
        "query_positions": _Part(state.query_positions, 0),
        "key_positions": _Part(state.key_positions, None, 0),
        "masks": [_of_map(x) for x in state.masks.all_tensors()],
        "rules": [
            [_Part(queries, len(queries.shape) - 1), _Part(keys, None, len(keys.shape) - 1, NOWHERE)]
            for _, queries, keys in state.masks.rules
        ],
        "entry": {name: _Part(x, None, 0 if name == "positions" else 2) for name, x in entry.items()},
        "rows": {name: _Part(x, 2) for name, x in state.rows.items()},
    }
    return parts | ({} if state.bias is None else {"bias": _of_map(state.bias)})


def _of_map(x):
    """Returns the part of a mask or a bias that broadcasts to `(B, h, n, m)`."""
    x = ops.reshape(x, (*[1] * (4 - len(x.shape)), *ops.shape(x)))
    return _Part(x, *(None if is_one(x.shape[axis]) else axis for axis in (2, 3)))


def _chunk_state(state, named, seed):
    rules = [(rule, *sides) for (rule, *_), sides in zip(state.masks.rules, named["rules"], strict=True)]
    return state.of_chunk(
        query=named["query"],
        masks=CallMask(named["masks"], rules),
        bias=named.get("bias"),
        query_positions=named["query_positions"],
        key_positions=named["key_positions"],
        previous_logits=None,
        cache=None if state.cache is None else named["entry"],
        rows=named["rows"],
        seed=seed,
    )


def _blocks(part, size, count, before=0, after=0):
    """Returns each chunk's rows, `(count, size, ...)`, or its keys, with those of chunks `before` and `after` it."""
    x = ops.moveaxis(part.tensor, part.axis, 0)
    x = _padded(x, before * size, (count + after) * size - ops.shape(x)[0], part.padding)
    blocks = ops.reshape(x, (count + before + after, size, *ops.shape(x)[1:]))
    if not before and not after:
        return blocks
    return ops.concatenate([blocks[i : i + count] for i in range(before + after + 1)], axis=1)


def _padded(x, before, after, value):
    sides = [ops.full((count, *ops.shape(x)[1:]), value, x.dtype) for count in (before, after)]
    return ops.concatenate([sides[0], x, sides[1]])


def _window(parts, masks, size, n, m):
    """Returns how many chunks of keys a chunk reads before and after its own, `None` for all."""
    if masks.window is None or n is None or n != m:
        return None
    before = -(-(masks.window - 1) // size)
    after = 0 if masks.is_causal else before
    # Tensors with an axis of queries and one of keys cannot be cut into windows.
    is_map = any(part.row_axis is not None and part.key_axis is not None for part in parts)
    return None if is_map or before + 1 + after > min(COPIES, n // size) else (before, after)


def _segments(size, count, m, is_causal):
    """Returns the first and last chunk of each segment, and how many keys it reads, `None` for all."""
    if not is_causal or not isinstance(count, int) or m is None:
        return [(0, count, None)]
    step = -(-count // SEGMENTS)
    return [(i, min(i + step, count), min((i + step) * size, m)) for i in range(0, count, step)]


def _seeds(seed, count):
    steps = ops.cast(ops.arange(count, dtype="int32"), seed.dtype)[:, None]
    return seed + steps * ops.cast(np.array([[PRIME, 0]]), seed.dtype)


def _variables_inside(layer):
    """Returns the variables of all stages except the projections of inputs and outputs."""
    projections = [getattr(layer, f"_{name}_dense", None) for name in ("query", "key", "value", "gate", "output")]
    outside = {id(variable) for dense in projections if dense is not None for variable in dense.variables}
    return [variable for variable in layer.variables if id(variable) not in outside]

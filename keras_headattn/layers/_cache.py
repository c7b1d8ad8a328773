"""The cache of an attention layer: a dictionary of tensors by name."""

import contextlib
import contextvars

from keras import ops

from keras_headattn.ops._cache import row_indices, write_rows

_shared = contextvars.ContextVar("row indices by number of heads", default=None)


@contextlib.contextmanager
def shared_row_indices():
    """Computes row indices once for all layers that write the same rows of their caches."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def empty_cache(entry, batch_size, max_length):
    """Makes zeros for `max_length` keys, in the shape of the entry of one key."""
    return {name: ops.zeros((batch_size, x.shape[1], max_length, *x.shape[3:]), x.dtype) for name, x in entry.items()}


def write_entry(cache, entry, index):
    """Returns the cache with the entry of new keys from row `index` on."""
    indices = {} if _shared.get() is None else _shared.get()  # by number of heads
    for name, x in entry.items():
        heads = int(x.shape[1])  # while PyTorch traces an export sizes are tensors
        if heads not in indices:
            indices[heads] = row_indices(x, index)
        cache = cache | {name: write_rows(cache[name], x, indices[heads])}
    return cache


def write_positions(cache, positions, index):
    """Returns the cache with the positions `(n,)` of new keys from row `index` on, if it keeps positions."""
    if "positions" not in cache:
        return cache
    as_rows = (1, 1, -1, 1)
    rows = ops.reshape(positions, as_rows)
    stored = write_rows(ops.reshape(cache["positions"], as_rows), rows, row_indices(rows, index))
    return cache | {"positions": ops.reshape(stored, (-1,))}


def rows_of_logits(cache, count):
    """Returns the rows of logits in a cache, `(B, h, count, m)`: graphs of unknown sizes forget how many there are."""
    batch, heads, _, length = ops.shape(cache["logits"])
    return ops.reshape(cache["logits"], (batch, heads, count, length))

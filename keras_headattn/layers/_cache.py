"""The cache of an attention layer: the entry of its keys, by name, and what else a layer keeps from step to step."""

from keras import ops

from keras_headattn.ops import write_rows


def empty_cache(entry, batch_size, max_length):
    """Zeros for `max_length` keys.

    Args:
        entry: of one key, as `Attention.project_key_value` returns it.
        batch_size: integer or scalar tensor.
        max_length: integer or scalar tensor.
    """
    cache = {}
    for name, tensor in entry.items():
        shape = list(tensor.shape)
        shape[0], shape[_key_axis(name)] = batch_size, max_length
        cache[name] = ops.zeros(shape, tensor.dtype)
    return cache


def write_entry(cache, entry, index):
    """The cache with the entry of new keys from row `index` on."""
    return cache | {name: write_rows(cache[name], x, index, _key_axis(name)) for name, x in entry.items()}


def write_positions(cache, positions, index):
    """The cache with the positions `(n,)` of new keys from row `index` on, where it keeps positions."""
    if "positions" not in cache:
        return cache
    as_rows = (1, 1, -1, 1)
    stored = write_rows(ops.reshape(cache["positions"], as_rows), ops.reshape(positions, as_rows), index)
    return cache | {"positions": ops.reshape(stored, (-1,))}


def _key_axis(name):
    return 3 if name == "key" else 2

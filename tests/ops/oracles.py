"""Attention in float64 NumPy, and random arguments for it. Nothing here imports a backend."""

import numpy as np

BATCH = 2
HEADS = (3, 3), (4, 2), (3, 1), (1, 1), (1, 3)  # of queries, of keys
LENGTHS = (1, 3), (5, 6), (6, 5), (4, 1)  # queries, keys
WIDTHS = (4, 4), (5, 3), (3, 8)  # of keys, of values
FLAGS = (None, (0, 0, 0, 1), (0, 0, 1, 1), (1, 0, 0, 1), (1, 0, 1, 1), (0, 1, 1, 0), (1, 1, 1, 1), (1, 1))


def allowed(shape, mask=None, is_causal=False, sliding_window=None, key_lengths=None):
    """Returns a boolean mask of this shape, `(B, h, n, m)`: all masks of a call to `ops.attend` together."""
    queries, keys = np.indices(shape[-2:])
    result = np.ones(shape, bool)
    if mask is not None:
        result &= mask
    if is_causal:
        result &= keys <= queries
    if sliding_window is not None:
        result &= np.abs(queries - keys) < sliding_window
    if key_lengths is not None:
        result &= keys < np.reshape(key_lengths, (-1, 1, 1, 1))
    return result


def attention(query, key, value, *, scale=1.0, bias=None, sinks=None, **masks):
    """Returns what `ops.attend` must return."""
    batch, heads, n, _ = query.shape
    _, groups, m, _ = key.shape
    heads = max(heads, groups)
    key, value = (np.repeat(x, heads // groups, axis=1) for x in (key, value))
    logits = scale * query @ np.swapaxes(key, 2, 3) + (0.0 if bias is None else bias)
    numerators = np.where(allowed((batch, heads, n, m), **masks), np.exp(logits), 0.0)
    total = numerators.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks)[:, None, None]
    return numerators / np.where(total > 0, total, 1.0) @ value


def draw_arguments(choose):
    """Draws arguments of `ops.attend`, as arrays of float64.

    Args:
        choose: function that returns one of a sequence of options.
    """
    (heads, groups), (n, m), (key_dim, value_dim) = choose(HEADS), choose(LENGTHS), choose(WIDTHS)
    rng = np.random.default_rng(choose(range(100)))
    sizes = BATCH, max(heads, groups), n, m

    def shape(flags):
        return [size if flag else 1 for size, flag in zip(sizes[-len(flags) :], flags, strict=True)]

    mask, bias = choose(FLAGS), choose(FLAGS)
    return {
        "query": rng.normal(size=(BATCH, heads, n, key_dim)),
        "key": rng.normal(size=(BATCH, groups, m, key_dim)),
        "value": rng.normal(size=(BATCH, groups, m, value_dim)),
        "mask": None if mask is None else rng.random(shape(mask)) > 0.4,
        "scale": choose((1.0, 0.3)),
        "bias": None if bias is None else rng.normal(size=shape(bias)),
        "is_causal": choose((False, True)),
        "sliding_window": choose((None, 1, 2, 9)),
        "key_lengths": choose((None, rng.integers(0, m + 2, BATCH), np.array([0, m]))),
        "sinks": choose((None, rng.normal(size=sizes[1]))),
    }


def draw_by_seed(seed):
    rng = np.random.default_rng(seed)
    return draw_arguments(lambda options: options[rng.integers(len(options))])

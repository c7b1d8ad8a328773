"""What the heads of a model attend to in a text, as rows to be drawn."""

import keras
import numpy as np

from keras_headattn.analysis._validation import check_named


def heatmap_rows(tokens, maps, heads=None):
    """The rows of a heat map: some heads, and the sum of all.

    Args:
        tokens: list of strings.
        maps: dictionary of a title, such as the name of a model, to the weights `(h, n)` that each head gives to each
            token. There may be more weights than tokens: the rest is padding.
        heads: list of heads. Defaults to all that every title has.

    Returns:
        List of `(label, {title: weights (n,)})`.

    Raises:
        ValueError: naming the argument and what was received.

    >>> rows = heatmap_rows(["not", "bad"], {"standard": np.array([[0.5, 0.5], [0.1, 0.9]])}, heads=[1])
    >>> [(label, weights["standard"].round(1).tolist()) for label, weights in rows]
    [('head 1', [0.1, 0.9]), ('sum of 2 heads', [0.6, 1.4])]
    """
    if isinstance(tokens, str) or not len(tokens):
        raise ValueError(f"`tokens` must be a list of at least one string. Received: tokens={tokens!r}")
    check_named("maps", maps)
    maps = {title: _as_weights(title, weights, len(tokens)) for title, weights in maps.items()}
    fewest, most = (choose(map(len, maps.values())) for choose in (min, max))
    heads = range(fewest) if heads is None else heads
    if not all(0 <= head < fewest for head in heads):
        raise ValueError(f"`heads` must be from 0 to {fewest - 1}. Received: heads={heads}")
    rows = [(f"head {head}", {title: weights[head] for title, weights in maps.items()}) for head in heads]
    counted = str(most) if most == fewest else "all"
    return [*rows, (f"sum of {counted} heads", {title: weights.sum(0) for title, weights in maps.items()})]


def _as_weights(title, weights, length):
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if weights.ndim != 2 or not len(weights) or weights.shape[1] < length:
        raise ValueError(
            f"`maps` must be (heads, {length}), a weight for each of {length} tokens; of a square map choose a row. "
            f"Received: {title!r} of shape {weights.shape}"
        )
    return weights[:, :length]


def shades(weights):
    """Weights `(n,)` as parts of the largest, from 0 to 1."""
    return np.clip(weights / max(weights.max(), 1e-9), 0, 1)

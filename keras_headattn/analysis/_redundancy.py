"""How much the heads of a model repeat each other."""

import keras
import numpy as np

from keras_headattn.analysis._attention_maps import AttentionMaps

SUM_TOLERANCE = 1e-2  # weights in bfloat16 are that far off


def layer_redundancy(maps, mask=None):
    """Layer redundancy (LR): how much the heads of a layer attend to the same.

    Of a layer with `h` heads it is log2 h minus the Jensen-Shannon divergence of its heads' weights, the mean over
    queries. The divergence has base 2 and counts all heads the same: it is 0 if they attend to the same, and log2 h if
    no two of them attend to one key. LR is the mean over layers.

    Source: "Disentangled mask attention in Transformer" (anonymous), section 4.2; Correia et al. 2019, "Adaptively
    sparse Transformers".

    Args:
        maps: attention weights of the layers, as `attention_maps` returns them, or a list or dictionary of arrays
            `(B, h, n, m)`, or `(B, h, h, n, m)` of heads in pairs, which count as h * h heads. All four may differ from
            layer to layer. The rows of real queries must sum to 1.
        mask: boolean, True = a real query: `(B, n)` for all layers, or a list of such, one a layer. Defaults to all.
            Every real query counts the same, whatever the length of its text: the redundancy in a whole data set is the
            mean of those in its batches, weighted by their numbers of real queries.

    Returns:
        Float from 0, best, to the mean of log2 h. Models with other numbers of heads have other bounds.

    Raises:
        ValueError: naming the argument and what was received.

    >>> apart, same = np.eye(2).reshape(1, 2, 1, 2), np.full((1, 2, 1, 2), 0.5)
    >>> layer_redundancy([apart]), layer_redundancy([same]), layer_redundancy([apart, same])
    (0.0, 1.0, 0.5)
    """
    layers = _as_layers(maps)
    masks = mask if isinstance(mask, list | tuple) else [mask] * len(layers)
    if len(masks) != len(layers):
        raise ValueError(
            f"`mask` must be (B, n), or a list of one for each of the {len(layers)} layers. "
            f"Received: {len(masks)} masks"
        )
    redundancies = []
    for (name, weights), layer_mask in zip(layers.items(), masks, strict=True):
        layer_mask, total = _as_mask(layer_mask, name, weights), 0
        for item, real in zip(weights, layer_mask, strict=True):
            heads = _distributions(name, item[:, real])
            total += np.sum(_entropy(heads.mean(0)) - _entropy(heads).mean(0))
        redundancies.append(np.log2(weights.shape[1]) - total / layer_mask.sum())
    return float(np.mean(redundancies))


def head_redundancy(maps, mask=None):
    """Head redundancy (HR): how much any two heads of a model, of one layer or of two, attend to the same.

    It is 1 minus the Jensen-Shannon divergence of two heads' weights, base 2, the mean over queries and over all pairs
    of heads. As in the source, a head with itself is a pair too: HR of H heads is at least 1 / H.

    Source: "Disentangled mask attention in Transformer" (anonymous), section 4.2; Bian et al. 2021, "On attention
    redundancy".

    Args:
        maps, mask: as of `head_redundancy_matrix`.

    Returns:
        Float up to 1; the lower, the more the heads differ.

    Raises:
        ValueError: naming the argument and what was received.

    >>> head_redundancy([np.eye(2).reshape(1, 2, 1, 2)])  # two heads, and no key that both attend to
    0.5
    """
    return float(head_redundancy_matrix(maps, mask).mean())


def head_redundancy_matrix(maps, mask=None):
    """How much each head of a model attends to the same as each other head.

    Source: "Disentangled mask attention in Transformer" (anonymous), section 4.2 and figures 3, 9 and 10.

    Args:
        maps: as of `layer_redundancy`. Numbers of heads may differ from layer to layer, `B`, `n` and `m` may not:
            heads are compared query by query, so choose layers of one kind, such as those of the encoder.
        mask: boolean `(B, n)`, True = a real query. Defaults to all. Every real query counts the same.

    Returns:
        Array `(H, H)` for the H heads from the first of the first layer to the last of the last: 1 minus the
        Jensen-Shannon divergence, base 2, of two heads' weights, the mean over queries. 1 if they are the same, as on
        the diagonal, 0 if they have no key in common.

    Raises:
        ValueError: naming the argument and what was received.

    >>> one, other = [[1, 0, 0, 0]], [[0, 0.5, 0.5, 0]]
    >>> head_redundancy_matrix({"first": np.array([[one, other]]), "second": np.array([[other]])}).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    layers = _as_layers(maps)
    shapes = {name: (len(weights), *weights.shape[2:]) for name, weights in layers.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(
            "`maps` must be of the same batch, queries and keys in all layers; choose those of one kind, such as the "
            f"encoder's. Received: (B, n, m) of {shapes}"
        )
    mask = _as_mask(mask, *next(iter(layers.items())))
    size = sum(weights.shape[1] for weights in layers.values())
    total = np.zeros((size, size))
    for place, real in enumerate(mask):  # an item and a head at a time: all pairs of all items would not fit
        heads = np.concatenate([_distributions(name, weights[place][:, real]) for name, weights in layers.items()])
        own = _entropy(heads)
        for i in range(size):
            divergence = _entropy((heads[i] + heads[i:]) / 2) - (own[i] + own[i:]) / 2
            total[i, i:] += np.sum(1 - divergence, axis=-1)
    return (total + np.triu(total, 1).T) / mask.sum()


def _as_layers(maps):
    """Dictionary of what to call a layer to its weights `(B, h, n, m)`."""
    named = maps.items() if isinstance(maps, dict) else enumerate(maps)
    layers = {f"maps[{name!r}]": _as_weights(f"maps[{name!r}]", layer) for name, layer in named}
    if not layers:
        raise ValueError(f"`maps` must have the weights of at least one layer. Received: maps={maps}")
    return layers


def _as_weights(name, layer):
    layer = layer.weights if isinstance(layer, AttentionMaps) else layer
    weights = keras.ops.convert_to_numpy(layer)
    shape = weights.shape
    if len(shape) == 5 and shape[1] == shape[2]:
        weights = weights.reshape(shape[0], -1, *shape[3:])
    if weights.ndim != 4 or not weights.size:
        raise ValueError(
            "`maps` must have weights (B, h, n, m) of each layer, or (B, h, h, n, m) of heads in pairs, not empty. "
            f"Received: {name} of shape {shape}"
        )
    return weights


def _as_mask(mask, name, weights):
    """Boolean `(B, n)` with a real query in it."""
    shape = weights.shape[0], weights.shape[2]
    mask = np.ones(shape, bool) if mask is None else keras.ops.convert_to_numpy(mask).astype(bool)
    if mask.shape != shape:
        raise ValueError(
            f"`mask` must be (B, n) = {shape} for the queries of {name}. Received: mask of shape {mask.shape}"
        )
    if not mask.any():
        raise ValueError("`mask` must have at least one real query. Received: a mask that is False everywhere")
    return mask


def _distributions(name, weights):
    """Weights `(h, n, m)` in float64, rows summing to 1."""
    weights = weights.astype("float64")
    sums = weights.sum(-1, keepdims=True)
    if not (np.all(weights >= 0) and np.all(np.abs(sums - 1) <= SUM_TOLERANCE)):
        _, row = np.unravel_index(np.argmax(np.maximum(np.abs(sums[..., 0] - 1), -weights.min(-1))), sums.shape[:2])
        raise ValueError(
            "Every row of `maps` must be at least 0 and sum to 1; leave out padding and queries that may attend to "
            "nothing with `mask`; weights that heads exchange after the softmax have no divergence. "
            f"Received: {name}, where of query {row} the least weight is {weights[:, row].min():.4g} and the sums are "
            f"{sums[:, row, 0]}"
        )
    return weights / sums


def _entropy(rows):
    """Entropy of the last axis, in bits."""
    return -np.sum(rows * np.log2(np.where(rows > 0, rows, 1)), axis=-1)

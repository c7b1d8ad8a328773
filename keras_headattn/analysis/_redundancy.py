"""Redundancy of the heads of a model, measured and drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from headattn_io.optional import optional_import
from keras_headattn._figures import Figure, mark_parts, new_figure
from keras_headattn.analysis._attention_maps import AttentionMaps
from keras_headattn.analysis._validation import check_named

SUM_TOLERANCE = 1e-2  # weights in bfloat16 are that far off
PERPLEXITY = 30


def layer_redundancy(
    maps: Mapping[str, Any] | Sequence[ArrayLike], mask: ArrayLike | Sequence[ArrayLike] | None = None
) -> float:
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


def head_redundancy(maps: Mapping[str, Any] | Sequence[ArrayLike], mask: ArrayLike | None = None) -> float:
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


def head_redundancy_matrix(maps: Mapping[str, Any] | Sequence[ArrayLike], mask: ArrayLike | None = None) -> np.ndarray:
    """Redundancy of each pair of heads of a model: how much the two attend to the same keys.

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


def draw_head_redundancy(
    models: Mapping[str, ArrayLike],
    layers: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    title: str = "How much heads repeat each other",
) -> Figure:
    """Draws the redundancy of each pair of heads of a model, models side by side in one scale.

    The scale ends at 1, the same weights, and starts at the smallest number of any model. The title has the mean of a
    matrix, which is HR. Lines are drawn between layers. Heads and layers are counted from 1 in the picture.

    As figures 3, 9 and 10 of "Disentangled mask attention in Transformer" (anonymous).

    Args:
        models: dictionary of the name of a model to its matrix `(H, H)`, as `head_redundancy_matrix` returns it.
        layers: list of the number of heads of each layer, which sum to H; or a dictionary of such, one a model.
            Default `None`: the heads are not divided.
        title: str, of the picture.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_head_redundancy({"standard": [[1, 0.9], [0.9, 1]], "disentangled": [[1, 0.5], [0.5, 1]]})
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['standard, HR 0.95', 'disentangled, HR 0.75']
    """
    check_named("models", models)
    matrices = {name: np.asarray(matrix, "float64") for name, matrix in models.items()}
    for name, matrix in matrices.items():
        if matrix.ndim != 2 or not matrix.size or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                "`models` must have a matrix (heads, heads) of each model. "
                f"Received: models[{name!r}] of shape {matrix.shape}"
            )
    parts = {name: _heads_of_layers(name, matrix, layers) for name, matrix in matrices.items()}
    lowest = min(matrix.min() for matrix in matrices.values())
    figure = new_figure(3.3 * len(models) + 1, 3.9, title)
    grid = figure.subplots(1, len(models), squeeze=False)
    for axes, (name, matrix) in zip(grid[0], matrices.items(), strict=True):
        picture = axes.imshow(matrix, vmin=min(lowest, 0.99), vmax=1, cmap="viridis")  # 0.99: not an empty scale
        axes.set_title(f"{name}, HR {matrix.mean():.2f}", fontsize=9)
        if parts[name] is None:
            numbers = range(0, len(matrix), -(-len(matrix) // 16))
            axes.set_xticks(numbers, [number + 1 for number in numbers], fontsize=8)
            axes.set_yticks(numbers, [number + 1 for number in numbers], fontsize=8)
        else:
            mark_parts(axes, parts[name], [f"layer {number + 1}" for number in range(len(parts[name]))])
        axes.set_xlabel("head")
    grid[0, 0].set_ylabel("head")
    figure.colorbar(picture, ax=grid, shrink=0.8, label="1 - Jensen-Shannon divergence")
    return figure


def _heads_of_layers(name, matrix, layers):
    found = layers[name] if isinstance(layers, dict) else layers
    if found is not None and sum(found) != len(matrix):
        raise ValueError(f"`layers` must sum to the {len(matrix)} heads of {name!r}. Received: layers={found}")
    return found


def draw_queries(
    models: Mapping[str, ArrayLike],
    points: int = 300,
    seed: int = 0,
    title: str = "Queries of tokens, laid out by t-SNE",
) -> Figure:
    """Draws queries as points in a plane, coloured by head, models side by side: the more gaps, the more heads differ.

    t-SNE lays out all heads of a model together. It keeps neighbourhoods. Its coordinates have no unit, and those of
    two models cannot be compared. It runs on one core: a small number of `points` keeps it short. Heads are counted
    from 1 in the picture.

    As figures 6 to 8 of "Disentangled mask attention in Transformer" (anonymous).

    Args:
        models: dictionary of the name of a model to the queries `(h, N, d)` of a layer's `h` heads for N tokens, of
            at least two numbers each. Leave out padding beforehand.
        points: number of tokens to draw of each head, chosen at random if there are more, the same ones in all heads.
        seed: integer, of the choice and of t-SNE.
        title: str, of the picture.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if scikit-learn or matplotlib is not installed.

    >>> figure = draw_queries({"standard": np.random.default_rng(0).normal(size=(2, 12, 4))}, points=10)
    >>> figure.axes[0].collections[0].get_offsets().shape  # ten of each head
    (20, 2)
    """
    check_named("models", models)
    if isinstance(points, bool) or not isinstance(points, int) or points < 2:
        raise ValueError(f"`points` must be an integer of at least 2. Received: points={points}")
    figure = new_figure(3.6 * len(models), 4, title)
    grid = figure.subplots(1, len(models), squeeze=False)
    beside = dict(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=7, title_fontsize=7, handlelength=1)
    for axes, (name, queries) in zip(grid[0], models.items(), strict=True):
        queries, rng = _as_queries(name, queries), np.random.default_rng(seed)
        chosen = queries[:, np.sort(rng.permutation(queries.shape[1])[:points])]
        count, length = chosen.shape[:2]
        heads = np.repeat(np.arange(1, count + 1), length)
        places = _plane(chosen.reshape(count * length, -1), seed)
        order = rng.permutation(len(heads))  # no head covers another
        colors = dict(cmap="tab10", vmin=0.5, vmax=10.5) if count <= 10 else dict(cmap="turbo")
        dots = axes.scatter(*places[order].T, c=heads[order], s=4, linewidths=0, **colors)
        if count > 1:
            axes.legend(*dots.legend_elements(num=None, fmt="{x:.0f}"), title="head", **beside)
        axes.set_title(name, fontsize=9)
        axes.set(xticks=[], yticks=[], xlabel="first t-SNE coordinate (no unit)")
    grid[0, 0].set_ylabel("second t-SNE coordinate (no unit)")
    return figure


def _as_queries(name, queries):
    queries = np.asarray(keras.ops.convert_to_numpy(queries), "float64")
    if queries.ndim != 3 or not queries.size or min(queries.shape[1:]) < 2:
        raise ValueError(
            "`models` must have queries (heads, tokens, width) of each model, of at least two tokens and width two. "
            f"Received: models[{name!r}] of shape {queries.shape}"
        )
    if np.all(queries == queries[0, 0]):
        raise ValueError(f"`models` must have queries that are not all the same. Received: models[{name!r}]={queries}")
    return queries


def _plane(rows, seed):
    """Rows `(N, d)` laid out as `(N, 2)`."""
    manifold = optional_import("sklearn.manifold", "recipes")
    threads = optional_import("threadpoolctl", "recipes")  # comes with scikit-learn
    perplexity = min(PERPLEXITY, max(1, (len(rows) - 1) / 3))
    tsne = manifold.TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed)
    # Threads wait for each other at every step: on busy cores, two took ten times as long as one.
    with threads.threadpool_limits(1):
        return tsne.fit_transform(rows)

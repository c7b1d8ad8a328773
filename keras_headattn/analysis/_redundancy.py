"""Redundancy of attention heads."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._figures import Figure, mark_parts, new_figure
from keras_headattn._optional import optional_import
from keras_headattn.analysis._attention_maps import AttentionMaps
from keras_headattn.analysis._validation import check_named

SUM_TOLERANCE = 1e-2  # weights in bfloat16 are that far off
PERPLEXITY = 30


def layer_redundancy(
    maps: Mapping[str, Any] | Sequence[ArrayLike], mask: ArrayLike | Sequence[ArrayLike] | None = None
) -> float:
    """Returns the layer redundancy (LR): the similarity of the heads within a layer, averaged over layers.

    In a layer with `h` heads it is log2 h minus the base-2 Jensen-Shannon divergence of the heads' weights, averaged
    over queries: 0 if no two heads attend to the same key, log2 h if all attend alike. Source: "Disentangled mask
    attention in Transformer" (anonymous), section 4.2; Correia et al. 2019, "Adaptively sparse Transformers".

    Args:
        maps: attention weights from `attention_maps`, or a list or dictionary of arrays `(B, h, n, m)`, or
            `(B, h, h, n, m)` for heads in pairs, which count as h * h heads. Shapes may differ between layers.
        mask: boolean `(B, n)`, True = real query, whose weights must sum to 1; or a list of one for each layer. Default
            `None`: all. To average over batches, weight them by their number of real queries.

    >>> apart, same = np.eye(2).reshape(1, 2, 1, 2), np.full((1, 2, 1, 2), 0.5)
    >>> layer_redundancy([apart]), layer_redundancy([same]), layer_redundancy([apart, same])
    (0.0, 1.0, 0.5)
    """
    layers = as_layers(maps)
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
            total += np.sum(entropy(heads.mean(0)) - entropy(heads).mean(0))
        redundancies.append(np.log2(weights.shape[1]) - total / layer_mask.sum())
    return float(np.mean(redundancies))


def head_redundancy(maps: Mapping[str, Any] | Sequence[ArrayLike], mask: ArrayLike | None = None) -> float:
    """Returns the head redundancy (HR): the mean similarity of any two heads of a model, at most 1; lower is better.

    It is 1 minus the base-2 Jensen-Shannon divergence of two heads' weights, averaged over queries and all pairs of
    heads. As in the source, this includes pairs of a head with itself, so HR of H heads is at least 1 / H. Source:
    "Disentangled mask attention in Transformer" (anonymous), section 4.2; Bian et al. 2021, "On attention redundancy".

    Args:
        maps, mask: see `head_redundancy_matrix`.

    >>> head_redundancy([np.eye(2).reshape(1, 2, 1, 2)])  # two heads, and no key that both attend to
    0.5
    """
    return float(head_redundancy_matrix(maps, mask).mean())


def head_redundancy_matrix(maps: Mapping[str, Any] | Sequence[ArrayLike], mask: ArrayLike | None = None) -> np.ndarray:
    """Returns the redundancy of each pair of heads of a model.

    Source: "Disentangled mask attention in Transformer" (anonymous), section 4.2 and figures 3, 9 and 10.

    Args:
        maps: see `layer_redundancy`. `B`, `n` and `m` must be the same in all layers: choose layers of one kind, such
            as the encoder's.
        mask: boolean `(B, n)`, True = real query. Default `None`: all.

    Returns:
        Array `(H, H)` for all H heads, layer by layer: 1 minus the base-2 Jensen-Shannon divergence of two heads'
        weights, averaged over queries. 1 for equal weights, 0 for no key in common.

    >>> one, other = [[1, 0, 0, 0]], [[0, 0.5, 0.5, 0]]
    >>> head_redundancy_matrix({"first": np.array([[one, other]]), "second": np.array([[other]])}).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    layers = as_layers(maps)
    shapes = {name: (len(weights), *weights.shape[2:]) for name, weights in layers.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(
            "`maps` must have the same batch, queries and keys in all layers; choose layers of one kind, such as the "
            f"encoder's. Received: (B, n, m) of {shapes}"
        )
    mask = _as_mask(mask, *next(iter(layers.items())))
    size = sum(weights.shape[1] for weights in layers.values())
    total = np.zeros((size, size))
    for item, real in enumerate(mask):  # an item and a head at a time: all pairs of all items would not fit
        heads = np.concatenate([_distributions(name, weights[item][:, real]) for name, weights in layers.items()])
        entropies = entropy(heads)
        for i in range(size):
            divergence = entropy((heads[i] + heads[i:]) / 2) - (entropies[i] + entropies[i:]) / 2
            total[i, i:] += np.sum(1 - divergence, axis=-1)
    return (total + np.triu(total, 1).T) / mask.sum()


def as_layers(maps):
    """Returns weights `(B, h, n, m)` by the layer's name in messages."""
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
    """Returns a boolean `(B, n)` with at least one real query."""
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
    """Returns weights `(h, n, m)` in float64, with rows that sum to 1."""
    weights = weights.astype("float64")
    sums = weights.sum(-1, keepdims=True)
    if not is_distribution(weights):
        _, row = np.unravel_index(np.argmax(np.maximum(np.abs(sums[..., 0] - 1), -weights.min(-1))), sums.shape[:2])
        raise ValueError(
            "Every row of `maps` must be at least 0 and sum to 1. Leave out padding and queries that may attend to "
            "nothing with `mask`. Weights mixed between heads after the softmax have no divergence. "
            f"Received: {name}, where for query {row} the least weight is {weights[:, row].min():.4g} and the sums are "
            f"{sums[:, row, 0]}"
        )
    return weights / sums


def is_distribution(weights):
    """Returns True if no weight is negative and all rows sum to 1."""
    return np.all(weights >= 0) and np.all(np.abs(weights.sum(-1) - 1) <= SUM_TOLERANCE)


def entropy(rows):
    """Returns the entropy of the last axis, in bits."""
    return -np.sum(rows * np.log2(np.where(rows > 0, rows, 1)), axis=-1)


def draw_head_redundancy(
    models: Mapping[str, ArrayLike],
    layers: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    title: str = "How much heads repeat each other",
) -> Figure:
    """Draws the redundancy of each pair of heads, models side by side on one scale.

    Titles show the mean (HR). Heads and layers are counted from 1. Like figures 3, 9 and 10 of "Disentangled mask
    attention in Transformer" (anonymous). Needs matplotlib.

    Args:
        models: dictionary from model name to matrix `(H, H)`, see `head_redundancy_matrix`.
        layers: number of heads of each layer, with sum H, to draw lines between layers; or a dictionary of these by
            model. Default `None`: no lines.
        title: title of the figure.

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
    # A head and itself, 1, would take the scale from the others.
    off_diagonals = [matrix[~np.eye(len(matrix), dtype=bool)] for matrix in matrices.values()]
    highest = max((float(values.max()) for values in off_diagonals if values.size), default=1.0)
    figure = new_figure(3.3 * len(models) + 1, 3.9, title)
    grid = figure.subplots(1, len(models), squeeze=False)
    for axes, (name, matrix) in zip(grid[0], matrices.items(), strict=True):
        picture = axes.imshow(matrix, vmin=0, vmax=max(highest, 0.01), cmap="Blues")  # 0.01: not an empty scale
        axes.set_title(f"{name}, HR {matrix.mean():.2f}", fontsize=9)
        if parts[name] is None:
            ticks = range(0, len(matrix), -(-len(matrix) // 16))
            axes.set_xticks(ticks, [tick + 1 for tick in ticks], fontsize=8)
            axes.set_yticks(ticks, [tick + 1 for tick in ticks], fontsize=8)
        else:
            mark_parts(axes, parts[name], [str(layer + 1) for layer in range(len(parts[name]))])
        axes.set_xlabel("head" if parts[name] is None else "layer, and its heads")
    grid[0, 0].set_ylabel(grid[0, 0].get_xlabel())
    figure.colorbar(picture, ax=grid, shrink=0.8, extend="max", label="1 - Jensen-Shannon divergence")
    return figure


def _heads_of_layers(name, matrix, layers):
    sizes = layers[name] if isinstance(layers, dict) else layers
    if sizes is not None and sum(sizes) != len(matrix):
        raise ValueError(f"`layers` must sum to the {len(matrix)} heads of {name!r}. Received: layers={sizes}")
    return sizes


def draw_queries(
    models: Mapping[str, ArrayLike],
    points: int = 300,
    seed: int = 0,
    title: str = "Queries of tokens, laid out by t-SNE",
) -> Figure:
    """Draws queries laid out by t-SNE and coloured by head, models side by side: gaps show that heads differ.

    All heads of a model are laid out together. Coordinates have no unit and cannot be compared between models. Heads
    are counted from 1. Like figures 6 to 8 of "Disentangled mask attention in Transformer" (anonymous). Needs
    scikit-learn and matplotlib.

    Args:
        models: dictionary from model name to queries `(h, N, d)` of a layer for N tokens, without padding; `N, d >= 2`.
        points: number of tokens to draw, chosen at random; t-SNE runs on one core, and few points keep it fast.
        seed: seed of the choice and of t-SNE.
        title: title of the figure.

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
    """Lays out rows `(N, d)` as `(N, 2)`."""
    manifold = optional_import("sklearn.manifold", "recipes")
    threads = optional_import("threadpoolctl", "recipes")  # comes with scikit-learn
    perplexity = min(PERPLEXITY, max(1, (len(rows) - 1) / 3))
    tsne = manifold.TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed)
    # Threads wait for each other at every step: on busy cores, two took ten times as long as one.
    with threads.threadpool_limits(1):
        return tsne.fit_transform(rows)

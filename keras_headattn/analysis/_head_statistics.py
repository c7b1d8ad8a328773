"""What each head of a model does, in four numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_headattn._figures import CARD, Figure, new_figure, short_names
from keras_headattn.analysis._redundancy import as_layers, entropy, head_redundancy_matrix, is_distribution

# Title, unit and ends of the scale of each measure; `None`: the largest value.
MEASURES = {
    "first_token": ("Attention to the first token", "share", 0, 1),
    "entropy": ("Entropy of the weights", "bits", 0, None),
    "redundancy": ("Redundancy, to the layer's other heads", "similarity", 0, 1),
    "rank": ("Effective rank of the maps", "rank", 1, None),
}
MOST_LABELS, MOST_NUMBERS = 32, 8  # heads with a label, and with a number in each cell


def head_statistics(maps: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """Returns statistics of each head's attention weights.

    Args:
        maps: dictionary from layer path to attention weights, from `attention_maps` or arrays `(B, h, n, m)`, or
            `(B, h, h, n, m)` for heads in pairs, which count as h * h heads. Queries whose weights are all 0 are left
            out: set the rows of padding to 0.

    Returns:
        Dictionary from layer path to arrays `(h,)`, means over queries: `"first_token"`, the weight of the first key
        (an attention sink: Xiao et al. 2024, "Efficient streaming language models with attention sinks"); `"entropy"`
        in bits; `"redundancy"`, 1 minus the base-2 Jensen-Shannon divergence from another head of the layer, averaged
        over these (Bian et al. 2021, "On attention redundancy"); and `"rank"`, the effective rank of a map (Roy and
        Vetterli 2007), averaged over items. NaN for entropy and redundancy where weights are negative or do not sum to
        1, as after talking heads, for redundancy in layers of one head, and for all if a layer's weights are not finite
        or all 0.

    Raises:
        ValueError: if there are no maps, or one has another shape.

    >>> uniform, diagonal = np.full((1, 1, 4, 4), 0.25), np.eye(4)[None, None]
    >>> statistics = head_statistics({"attention": np.concatenate([uniform, diagonal], axis=1)})["attention"]
    >>> {name: values.round(2).tolist() for name, values in statistics.items()}
    {'first_token': [0.25, 0.25], 'entropy': [2.0, 0.0], 'redundancy': [0.45, 0.45], 'rank': [1.0, 4.0]}
    """
    layers = as_layers(maps).values()
    return {path: _of_layer(weights.astype("float64")) for path, weights in zip(maps, layers, strict=True)}


def _of_layer(weights):
    heads = weights.shape[1]
    statistics = {name: np.full(heads, np.nan) for name in MEASURES}
    mask = weights.any(axis=(1, 3))
    if not (mask.any() and np.isfinite(weights).all()):
        return statistics
    rows = np.moveaxis(weights, 1, 2)[mask]  # (queries, h, m)
    singular_values = np.linalg.svd(weights[mask.any(axis=1)], compute_uv=False)
    shares = singular_values / np.maximum(singular_values.sum(-1, keepdims=True), 1e-12)
    statistics |= {"first_token": rows[..., 0].mean(0), "rank": (2 ** entropy(shares)).mean(0)}
    if is_distribution(rows):
        statistics["entropy"] = entropy(rows / rows.sum(-1, keepdims=True)).mean(0)
        if heads > 1:
            similarities = head_redundancy_matrix([weights], mask)
            statistics["redundancy"] = (similarities.sum(1) - similarities.diagonal()) / (heads - 1)
    return statistics


def draw_head_statistics(
    statistics: Mapping[str, Mapping[str, np.ndarray]], title: str = "What heads attend to"
) -> Figure:
    """Draws statistics of heads, a row for each layer and a column for each head. Needs matplotlib.

    Statistics that no head has, such as the entropy of negative weights, are left out.

    Args:
        statistics: from `head_statistics`.
        title: title of the figure.

    >>> figure = draw_head_statistics(head_statistics({"attention": np.eye(4)[None, None].repeat(2, 1)}))
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['Attention to the first token', 'Entropy of the weights']
    """
    names = short_names(statistics)
    most = max(len(layer["rank"]) for layer in statistics.values())
    panel = 0.85 + 0.15 * len(names)
    pictures = {measure: np.full((len(names), most), np.nan) for measure in MEASURES}
    for measure, picture in pictures.items():
        for row, layer in enumerate(statistics.values()):
            picture[row, : len(layer[measure])] = layer[measure]
    pictures = {measure: x for measure, x in pictures.items() if measure == "rank" or not np.isnan(x).all()}
    figure = new_figure(max(CARD, 0.05 * max(map(len, names)) + 0.12 * most + 1), len(pictures) * panel, title)
    rows = figure.subplots(len(pictures), 1, squeeze=False)[:, 0]
    for axes, (measure, picture) in zip(rows, pictures.items(), strict=True):
        label, unit, low, high = MEASURES[measure]
        if high is None:
            high = max(low + 1e-9, np.nanmax(picture, initial=low))
        image = axes.imshow(picture, vmin=low, vmax=high, cmap="Blues", aspect="auto")
        axes.set_title(label, fontsize=8)
        for (row, head), value in np.ndenumerate(picture) if most <= MOST_NUMBERS else ():
            color = "white" if value - low > 0.6 * (high - low) else "black"
            number = "" if np.isnan(value) else f"{value:.2g}"
            axes.text(head, row, number, color=color, fontsize=6, ha="center", va="center")
        heads = range(0, most, -(-most // MOST_LABELS))
        axes.set_xticks(heads, [head + 1 for head in heads], fontsize=6)
        axes.set_yticks(range(len(names)), names, fontsize=6)
        bar = figure.colorbar(image, ax=axes)
        bar.set_label(unit, size=6)
        bar.ax.tick_params(labelsize=6)
    axes.set_xlabel("head", fontsize=8)
    return figure

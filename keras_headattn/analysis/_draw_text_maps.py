"""Attention between the words of a sentence, in its parts."""

import numpy as np

from keras_headattn._figures import new_figure, weight_colors

COLUMNS = {"weights": "weights", "convolution": "convolution part", "self_attention": "self-attention part"}


def draw_text_maps(maps, tokens, sentence=0, head=0):
    """Draws the maps of one head, a row for each layer: all of it, and where it is convolved, its two parts.

    As figure 11 of Wang et al. 2021, "Evolving attention with residual convolutions". The parts are logits whose
    weighted sum is the map; of each its softmax is drawn, over what has any weight.

    Args:
        maps: dictionary of the title of a row to `AttentionMaps`, as `attention_maps` returns it.
        tokens: list of strings, or two lists: those of queries and those of keys. They may be shorter than the maps,
            whose rest is padding and not drawn.
        sentence: which one of the batch.
        head: which head.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ImportError: if matplotlib is not installed.

    >>> from keras_headattn.analysis import AttentionMaps
    >>> maps = {"first": AttentionMaps(weights=np.full((1, 2, 3, 3), 1 / 3))}
    >>> figure = draw_text_maps(maps, ["a", "b", "c"])
    >>> len(figure.axes)
    1
    """
    queries, keys = (tokens, tokens) if not tokens or isinstance(tokens[0], str) else tokens
    cell = 0.5 + 0.17 * max(len(queries), len(keys))
    columns = {
        name: label for name, label in COLUMNS.items() if any(getattr(x, name) is not None for x in maps.values())
    }
    figure = new_figure(len(columns) * (cell + 0.3), len(maps) * (cell + 0.3))
    axes = figure.subplots(len(maps), len(columns), squeeze=False)
    for row, (title, layer) in zip(axes, maps.items(), strict=True):
        for place, (name, label) in zip(row, columns.items(), strict=True):
            part = getattr(layer, name)
            if part is None:
                place.set_axis_off()
                continue
            shown = sentence, head, slice(len(queries)), slice(len(keys))
            picture = part[shown] if name == "weights" else _softmax(part[shown], layer.weights[shown] > 0)
            place.imshow(picture, **weight_colors(picture))
            place.set_title(f"{title}: {label}", fontsize=7)
            place.set_xticks(range(len(keys)), keys, rotation=90, fontsize=7)
            place.set_yticks(range(len(queries)), queries, fontsize=7)
    return figure


def _softmax(logits, allowed):
    exponents = np.where(allowed, np.exp(logits - logits.max(-1, keepdims=True)), 0)
    return exponents / np.maximum(exponents.sum(-1, keepdims=True), 1e-9)

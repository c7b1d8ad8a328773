"""Attention maps as pictures: between the words of a sentence, and over an image."""

import numpy as np

from keras_headattn._figures import new_figure, weight_colors
from keras_headattn.analysis._validation import check_named

COLUMNS = {"weights": "weights", "convolution": "convolution part", "self_attention": "self-attention part"}


def draw_image_maps(image, maps, size, pixel=None, heads=None):
    """Draws what one pixel attends to, a row for each layer and a column for each head.

    As figures 4 and 7 to 10 of Wang et al. 2021, "Evolving attention with residual convolutions".

    Args:
        image: `(H, W, 3)`, from 0 to 1, or integers to 255.
        maps: dictionary of the title of a row, such as a layer of one of several models, to the weights `(h, n, n)` of
            one image.
        size: `(height, width)` of the grid of pixels that attend, so that `n = height * width`; or a dictionary of
            such, one a title.
        pixel: `(row, column)` of the image, the one whose attention is drawn. Defaults to its middle.
        heads: list of heads to draw. Defaults to all.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> weights = np.full((2, 12, 12), 1 / 12)
    >>> figure = draw_image_maps(np.zeros((6, 8, 3)), {"first": weights}, size=(3, 4))
    >>> len(figure.axes)
    3
    """
    check_named("maps", maps)
    image = np.asarray(image)
    if image.ndim != 3:
        raise ValueError(f"`image` must be (height, width, 3). Received: image of shape {image.shape}")
    pixel = (image.shape[0] // 2, image.shape[1] // 2) if pixel is None else pixel
    if not all(0 <= place < limit for place, limit in zip(pixel, image.shape, strict=False)):
        raise ValueError(f"`pixel` must be in the image of {image.shape[:2]} pixels. Received: pixel={pixel}")
    grids = {title: _of_pixel(title, weights, size, pixel, image.shape) for title, weights in maps.items()}
    heads = range(max(map(len, grids.values()))) if heads is None else heads
    figure = new_figure(1.4 * (1 + len(heads)), 1.5 * len(grids))
    axes = figure.subplots(len(grids), 1 + len(heads), squeeze=False)
    for row, (title, grid) in zip(axes, grids.items(), strict=True):
        row[0].imshow(image)
        row[0].plot(pixel[1], pixel[0], marker="+", color="red", markersize=8)
        row[0].set_ylabel(title, fontsize=7)
        for place, head in zip(row[1:], heads, strict=True):
            place.imshow(image, alpha=0.35)
            if head < len(grid):
                extent = (-0.5, image.shape[1] - 0.5, image.shape[0] - 0.5, -0.5)
                place.imshow(grid[head], alpha=0.65, cmap="jet", interpolation="bilinear", extent=extent)
    for place, head in zip(axes[0, 1:], heads, strict=True):
        place.set_title(f"head {head}", fontsize=7)
    for place in axes.flat:
        place.set(xticks=[], yticks=[])
    return figure


def _of_pixel(title, weights, size, pixel, shape):
    """Weights `(h, height, width)` of the place in the grid where the pixel is."""
    height, width = size[title] if isinstance(size, dict) else size
    weights = np.asarray(weights)
    if weights.ndim != 3 or weights.shape[-1] != height * width:
        raise ValueError(
            f"`maps` must be (heads, {height * width}, {height * width}) for a grid of {height} x {width}. "
            f"Received: {title!r} of shape {weights.shape}"
        )
    row, column = pixel[0] * height // shape[0], pixel[1] * width // shape[1]
    return weights[:, row * width + column].reshape(-1, height, width)


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
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> from keras_headattn.analysis import AttentionMaps
    >>> maps = {"first": AttentionMaps(weights=np.full((1, 2, 3, 3), 1 / 3))}
    >>> figure = draw_text_maps(maps, ["a", "b", "c"])
    >>> len(figure.axes)
    1
    """
    check_named("maps", maps)
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

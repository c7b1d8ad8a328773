"""Drawings of attention maps over sentences and images."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._figures import Figure, new_figure, shown, weight_colors
from keras_headattn.analysis._attention_maps import AttentionMaps
from keras_headattn.analysis._validation import check_named

MOST_COLUMNS = 4  # of pictures in a row
PANEL = 1.6  # inches, at least, of the side of a picture of text
COLUMNS = {"weights": "weights", "convolution": "convolution part", "self_attention": "self-attention part"}


def draw_image_maps(
    image: ArrayLike,
    maps: Mapping[str, ArrayLike],
    size: tuple[int, int] | Mapping[str, tuple[int, int]],
    pixel: tuple[int, int] | None = None,
    heads: Sequence[int] | None = None,
    title: str = "What the marked pixel attends to",
) -> Figure:
    """Draws what one pixel attends to, a row for each layer and a column for each head.

    Rows with grids of one size share a colour scale. Heads are counted from 1. Like figures 4 and 7 to 10 of Wang et
    al. 2021, "Evolving attention with residual convolutions". Needs matplotlib.

    Args:
        image: `(H, W, 3)`, floats from 0 to 1 or integers to 255.
        maps: dictionary from row title, such as a layer, to weights `(h, n, n)` of one image.
        size: `(height, width)` of the grid, with `n = height * width`; or a dictionary of these by title.
        pixel: `(row, column)` of the image pixel. Default `None`: the centre.
        heads: indices from 0 of the heads to draw. Default `None`: all.
        title: title of the figure.

    >>> weights = np.full((2, 12, 12), 1 / 12)
    >>> figure = draw_image_maps(np.zeros((6, 8, 3)), {"first": weights}, size=(3, 4))
    >>> [axes.get_title() for axes in figure.axes[:3]]
    ['image', 'head 1', 'head 2']
    """
    check_named("maps", maps)
    image = np.asarray(image)
    if image.ndim != 3:
        raise ValueError(f"`image` must be (height, width, 3). Received: image of shape {image.shape}")
    pixel = (image.shape[0] // 2, image.shape[1] // 2) if pixel is None else pixel
    if not all(0 <= coordinate < limit for coordinate, limit in zip(pixel, image.shape, strict=False)):
        raise ValueError(f"`pixel` must be in the image of {image.shape[:2]} pixels. Received: pixel={pixel}")
    grids = {name: _of_pixel(name, weights, size, pixel, image.shape) for name, weights in maps.items()}
    heads = range(max(map(len, grids.values()))) if heads is None else heads
    figure = new_figure(1.3 * (1 + len(heads)) + 1.5, 1.45 * len(grids) + 0.5, title)
    rows = figure.subplots(len(grids), 1 + len(heads), squeeze=False)
    for row, (name, grid) in zip(rows, grids.items(), strict=True):
        row[0].imshow(image)
        row[0].plot(pixel[1], pixel[0], marker="+", color="red", markersize=8)
        row[0].set_ylabel(name, fontsize=8)
        alike = [other for other in grids.values() if other.shape[1:] == grid.shape[1:]]
        shown = [other[head].ravel() for other in alike for head in heads if head < len(other)]
        _draw_heads(figure, row, image, grid, heads, weight_colors(np.array(shown or [[0]]), "viridis"))
    for axes, name in zip(rows[0], ["image", *(f"head {head + 1}" for head in heads)], strict=True):
        axes.set_title(name, fontsize=8)
    for axes in rows.flat:
        axes.set(xticks=[], yticks=[])
    return figure


def _draw_heads(figure, row, image, grid, heads, colors):
    picture = None
    extent = (-0.5, image.shape[1] - 0.5, image.shape[0] - 0.5, -0.5)
    for axes, head in zip(row[1:], heads, strict=True):
        if head >= len(grid):
            axes.set_axis_off()
        else:
            axes.imshow(image)
            picture = axes.imshow(grid[head], alpha=0.7, interpolation="bilinear", extent=extent, **colors)
    if picture is not None:
        bar = figure.colorbar(picture, ax=row, label="weight", pad=0.02)
        bar.ax.tick_params(labelsize=7)
        bar.locator.set_params(nbins=4)


def _of_pixel(title, weights, size, pixel, shape):
    """Returns the weights `(h, height, width)` of the grid cell that contains the pixel."""
    height, width = size[title] if isinstance(size, dict) else size
    weights = np.asarray(weights)
    if weights.ndim != 3 or weights.shape[-1] != height * width:
        raise ValueError(
            f"`maps` must be (heads, {height * width}, {height * width}) for a grid of {height} x {width}. "
            f"Received: {title!r} of shape {weights.shape}"
        )
    row, column = pixel[0] * height // shape[0], pixel[1] * width // shape[1]
    return weights[:, row * width + column].reshape(-1, height, width)


def draw_text_maps(
    maps: Mapping[str, AttentionMaps],
    tokens: Sequence[str] | Sequence[Sequence[str]],
    sentence: int = 0,
    head: int | None = None,
    title: str | None = None,
) -> Figure:
    """Draws the maps of all heads, layer by layer; or of one head, with the two parts of an evolving-attention map.

    All maps share a colour scale from 0 to 1, or to the largest weight if some are negative. Like figure 11 of Wang et
    al. 2021, "Evolving attention with residual convolutions": the parts are logits, drawn after a softmax. Needs
    matplotlib.

    Args:
        maps: dictionary from layer name to `AttentionMaps`, see `attention_maps`.
        tokens: list of tokens, or two lists, for queries and keys. The maps' surplus is padding and not drawn.
        sentence: index in the batch.
        head: index of the head, or of the `h * h` pairs of heads. Default `None`: all.
        title: title of the figure. Default `None`: the head's number, counted from 1.

    >>> from keras_headattn.analysis import AttentionMaps
    >>> maps = {"first": AttentionMaps(weights=np.full((1, 2, 3, 3), 1 / 3))}
    >>> figure = draw_text_maps(maps, ["a", "b", "c"])
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['first: head 1', 'first: head 2']
    """
    check_named("maps", maps)
    queries, keys = (tokens, tokens) if not tokens or isinstance(tokens[0], str) else tokens
    chosen = sentence, slice(None) if head is None else head, slice(len(queries)), slice(len(keys))
    rows = [row for name, layer in maps.items() for row in _rows_of(name, layer, chosen)]
    columns = max(map(len, rows))
    colors = weight_colors(np.concatenate([part.ravel() for row in rows for part in row.values()]), largest=1)
    if title is None:
        title = "Attention of all heads" if head is None else f"Attention of head {head + 1}"
    cell = max(0.17, PANEL / max(len(keys), len(queries)))  # inches
    left, below = (0.3 + 0.06 * max(map(len, names)) for names in (queries, keys))
    height = len(rows) * (cell * len(queries) + below + 0.35)
    figure = new_figure(left + columns * (cell * len(keys) + 0.15) + 0.9, height + 0.4, title)
    figure.set_layout_engine("compressed")  # squares leave no gaps
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for row_axes, row in zip(grid, rows, strict=True):
        for axes in row_axes[len(row) :]:
            axes.set_axis_off()
        for axes, (name, part) in zip(row_axes, row.items(), strict=False):
            picture = axes.imshow(part, **colors)
            axes.set_title(textwrap.fill(name, max(10, int(cell * len(keys) / 0.06))), fontsize=8)
            axes.set_xticks(range(len(keys)), list(map(shown, keys)), rotation=90, fontsize=7, parse_math=False)
            names = list(map(shown, queries)) if axes is row_axes[0] else [""] * len(queries)
            axes.set_yticks(range(len(queries)), names, fontsize=7, parse_math=False)
        row_axes[0].set_ylabel("query: attends", fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("key: is attended to", fontsize=8)
    figure.colorbar(picture, ax=grid, label="weight", shrink=min(1, 2.5 / height), aspect=15)
    return figure


def _rows_of(name, layer, chosen):
    """Returns a layer's pictures by title, as a list of rows."""
    parts = _parts(layer, chosen)
    if parts["weights"].ndim == 3:
        titled = [(f"{name}: head {head + 1}", weights) for head, weights in enumerate(parts["weights"])]
    else:
        titled = [(f"{name}: {label}", parts[part]) for part, label in COLUMNS.items() if part in parts]
    return [dict(titled[start : start + MOST_COLUMNS]) for start in range(0, len(titled), MOST_COLUMNS)]


def _parts(layer, chosen):
    """Returns the weights, and the softmax of each part, by name."""
    parts = {name: getattr(layer, name) for name in COLUMNS if getattr(layer, name) is not None}
    parts = {name: part.reshape(len(part), -1, *part.shape[-2:]) for name, part in parts.items()}  # pairs of heads, too
    return {
        name: part[chosen] if name == "weights" else _softmax(part[chosen], parts["weights"][chosen] > 0)
        for name, part in parts.items()
    }


def _softmax(logits, allowed):
    exponents = np.where(allowed, np.exp(logits - logits.max(-1, keepdims=True)), 0)
    return exponents / np.maximum(exponents.sum(-1, keepdims=True), 1e-9)

"""Attention maps in TensorBoard."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from keras_headattn._figures import CARD, as_image, new_figure, shown, weight_colors
from keras_headattn._files import Path
from keras_headattn._terminal import columns_of
from keras_headattn._validation import check_positive
from keras_headattn.training._callbacks.writers import WritingCallback

MOST_HEADS = 16
CELL, CHARACTER, BELOW = 0.12, 0.06, 0.75  # inches of a weight, a character, and of what is below the maps
SMALL = 7  # points of tokens


class AttentionImages(WritingCallback):
    """Callback that draws attention maps of sample sentences in TensorBoard.

    An image has a map for each head, at most 16, with queries from top to bottom, keys from left to right, and one
    colour scale from 0 to 1. In maps with negative weights these are red, positive ones blue. Images are listed under
    `maps/` in TensorBoard's Images tab, whose cards show them in their full size up to some 20 tokens.

    Args:
        log_dir: folder of the event files.
        attend: function of the model to a dictionary from an image's name, such as `"sentence 1/layer 2"`, to `(maps,
            queries, keys)`: an array `(num_heads, n, m)` and the lists of tokens. Maps are cut to the tokens.
        every: int, epochs between images. Default 1.

    Raises:
        ValueError: if `every` is no positive integer.
        ImportError: if matplotlib is not installed.

    >>> maps = np.full((2, 2, 3), 1 / 3)
    >>> images = AttentionImages("logs", lambda model: {"cross": (maps, ["ein", "Haus"], ["a", "house", "."])})
    """

    def __init__(
        self,
        log_dir: Path,
        attend: Callable[[keras.Model], Mapping[str, tuple[ArrayLike, Sequence[str], Sequence[str]]]],
        every: int = 1,
    ):
        super().__init__(log_dir)
        self.attend = attend
        self.every = check_positive("every", every)
        new_figure(1, 1)  # fails now, not after an epoch, if matplotlib is missing

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.every:
            return
        with self._writer.as_default():
            for name, (maps, queries, keys) in self.attend(self.model).items():
                title = f"{name.replace('/', ', ')}, epoch {epoch + 1}"
                image = as_image(draw_heads(keras.ops.convert_to_numpy(maps), queries, keys, title))
                tf.summary.image(f"maps/{name}", image[None], step=epoch + 1)
        self._writer.flush()


def draw_heads(maps, queries, keys, title):
    """Draws the maps `(num_heads, n, m)` of a layer, as wide as a card of TensorBoard's if a map is not wider."""
    heads = min(len(maps), MOST_HEADS)
    queries, keys = (list(map(shown, tokens)) for tokens in (queries, keys))
    n, m = len(queries), len(keys)
    left, above = (2 + max(map(columns_of, tokens)) * CHARACTER / CELL for tokens in (queries, keys))
    columns = min(heads, max(1, int((CARD / CELL - left + 1) // (m + 1))))
    rows = -(-heads // columns)
    # One picture for all heads, in cells: subplots take far longer to lay out.
    height, width = math.ceil(n + above + 1), m + 1
    picture = np.full((rows * height, columns * width), np.nan)
    for head in range(heads):
        top, start = _top_left(head, columns, height, n, width)
        picture[top : top + n, start : start + m] = maps[head, :n, :m]
    title += f", the first {heads} of {len(maps)} heads" if heads < len(maps) else ""
    inches = max(CARD, (left + picture.shape[1]) * CELL), len(picture) * CELL
    figure = new_figure(inches[0], inches[1] + BELOW, title, layout=None)
    total = figure.get_size_inches()[1]
    size = picture.shape[1] * CELL / inches[0], inches[1] / total
    axes = figure.add_axes((left * CELL / inches[0], BELOW / total, *size))
    image = axes.imshow(picture, **weight_colors(picture, largest=1))
    for head in range(heads):
        top, start = _top_left(head, columns, height, n, width)
        axes.text(start - 0.5, top - above, f"head {head + 1}", fontsize=8)
        for index, key in enumerate(keys):
            axes.text(start + index, top - 0.8, key, rotation=90, ha="center", fontsize=SMALL, parse_math=False)
    ticks = [(row + 1) * height - n + query for row in range(rows) for query in range(n)]
    axes.set_yticks(ticks, rows * queries, fontsize=SMALL, parse_math=False)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.set_frame_on(False)
    axes.set_ylabel("query: attends", fontsize=8)
    axes.set_xlabel("key: is attended to", fontsize=8)
    bar = figure.colorbar(image, cax=figure.add_axes((0.2, 0.36 / total, 0.6, 0.1 / total)), orientation="horizontal")
    bar.set_label("weight", size=8, labelpad=2)
    bar.ax.tick_params(labelsize=SMALL, pad=1)
    return figure


def _top_left(head, columns, height, n, width):
    """Returns the first row and column of a head's cells."""
    return (head // columns + 1) * height - n, head % columns * width

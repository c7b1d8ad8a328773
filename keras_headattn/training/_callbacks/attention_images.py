"""Attention maps in TensorBoard."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from headattn_io.files import Path
from keras_headattn._figures import as_image, new_figure, shown, weight_colors
from keras_headattn.training._callbacks.writers import WritingCallback

MOST_HEADS, MOST_COLUMNS = 16, 8


class AttentionImages(WritingCallback):
    """Callback that draws attention maps of sample sentences in TensorBoard.

    An image has a square for each head, at most 16, with queries from top to bottom, keys from left to right, and one
    colour scale from 0 to 1. In maps with negative weights these are red, positive ones blue. Images are listed under
    `maps/`.

    Args:
        log_dir: folder of the event files.
        attend: function of the model to a dictionary from an image's name, such as `"sentence 1/layer 2"`, to `(maps,
            queries, keys)`: an array `(num_heads, n, m)` and the lists of tokens. Maps are cut to the tokens.
        every: int, epochs between images. Default 1.

    Raises:
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
        self.every = every
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
    """Draws the maps `(num_heads, n, m)` of a layer."""
    heads = min(len(maps), MOST_HEADS)
    columns = min(heads, MOST_COLUMNS)
    rows = -(-heads // columns)
    n, m = len(queries), len(keys)
    height, width = n + 2, m + 1  # of a square, with its title above and a gap to the right
    # One picture for all heads: subplots take far longer to lay out.
    picture = np.full((rows * height - 1, columns * width - 1), np.nan)
    # In inches: a sixth for each token, plus labels, title and colour bar.
    title += f", the first {heads} of {len(maps)} heads" if heads < len(maps) else ""
    figure = new_figure(max(4.5, 2.4 + picture.shape[1] / 6), 1.3 + picture.shape[0] / 6, title)
    axes = figure.add_subplot()
    for head in range(heads):
        top, left = head // columns * height + 1, head % columns * width
        picture[top : top + n, left : left + m] = maps[head, :n, :m]
        axes.text(left - 0.5, top - 0.7, f"head {head + 1}", fontsize=8)
    image = axes.imshow(picture, **weight_colors(picture, "viridis", largest=1))
    axes.set_xticks(
        [column * width + key for column in range(columns) for key in range(m)],
        columns * list(map(shown, keys)),
        parse_math=False,
    )
    axes.set_yticks(
        [row * height + 1 + query for row in range(rows) for query in range(n)],
        rows * list(map(shown, queries)),
        parse_math=False,
    )
    axes.tick_params(length=0, labelsize=7)
    axes.tick_params("x", rotation=90)
    axes.set_frame_on(False)
    axes.set_xlabel("key: is attended to", fontsize=8)
    axes.set_ylabel("query: attends", fontsize=8)
    figure.colorbar(image, ax=axes, label="weight", shrink=0.8, aspect=12).ax.tick_params(labelsize=7)
    return figure

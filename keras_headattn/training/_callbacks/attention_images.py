"""Attention maps in TensorBoard."""

import io

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._figures import new_figure, weight_colors

MOST_HEADS, MOST_COLUMNS = 16, 8


class AttentionImages(keras.callbacks.Callback):
    """Writes attention maps of sample sentences to TensorBoard, one image a map, one square a head.

    Of more than 16 heads, the first 16 are drawn, and the title says so. Where weights are below 0, as talking
    heads' may be, these are red, and those above blue.

    Args:
        log_dir: Folder of the event files, as for `keras.callbacks.TensorBoard`.
        attend: Function from the model to a dictionary: the name of an image, such as `"0/cross_1"`, to
            `(maps, queries, keys)`, maps of shape (num_heads, n, m) and the lists of query and key tokens. Lists
            may be shorter than n and m: the rest is padding and is not drawn.
        every: Draw after every so many epochs. Defaults to 1.

    Raises:
        ImportError: if matplotlib is not installed.

    Example:

    >>> import numpy as np
    >>> maps = np.full((2, 2, 3), 1 / 3)
    >>> images = AttentionImages("logs", lambda model: {"0/cross_0": (maps, ["ein", "Haus"], ["a", "house", "."])})
    """

    def __init__(self, log_dir, attend, every=1):
        super().__init__()
        self.log_dir = log_dir
        self.attend = attend
        self.every = every
        new_figure(1, 1)  # matplotlib is missed now rather than after an epoch

    def on_train_begin(self, logs=None):
        self._writer = tf.summary.create_file_writer(str(self.log_dir))

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        with self._writer.as_default():
            for name, (maps, queries, keys) in self.attend(self.model).items():
                image = _draw(keras.ops.convert_to_numpy(maps), queries, keys)
                tf.summary.image(f"attention/{name}", image[None], step=epoch)
        self._writer.flush()

    def on_train_end(self, logs=None):
        self._writer.close()


def _draw(maps, queries, keys):
    """Maps (num_heads, n, m) and their tokens -> an image (height, width, 4) of bytes."""
    heads = min(len(maps), MOST_HEADS)
    columns = min(heads, MOST_COLUMNS)
    rows = -(-heads // columns)
    n, m = len(queries), len(keys)
    height, width = n + 2, m + 1  # of a square, with its title above and a gap to the right
    # All squares are one picture: a subplot for each takes far longer to lay out.
    picture = np.full((rows * height, columns * width - 1), np.nan)
    # Inches: a sixth for every token, and room for the names of tokens.
    figure = new_figure(1 + picture.shape[1] / 6, 1 + picture.shape[0] / 6)
    axes = figure.add_subplot()
    for head in range(heads):
        top, left = head // columns * height + 2, head % columns * width
        picture[top : top + n, left : left + m] = maps[head, :n, :m]
        axes.text(left - 0.5, top - 0.7, f"head {head}", fontsize=8)
    axes.imshow(picture, **weight_colors(picture, "viridis", largest=1))
    axes.set_xticks([column * width + key for column in range(columns) for key in range(m)], columns * list(keys))
    axes.set_yticks([row * height + 2 + query for row in range(rows) for query in range(n)], rows * list(queries))
    axes.tick_params(length=0, labelsize=7)
    axes.tick_params("x", rotation=90)
    axes.set_frame_on(False)
    if heads < len(maps):
        axes.set_title(f"the first {heads} of {len(maps)} heads", fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return tf.image.decode_png(buffer.getvalue(), channels=4).numpy()

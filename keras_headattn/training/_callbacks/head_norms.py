"""Norms of heads' weights in TensorBoard."""

import collections
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._figures import CARD, as_image, new_figure, short_names
from keras_headattn._files import Path
from keras_headattn._private import flatten_layers
from keras_headattn.layers import MixtureOfHeadsAttention
from keras_headattn.optimizers._heads import head_kernels
from keras_headattn.training._callbacks.writers import WritingCallback

LEAST = 10  # percent, smallest end of the colour scale; a new model's heads differ by a few


class HeadNorms(WritingCallback):
    """Callback that draws the norms of heads' weights in TensorBoard as `head_norms`.

    The image has a row for each kernel with heads, of this library's or Keras's layers, and a column for each head: how
    far the Frobenius norm of its weights is from the row's mean, in percent. Heads that fade away turn bluer. For
    `MixtureOfHeadsAttention` a second image, `head_load`, shows the shares of tokens that keep each routed head.

    Args:
        log_dir: folder of the event files.

    Raises:
        ImportError: if matplotlib is not installed.

    >>> norms = HeadNorms("logs")
    """

    def __init__(self, log_dir: Path):
        super().__init__(log_dir)
        new_figure(1, 1)  # fails now, not after an epoch, if matplotlib is missing

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        attentions = [each for each in flatten_layers(self.model) if isinstance(each, MixtureOfHeadsAttention)]
        loads = {each.path: keras.ops.convert_to_numpy(each.head_load) for each in attentions if each.routed_heads}
        self._write("head_norms", head_norms(self.model), f"Norms of the weights of heads, epoch {epoch + 1}", epoch)
        self._write("head_load", loads, f"Load of routed heads, epoch {epoch + 1}", epoch, "load")

    def _write(self, tag, rows, title, epoch, *measure):
        if rows:
            with self._writer.as_default():
                tf.summary.image(tag, as_image(draw_norms(rows, title, *measure))[None], step=epoch + 1)
            self._writer.flush()


def draw_norms(norms, title, measure="norm"):
    most = max(map(len, norms.values()))
    means = [float(row.mean()) for row in norms.values()]
    parts = [row / max(mean, 1e-12) - 1 for row, mean in zip(norms.values(), means, strict=True)]
    picture = 100 * np.array([np.pad(row, (0, most - len(row)), constant_values=np.nan) for row in parts])
    names = [f"{name} {mean:.2f}" for name, mean in zip(short_names(norms), means, strict=True)]
    end = max(LEAST, float(np.nanmax(np.abs(picture))))
    figure = new_figure(max(CARD, 0.045 * max(map(len, names)) + 0.1 * most + 0.4), 1.1 + 0.15 * len(norms), title)
    axes = figure.add_subplot()
    image = axes.imshow(picture, vmin=-end, vmax=end, cmap="RdBu_r", aspect="auto")
    heads = range(0, most, -(-most // 32))
    axes.set_xticks(heads, [head + 1 for head in heads], fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_xlabel("head", fontsize=8)
    axes.set_ylabel(f"kernel and its mean {measure}", fontsize=8)
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", aspect=40)
    bar.set_label(f"{measure}, % above mean", size=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def head_norms(model):
    """Returns norms `(num_heads,)` by the path of each projection; equal paths get suffixes `_1`, `_2`, ...

    >>> inputs = keras.Input((None, 8))
    >>> model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4, name="attention")(inputs, inputs))
    >>> {name: norms.shape for name, norms in head_norms(model).items()}["attention/query"]
    (2,)
    """
    norms, times = {}, collections.Counter()
    for head_kernel in head_kernels(model.weights):
        path = f"{head_kernel.layer}/{head_kernel.projection}"
        name = f"{path}_{times[path]}" if times[path] else path
        times[path] += 1
        kernel = np.moveaxis(keras.ops.convert_to_numpy(head_kernel.variable).astype("float32"), head_kernel.axis, 0)
        norms[name] = np.sqrt(np.sum(kernel.reshape(len(kernel), -1) ** 2, axis=1))
    return norms

"""Statistics of heads in TensorBoard."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._figures import CARD, as_image, new_figure, short_names, write_figure
from keras_headattn._files import Path
from keras_headattn._paths import by_path
from keras_headattn._private import flatten_layers
from keras_headattn.analysis import draw_head_statistics, head_statistics
from keras_headattn.layers import MixtureOfHeadsAttention
from keras_headattn.optimizers._heads import head_kernels
from keras_headattn.training._callbacks.writers import WritingCallback

LOW = 2.6  # inches that the names of the axes take
LEAST = 10  # percent, smallest end of the colour scale; a new model's heads differ by a few


class HeadStatistics(WritingCallback):
    """Callback that draws what each head does in TensorBoard, after each epoch.

    - `head_statistics`: attention to the first token, entropy, redundancy and effective rank, see
      `analysis.head_statistics`, with a row for each layer and a column for each head.
    - `head_norms`: how far the Frobenius norm of a head's part of each kernel is from the row's mean, in percent. Heads
      that fade away turn bluer.
    - `head_load`: for `MixtureOfHeadsAttention`, the shares of tokens that keep each routed head.

    Layers are this library's or Keras's.

    Args:
        log_dir: folder of the event files.
        attend: function of the model to the maps of `analysis.head_statistics`, of the same sample in each epoch.
            Default `None`: no `head_statistics`.
        picture: path of a PNG of `head_statistics` after the last epoch so far. Default `None`: none.

    Raises:
        ValueError: for a `picture` without `attend`.
        ImportError: if matplotlib is not installed.

    >>> from keras_headattn.analysis import attention_maps
    >>> sample = np.ones((2, 5, 8))
    >>> statistics = HeadStatistics("logs", lambda model: attention_maps(model, sample))
    """

    def __init__(
        self,
        log_dir: Path,
        attend: Callable[[keras.Model], Mapping[str, Any]] | None = None,
        picture: Path | None = None,
    ):
        super().__init__(log_dir)
        if picture is not None and attend is None:
            raise ValueError(f"`picture` needs `attend`, which gives the maps. Received: picture={picture!r}")
        self.attend = attend
        self.picture = picture
        new_figure(1, 1)  # fails now, not after an epoch, if matplotlib is missing

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        mixtures = [layer for layer in flatten_layers(self.model) if isinstance(layer, MixtureOfHeadsAttention)]
        routed = [layer for layer in mixtures if layer.routed_heads]
        loads = by_path((layer.path, keras.ops.convert_to_numpy(layer.head_load)) for layer in routed)
        norms, step = head_norms(self.model), f"epoch {epoch + 1}"
        figures = {}
        if norms:
            figures["head_norms"] = draw_norms(norms, f"Norms of the weights of heads, {step}")
        if loads:
            figures["head_load"] = draw_norms(loads, f"Load of routed heads, {step}", "load")
        if self.attend is not None:
            statistics = head_statistics(self.attend(self.model))
            figures["head_statistics"] = draw_head_statistics(statistics, f"What heads attend to, {step}")
            if self.picture is not None:
                write_figure(self.picture, figures["head_statistics"])
        with self._writer.as_default():
            for tag, figure in figures.items():
                tf.summary.image(tag, as_image(figure)[None], step=epoch + 1)
        self._writer.flush()


def draw_norms(norms, title, measure="norm"):
    most = max(map(len, norms.values()))
    means = [float(row.mean()) for row in norms.values()]
    parts = [row / max(mean, 1e-12) - 1 for row, mean in zip(norms.values(), means, strict=True)]
    picture = 100 * np.array([np.pad(row, (0, most - len(row)), constant_values=np.nan) for row in parts])
    names = [f"{name} {mean:.2f}" for name, mean in zip(short_names(norms), means, strict=True)]
    end = max(LEAST, float(np.nanmax(np.abs(picture))))
    width, height = 0.045 * max(map(len, names)) + 0.1 * most + 0.4, 1.1 + 0.15 * len(norms)
    figure = new_figure(max(CARD, width), max(LOW, height), title)
    axes = figure.add_subplot()
    image = axes.imshow(picture, vmin=-end, vmax=end, cmap="RdBu_r", aspect="auto")
    heads = range(0, most, -(-most // 32))
    axes.set_xticks(heads, [head + 1 for head in heads], fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_xlabel("head", fontsize=8)
    axes.set_ylabel(f"kernel and its mean {measure}", fontsize=8)
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", aspect=40)
    bar.set_label(f"{measure}, % above mean", size=8, loc="right")  # few heads are narrower than it
    bar.ax.tick_params(labelsize=7)
    return figure


def head_norms(model):
    """Returns norms `(num_heads,)` by the path of each projection; equal paths get suffixes `_1`, `_2`, ...

    >>> inputs = keras.Input((None, 8))
    >>> model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4, name="attention")(inputs, inputs))
    >>> {name: norms.shape for name, norms in head_norms(model).items()}["attention/query"]
    (2,)
    """
    norms = []
    for head_kernel in head_kernels(model.weights):
        kernel = np.moveaxis(keras.ops.convert_to_numpy(head_kernel.variable).astype("float32"), head_kernel.axis, 0)
        of_heads = np.sqrt(np.sum(kernel.reshape(len(kernel), -1) ** 2, axis=1))
        norms.append((f"{head_kernel.layer}/{head_kernel.projection}", of_heads))
    return by_path(norms)

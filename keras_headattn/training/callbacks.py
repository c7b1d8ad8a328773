"""Callbacks that Keras lacks.

Keras's own `TensorBoard` writes losses, metrics and the learning rate; TensorBoard's
`tensorboard.plugins.hparams.api.KerasCallback` writes hyperparameters.

A callback here that adds to the logs comes before those that read them (`EarlyStopping`, `ModelCheckpoint`,
`TensorBoard`) in `fit(callbacks=[...])`.
"""

import dataclasses
import io
import time

import keras
import tensorflow as tf


class Throughput(keras.callbacks.Callback):
    """Adds `tokens_per_second` to the logs of an epoch: target tokens over the time spent in training steps.

    Validation does not count; compilation, mostly in the first epoch, does. Of an epoch that `Resume` goes on
    with, the rest counts.

    Args:
        tokens: Function of no arguments: how many target tokens the epoch just trained on has.

    Example:

    >>> throughput = Throughput(lambda: 120_000)
    """

    def __init__(self, tokens):
        super().__init__()
        self.tokens = tokens

    def on_epoch_begin(self, epoch, logs=None):
        self._steps = _Steps()

    def on_train_batch_begin(self, batch, logs=None):
        if self._steps.first is None:
            self._steps.first, self._steps.begin = batch, time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self._steps.done, self._steps.end = batch + 1, time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        steps = self._steps
        if steps.first is not None:  # else the epoch was trained before an interruption
            share = 1 - steps.first / steps.done
            logs["tokens_per_second"] = share * self.tokens() / max(steps.end - steps.begin, 1e-9)


@dataclasses.dataclass
class _Steps:
    """The steps of an epoch in this process. `Resume` remembers plain data only, and so not this clock."""

    first: int | None = None
    begin: float = 0.0
    done: int = 0
    end: float = 0.0


class TimeLimit(keras.callbacks.Callback):
    """Ends training after the epoch beyond which another one, as long as those so far, would pass the limit.

    No epoch is cut short, and at least one is trained.

    Args:
        seconds: From the start of `fit`.

    Example:

    >>> one_hour = TimeLimit(3600)
    """

    def __init__(self, seconds):
        super().__init__()
        if seconds <= 0:
            raise ValueError(f"`seconds` must be positive. Received: seconds={seconds}")
        self.seconds = seconds

    def on_train_begin(self, logs=None):
        self._begin = time.monotonic()
        self._epochs = 0

    def on_epoch_end(self, epoch, logs=None):
        self._epochs += 1
        elapsed = time.monotonic() - self._begin
        if elapsed + elapsed / self._epochs > self.seconds:
            self.model.stop_training = True


class EpochScore(keras.callbacks.Callback):
    """Adds a score of the whole model to the logs of an epoch, such as BLEU on the validation set.

    Args:
        score: Function from the model to a number.
        name: Its name in the logs. Defaults to `"val_bleu"`. `EarlyStopping(monitor="val_bleu", mode="max")`
        reads it.

    Example:

    >>> bleu = EpochScore(lambda model: 27.3, name="val_bleu")
    """

    def __init__(self, score, name="val_bleu"):
        super().__init__()
        self.score = score
        self.name = name

    def on_epoch_end(self, epoch, logs=None):
        logs[self.name] = float(self.score(self.model))


MOST_HEADS, MOST_COLUMNS = 16, 8


class AttentionImages(keras.callbacks.Callback):
    """Writes attention maps of sample sentences to TensorBoard, one image a sentence, one square a head.

    Of more than 16 heads, the first 16 are drawn, and the title says so.

    Args:
        log_dir: Folder of the event files, as for `keras.callbacks.TensorBoard`.
        attend: Function from the model to `(maps, queries, keys)`: maps of shape (B, num_heads, n, m), and
            for each of the B sentences the list of its query tokens and of its key tokens. Lists may be
            shorter than n and m: the rest is padding and is not drawn.
        every: Draw after each this many epochs. Defaults to 1.

    Raises:
        ImportError: if matplotlib is not installed.

    Example:

    >>> import numpy as np
    >>> maps = np.full((1, 2, 2, 3), 1 / 3)
    >>> images = AttentionImages("logs", lambda model: (maps, [["ein", "Haus"]], [["a", "house", "."]]))
    """

    def __init__(self, log_dir, attend, every=1):
        super().__init__()
        self.log_dir = log_dir
        self.attend = attend
        self.every = every
        _figure(1, 1)  # matplotlib is missed now rather than after an epoch

    def on_train_begin(self, logs=None):
        self._writer = tf.summary.create_file_writer(str(self.log_dir))

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        maps, queries, keys = self.attend(self.model)
        with self._writer.as_default():
            maps = keras.ops.convert_to_numpy(maps)
            for index, sentence in enumerate(zip(maps, queries, keys, strict=True)):
                tf.summary.image(f"attention/{index}", _draw(*sentence)[None], step=epoch)
        self._writer.flush()

    def on_train_end(self, logs=None):
        self._writer.close()


def _figure(width, height):
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Install matplotlib: pip install "keras_headattn[recipes]"') from error
    return Figure((width, height), layout="constrained")


def _draw(maps, queries, keys):
    """Maps (num_heads, n, m) and their tokens -> an image (height, width, 4) of bytes."""
    # Inches: a fifth for every token leaves room for its name.
    side = 1 + 0.2 * max(len(queries), len(keys))
    heads = min(len(maps), MOST_HEADS)
    columns = min(heads, MOST_COLUMNS)
    rows = -(-heads // columns)
    figure = _figure(side * columns, side * rows)
    if heads < len(maps):
        figure.suptitle(f"the first {heads} of {len(maps)} heads")
    for head in range(heads):
        axes = figure.add_subplot(rows, columns, head + 1)
        axes.imshow(maps[head, : len(queries), : len(keys)], vmin=0, vmax=1, cmap="viridis")
        axes.set_title(f"head {head}", fontsize=8)
        axes.set_xticks(range(len(keys)), keys, rotation=90, fontsize=7)
        axes.set_yticks(range(len(queries)), queries, fontsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return tf.image.decode_png(buffer.getvalue(), channels=4).numpy()

"""Event writers shared by callbacks."""

import weakref
from typing import Any

import keras
import tensorflow as tf

from keras_headattn._files import Path

_WRITERS = weakref.WeakValueDictionary()  # by folder, while a callback holds them


def shared_writer(log_dir):
    """Returns a folder's event writer: TensorBoard without its fast data server follows one file in a folder."""
    writer = _WRITERS.get(str(log_dir))
    if writer is None:
        writer = _WRITERS[str(log_dir)] = tf.summary.create_file_writer(str(log_dir))
    return writer


class WritingCallback(keras.callbacks.Callback):
    """Callback with a writer, `self._writer`, while `fit` runs."""

    def __init__(self, log_dir: Path):
        super().__init__()
        self.log_dir = str(log_dir)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._writer = shared_writer(self.log_dir)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._writer.flush()
        self._writer = None

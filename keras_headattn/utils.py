"""Helpers for programs around a model: layers at any depth, weight files, and figures."""

import keras

from keras_headattn._figures import new_figure, not_below_zero, weight_colors
from keras_headattn._files import Path, write_atomically
from keras_headattn._private import flatten_layers, weights_file

__all__ = ["flatten_layers", "new_figure", "not_below_zero", "save_weights", "weight_colors"]


def save_weights(model: keras.Model, path: Path) -> None:
    """Writes a model's weights as `model.save_weights` does, but completely or not at all.

    On a full disk, `model.save_weights` would end the process.

    Args:
        model: built `keras.Model`.
        path: path that ends in `.weights.h5`. Its folder is created.

    Raises:
        OSError: if the file cannot be written; an earlier file is kept.

    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> save_weights(model, "model.weights.h5")
    >>> model.load_weights("model.weights.h5")
    """
    write_atomically(path, weights_file(model))

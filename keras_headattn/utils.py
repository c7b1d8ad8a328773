"""Helpers for programs around a model: layers of all depths, weights on disk, and figures."""

import keras

from headattn_io.files import Path, write_atomically
from keras_headattn._figures import new_figure, not_below_zero, weight_colors
from keras_headattn._private import flatten_layers, weights_file

__all__ = ["flatten_layers", "new_figure", "not_below_zero", "save_weights", "weight_colors"]


def save_weights(model: keras.Model, path: Path) -> None:
    """Writes the weights of a model as `model.save_weights` does, but in full or not at all.

    A full disk is an error here. `model.save_weights` then ends the process.

    Args:
        model: `keras.Model` that is built.
        path: str or path, which ends in `.weights.h5`. Its folder is created if need be.

    Raises:
        OSError: if the file cannot be written. What was there before is left as it is.

    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> save_weights(model, "model.weights.h5")
    >>> model.load_weights("model.weights.h5")
    """
    write_atomically(path, weights_file(model))

"""Average of checkpoints."""

import pathlib
from collections.abc import Sequence

import keras

from keras_headattn._files import Path


def average_weights(model: keras.Model, paths: Sequence[Path]) -> None:
    """Sets the model's weights to their mean over several files, summed in float64.

    Integer weights, such as counts, are the last file's.

    Args:
        model: built Keras model.
        paths: files written by `save_weights`, `.weights.h5`.

    Raises:
        ValueError: if `paths` is empty.
        FileNotFoundError: if a file is missing; the model keeps its weights.

    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> for value in (1.0, 2.0):
    ...     model.set_weights([np.full((1, 1), value), np.zeros(1)])
    ...     model.save_weights(f"{value}.weights.h5")
    >>> average_weights(model, ["1.0.weights.h5", "2.0.weights.h5"])
    >>> float(model.get_weights()[0][0, 0])
    1.5
    """
    files = [pathlib.Path(path) for path in paths]
    if not files:
        raise ValueError("`paths` must name at least one file of weights. Received: none")
    if missing := [str(path) for path in files if not path.is_file()]:
        raise FileNotFoundError(f"`paths` must be existing files. Received: {', '.join(missing)}")
    floats = [weight for weight in model.weights if keras.backend.is_float_dtype(weight.dtype)]
    totals = [0.0] * len(floats)
    for path in files:
        model.load_weights(path)
        for index, weight in enumerate(floats):
            totals[index] += keras.ops.convert_to_numpy(weight).astype("float64")
    for weight, total in zip(floats, totals, strict=True):
        weight.assign(total / len(files))

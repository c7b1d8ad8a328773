"""Every class on the backend of this process."""

import warnings

import keras
import numpy as np

from tests.positions.cases import ALL, array, built, heads


def results(name):
    """Name to array."""
    positions, x = built(name), heads(dtype="float32")
    places, out = np.array([3, 0, 30, 7, 4, 2]), {}
    out["rows"] = positions.rotate(x, places)
    out["half"] = positions.rotate(keras.ops.cast(x, "bfloat16"), places)
    if positions.has_bias:
        out["bias"] = positions.bias(x, places, np.arange(6))
        out["half_bias"] = positions.bias(keras.ops.cast(x, "bfloat16"), places, np.arange(6, dtype="int32"))
    return out


def everything(folder):
    """All results of all classes; an exception becomes the result `name/error`, and so does a warning of Keras's."""
    out = {}
    for name in ALL:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                found = results(name)
            out |= {f"{name}/{key}": array(keras.ops.convert_to_tensor(value)) for key, value in found.items()}
        except Exception as error:  # so that the others are still compared
            out[f"{name}/error"] = np.array(f"{type(error).__name__}: {error}")
    return out

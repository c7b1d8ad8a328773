"""Multi-head attention for Keras whose heads work together.

The import registers all classes with `keras.saving.load_model`; on JAX and PyTorch, those of `text` and `training`,
which need TensorFlow, are registered when these modules are used.
"""

from typing import TYPE_CHECKING

import keras

from keras_headattn import (
    analysis,
    decoding,
    interop,
    layers,
    losses,
    metrics,
    models,
    ops,
    optimizers,
    positions,
    regularizers,
    utils,
)
from keras_headattn._optional import optional_import

if TYPE_CHECKING or keras.backend.backend() == "tensorflow":
    from keras_headattn import data, serving, text, training
else:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return optional_import(f"{__name__}.{name}")


__version__ = "0.1.0"

__all__ = [
    "analysis",
    "data",
    "decoding",
    "interop",
    "layers",
    "losses",
    "metrics",
    "models",
    "ops",
    "optimizers",
    "positions",
    "regularizers",
    "serving",
    "text",
    "training",
    "utils",
]

"""Multi-head attention for Keras whose heads work together.

Every room, such as `keras_headattn.layers`, is imported when it is first used. `keras.saving.load_model` knows all
classes of this library as soon as the library is imported.
"""

import importlib

from keras_headattn import _registration

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
]

_registration.register()


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__():
    return __all__

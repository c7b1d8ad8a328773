"""Recomputation of layers and models that were made in a `keras.RematScope`."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import keras

from keras_headattn._private import flatten_layers, forget_remat, remat_mode

SCOPES = "full", "larger_than"  # of all layers and operations in them; the others are of some


def rematerialize_layers(layer: Any, layer_call: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Leaves the recomputation to the layers of this library inside `layer`, as its `rematerialized_call`.

    A whole model would save nothing. Stock layers save little, and fail in TensorFlow's graphs.
    """
    mode = remat_mode(layer)
    if mode is not None and mode.mode in SCOPES:
        forget_remat(inner for inner in flatten_layers(layer)[1:] if not _is_ours(inner))

    def call(*args, **kwargs):
        with _inner_scope(layer):
            return layer_call(*args, **kwargs)

    return call


def symbolic_call(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a layer with symbolic tensors, in the same way."""
    return rematerialize_layers(layer, functools.partial(keras.layers.Layer.symbolic_call, layer))(*args, **kwargs)


def _is_ours(layer):
    return type(layer).symbolic_call is symbolic_call


def _inner_scope(layer):
    """Returns a scope for operations of a layer, which would recompute themselves."""
    mode = remat_mode(layer)
    return contextlib.nullcontext() if mode is None or mode.mode not in SCOPES else keras.RematScope(mode=None)

"""Layers and models made in a `keras.RematScope`."""

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from keras_headattn._private import flatten_layers, forget_remat, remat_mode
from keras_headattn._recompute import recompute
from keras_headattn.layers._intermediates import is_capturing

SCOPES = "full", "larger_than"  # of all layers and operations in them; the others are of some


class Rematerialized(keras.layers.Layer):
    """Layer that a `keras.RematScope` recomputes as a whole, with masks, flags and dropout.

    The function of `keras.remat` has no keyword arguments in TensorFlow's graphs, and no flags on JAX. Layers inside a
    recomputed layer are not recomputed again.
    """

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        return symbolic_call(self, *args, **kwargs)

    def rematerialized_call(self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode = remat_mode(self)
        if mode is None or mode.mode not in (*SCOPES, "list_of_layers"):
            return super().rematerialized_call(layer_call, *args, **kwargs)
        call = rematerialize_layers(self, layer_call)
        if not _applies(self, mode, args, kwargs):
            return call
        forget_remat(flatten_layers(self)[1:])
        return lambda *args, **kwargs: _recomputed(self, call, [args, kwargs])


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
    return isinstance(layer, Rematerialized) or type(layer).rematerialized_call is rematerialize_layers


def _inner_scope(layer):
    """Returns a scope for operations of a layer, which would recompute themselves."""
    mode = remat_mode(layer)
    return contextlib.nullcontext() if mode is None or mode.mode not in SCOPES else keras.RematScope(mode=None)


def _applies(layer, mode, args, kwargs):
    if kwargs.get("training") is False or kwargs.get("cache") is not None or is_capturing():
        return False
    if mode.mode == "larger_than":
        return _output_size(layer, args, kwargs) > mode.output_size_threshold
    return mode.mode == "full" or layer.name in mode.layer_names


def _output_size(layer, args, kwargs):
    """Returns the number of elements of all outputs, for which unknown sizes count as 1, as in Keras."""

    def symbolic(x):
        return keras.KerasTensor(x.shape, keras.backend.standardize_dtype(x.dtype)) if ops.is_tensor(x) else x

    outputs = layer.compute_output_spec(*tree.map_structure(symbolic, args), **tree.map_structure(symbolic, kwargs))
    return sum(math.prod(size or 1 for size in x.shape) for x in tree.flatten(outputs) if hasattr(x, "shape"))


def _recomputed(layer, call, arguments):
    """Calls `call(*args, **kwargs)`, for which the backward pass keeps no more than the tensors of `arguments`."""
    flat = tree.flatten(arguments)
    places = [place for place, x in enumerate(flat) if ops.is_tensor(x)]

    def run(tensors):
        given = dict(zip(places, tensors, strict=True))
        args, kwargs = tree.pack_sequence_as(arguments, [given.get(place, x) for place, x in enumerate(flat)])
        return call(*args, **kwargs)

    return recompute(layer, run, [flat[place] for place in places])

"""Layers made in a `keras.RematScope`."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from keras_headattn._private import flatten_layers, forget_remat, remat_mode
from keras_headattn._recompute import recompute
from keras_headattn._remat_scope import SCOPES, rematerialize_layers, symbolic_call
from keras_headattn.layers._intermediates import is_capturing


class Rematerialized(keras.layers.Layer):
    """Layer that a `keras.RematScope` recomputes as a whole, with masks, flags and dropout.

    The function of `keras.remat` has no keyword arguments in TensorFlow's graphs, and no flags on JAX. Layers inside a
    recomputed layer are not recomputed again.
    """

    symbolic_call = symbolic_call

    def rematerialized_call(self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode = remat_mode(self)
        if mode is None or mode.mode not in (*SCOPES, "list_of_layers"):
            return super().rematerialized_call(layer_call, *args, **kwargs)
        call = rematerialize_layers(self, layer_call)
        if not _applies(self, mode, args, kwargs):
            return call
        forget_remat(flatten_layers(self)[1:])
        return lambda *args, **kwargs: _recomputed(self, call, [args, kwargs])


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
    indices = [index for index, x in enumerate(flat) if ops.is_tensor(x)]

    def run(tensors):
        replacements = dict(zip(indices, tensors, strict=True))
        args, kwargs = tree.pack_sequence_as(arguments, [replacements.get(index, x) for index, x in enumerate(flat)])
        return call(*args, **kwargs)

    return recompute(layer, run, [flat[index] for index in indices])

import contextlib
import dataclasses
from typing import Any

import keras
import numpy as np

from keras_headattn._paths import by_path
from keras_headattn._private import flatten_layers
from keras_headattn.layers import Attention
from keras_headattn.layers._intermediates import capture_by_layer, record

OF_KERAS = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention


@dataclasses.dataclass
class AttentionMaps:
    """Maps of one attention layer in one call, as float32 NumPy arrays; `None` if the layer has no such map.

    Attributes:
        weights: `(B, h, n, m)`, or `(B, h, h, n, m)` for heads in pairs.
        logits: `(B, h, n, m)`, before the softmax, in layers that carry scores from block to block.
        self_attention: `(B, h, n, m)` of `EvolvingAttention`: the logits to convolve, the block's own combined with the
            previous block's; 0 where masked.
        convolution: `(B, h, n, m)` of `EvolvingAttention`: output of the convolution after ReLU. `logits` are
            `beta * convolution + (1 - beta) * self_attention`.
        queries: `(B, h, n, key_dim)`.
        posteriors: `(B, h, n, C)` of `DisentangledMaskAttention`: cluster probabilities of the queries' tokens.
        key_posteriors: `(B, h, m, C)`: the same for the keys' tokens.
    """

    weights: np.ndarray
    logits: np.ndarray | None = None
    self_attention: np.ndarray | None = None
    convolution: np.ndarray | None = None
    queries: np.ndarray | None = None
    posteriors: np.ndarray | None = None
    key_posteriors: np.ndarray | None = None


def attention_maps(
    model: keras.Model | keras.layers.Layer, *inputs: Any, **call_arguments: Any
) -> dict[str, AttentionMaps]:
    """Runs a model once and returns the maps of its attention layers.

    Args:
        model: model or layer that contains attention layers of this library, or Keras's `MultiHeadAttention` or
            `GroupQueryAttention`, which have `weights` alone.
        *inputs, **call_arguments: arguments of the call.

    Returns:
        Dictionary from layer path to `AttentionMaps`, in call order; repeated paths end in `_1`, `_2`, ... A layer
        called more than once has its last maps.

    Raises:
        ValueError: if the model has no attention layer or is not built.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> x = keras.Input((5, 16))
    >>> model = keras.Model(x, MultiHeadAttention(num_heads=4, key_dim=4, name="attention")(x, x))
    >>> maps = attention_maps(model, np.zeros((2, 5, 16)))
    >>> maps["attention"].weights.shape
    (2, 4, 5, 5)
    """
    kinds = Attention, *OF_KERAS
    layers = by_path((layer.path, layer) for layer in flatten_layers(model) if isinstance(layer, kinds))
    if not layers:
        raise ValueError(
            "`model` must have an attention layer of keras_headattn or Keras, and be built: call it first. "
            f"Received: model={model}"
        )
    with capture_by_layer() as captured, contextlib.ExitStack() as stack:
        for layer in layers.values():
            if isinstance(layer, OF_KERAS):
                stack.enter_context(_recorded(layer))
        model(*inputs, **call_arguments)
    paths = {id(layer): path for path, layer in layers.items()}
    tensors = ((captured.layers[name], tensors) for name, tensors in captured.tensors.items())
    return {paths[id(layer)]: _maps(layer, maps) for layer, maps in tensors if id(layer) in paths}


@contextlib.contextmanager
def _recorded(layer):
    """Lets one of Keras's layers record its weights."""

    def call(*args, return_attention_scores=False, **arguments):
        output, weights = type(layer).call(layer, *args, return_attention_scores=True, **arguments)
        record(layer, weights=weights)
        return (output, weights) if return_attention_scores else output

    object.__setattr__(layer, "call", call)
    try:
        yield
    finally:
        object.__delattr__(layer, "call")


def _maps(layer, tensors):
    names = {field.name for field in dataclasses.fields(AttentionMaps)}
    if not getattr(layer, "carries_logits", False):
        names.remove("logits")
    arrays = {
        name: keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))
        for name, tensor in tensors.items()
        if name in names
    }
    return AttentionMaps(**arrays)

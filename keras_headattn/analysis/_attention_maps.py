"""The maps of all attention layers in a model, from one run."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_headattn._private import flatten_layers
from keras_headattn.layers import Attention, capture_intermediates


@dataclasses.dataclass
class AttentionMaps:
    """Maps of one attention layer in one call, as float32 NumPy arrays.

    Attributes:
        weights: `(B, h, n, m)`, or `(B, h, h, n, m)` of heads in pairs.
        logits: of the map that `weights` are the softmax of, `(B, h, n, m)`, in layers that carry a map from block
            to block; else `None`.
        self_attention: of `EvolvingAttention`, `(B, h, n, m)`: the logits that are convolved, own ones and those of
            the block before, 0 where the mask forbids. `None` where nothing is convolved.
        convolution: of `EvolvingAttention`, `(B, h, n, m)`: what the convolution makes of them, after ReLU.
            `logits` are `beta * convolution + (1 - beta) * self_attention`.
        queries: `(B, h, n, key_dim)`.
        posteriors: of `DisentangledMaskAttention`, `(B, h, n, C)`: in which cluster each token is.
        key_posteriors: the same of what it attends to, `(B, h, m, C)`.
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
        model: any Keras model, or layer, with attention layers of this library in it.
        *inputs, **call_arguments: what it is called with.

    Returns:
        Dictionary of a layer's path to its `AttentionMaps`, in the order of the calls. A layer that is called more
        than once has its last.

    Raises:
        ValueError: if there is no attention layer in the model.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> x = keras.Input((5, 16))
    >>> model = keras.Model(x, MultiHeadAttention(num_heads=4, key_dim=4, name="attention")(x, x))
    >>> maps = attention_maps(model, np.zeros((2, 5, 16)))
    >>> maps["attention"].weights.shape
    (2, 4, 5, 5)
    """
    layers = {layer.path: layer for layer in flatten_layers(model) if isinstance(layer, Attention)}
    if not layers:
        raise ValueError(
            "There is no attention layer of keras_headattn in the model, or it is not built: call it first. "
            f"Received: {model}"
        )
    with capture_intermediates() as found:
        model(*inputs, **call_arguments)
    return {path: _maps(layers[path], tensors) for path, tensors in found.items() if path in layers}


def _maps(layer, tensors):
    names = {field.name for field in dataclasses.fields(AttentionMaps)}
    if not layer.carries_scores:
        names.remove("logits")
    arrays = {
        name: keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))
        for name, tensor in tensors.items()
        if name in names
    }
    return AttentionMaps(**arrays)

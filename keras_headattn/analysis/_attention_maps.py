"""The maps of all attention layers in a model, as it runs."""

import contextlib
import dataclasses

import keras
import numpy as np

from keras_headattn.layers._attention import Attention
from keras_headattn.layers._disentangled_mask_attention import DisentangledMaskAttention


@dataclasses.dataclass
class AttentionMaps:
    """Maps of one attention layer in one call, as float32 NumPy arrays.

    Attributes:
        weights: `(B, h, n, m)`, or `(B, h, h, n, m)` of heads in pairs.
        logits: of the map that `weights` are the softmax of, `(B, h, n, m)`, in layers that carry a map from block
            to block; else `None`.
        self_attention: of `EvolvingAttention`, `(B, h, n, m)`: the logits that are convolved, own ones and those of
            the block before, 0 where the mask forbids. `None` where nothing is convolved.
        queries: `(B, h, n, key_dim)`.
        posteriors: of `DisentangledMaskAttention`, `(B, h, n, C)`: in which cluster each token is.
        key_posteriors: the same of what it attends to, `(B, h, m, C)`. `None` with a cache.
        convolution: of `EvolvingAttention`, `(B, h, n, m)`: what the convolution makes of them, after ReLU.
            `logits` are `beta * convolution + (1 - beta) * self_attention`.
    """

    weights: np.ndarray
    logits: np.ndarray | None = None
    self_attention: np.ndarray | None = None
    convolution: np.ndarray | None = None
    queries: np.ndarray | None = None
    posteriors: np.ndarray | None = None
    key_posteriors: np.ndarray | None = None


def attention_maps(model, *inputs, **call_arguments):
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
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, Attention)]
    if not layers:
        raise ValueError(
            "There is no attention layer of keras_headattn in the model, or it is not built: call it first. "
            f"Received: {model}"
        )
    recorded = {}
    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.enter_context(_recording(layer, recorded))
        model(*inputs, **call_arguments)
    return recorded


@contextlib.contextmanager
def _recording(layer, recorded):
    """Within it, calls of the layer put its maps into `recorded`."""
    attend, evolve, parts = layer._attend, layer.evolve, {}

    def recording_evolve(logits, mask, previous_map, cache, query_positions):
        evolved, own_map, cache = evolve(logits, mask, previous_map, cache, query_positions)
        if layer.carries_map:
            parts.update(_parts(layer, logits, mask, previous_map, evolved))
        return evolved, own_map, cache

    def recording_attend(query, key, value, state):
        heads, weights, *carried = attend(query, key, value, dataclasses.replace(state, return_attention_scores=True))
        found = dict(parts)
        if isinstance(layer, DisentangledMaskAttention):
            found["posteriors"] = _array(layer.posteriors(state.query))
            found["key_posteriors"] = None if state.key is None else _array(layer.key_posteriors(state.key))
        recorded[layer.path] = AttentionMaps(_array(weights), **found, queries=_array(query))
        return heads, weights if state.return_attention_scores else None, *carried

    layer._attend, layer.evolve = recording_attend, recording_evolve
    try:
        yield
    finally:
        del layer._attend, layer.evolve  # those of the class again


def _parts(layer, logits, mask, previous_map, evolved):
    logits, evolved = _array(logits), _array(evolved)
    if getattr(layer, "map_kernel", None) is None:
        return {"logits": evolved}
    chained = previous_map is not None and previous_map.shape == logits.shape
    own = layer.alpha * _array(previous_map) + (1 - layer.alpha) * logits if chained else logits
    if mask is not None:
        own = np.where(keras.ops.convert_to_numpy(mask), own, 0)
    return {"logits": evolved, "self_attention": own, "convolution": (evolved - (1 - layer.beta) * own) / layer.beta}


def _array(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))

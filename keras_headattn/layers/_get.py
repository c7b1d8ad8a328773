import functools
from typing import Any

import keras
from keras.saving import deserialize_keras_object

from keras_headattn import layers
from keras_headattn._private import flash_attention_of
from keras_headattn._types import AttentionLike
from keras_headattn.layers._attention import Attention


def get(identifier: AttentionLike, **arguments: Any) -> Attention:
    """Returns an attention layer from anything that identifies one.

    Args:
        identifier: a name in `keras_headattn.layers.ATTENTIONS`, such as `"talking_heads"`; a class or a function that
            returns a layer; a layer; `keras.layers.MultiHeadAttention` or `keras.layers.GroupQueryAttention`, which
            become layers of this library with the same settings; or a configuration as serialised by Keras.
        **arguments: constructor arguments, such as `num_heads` and `key_dim`, for a name, a class or a function. Those
            of a `functools.partial` are kept.

    >>> get("talking_heads", num_heads=4, key_dim=8).num_heads
    4
    >>> get(keras.layers.MultiHeadAttention(4, 8, dropout=0.1)).dropout
    0.1
    """
    if isinstance(identifier, dict):
        identifier = deserialize_keras_object(identifier)
    if isinstance(identifier, str) and identifier in layers.ATTENTIONS:
        identifier = layers.ATTENTIONS[identifier]
    if isinstance(identifier, Attention):
        return identifier
    if isinstance(identifier, keras.layers.Layer):
        return _from_stock(identifier)
    if not callable(identifier):
        raise ValueError(
            f"Attention must be a layer, a class of layers, or a name among {', '.join(layers.ATTENTIONS)}. "
            f"Received: {identifier!r}"
        )
    try:
        return get(identifier(**arguments | keywords_of(identifier)))
    except TypeError as error:
        raise ValueError(f"{error}: give a layer, or its arguments. Received: {identifier}, {arguments}") from error


def keywords_of(identifier):
    """Returns the arguments that a `functools.partial` has already."""
    return identifier.keywords if isinstance(identifier, functools.partial) else {}


def _from_stock(layer):
    config = layer.get_config()
    if type(layer) is keras.layers.MultiHeadAttention:
        config["flash_attention"] = flash_attention_of(layer)
        return layers.MultiHeadAttention.from_config(config)
    if type(layer) is keras.layers.GroupQueryAttention:
        names = {"num_query_heads": "num_heads", "head_dim": "key_dim"}
        config = {names.get(name, name): value for name, value in config.items()}
        return layers.GroupedQueryAttention.from_config(config)
    raise ValueError(
        "Attention must be a layer of keras_headattn.layers, keras.layers.MultiHeadAttention or GroupQueryAttention. "
        f"Received: {layer!r}"
    )

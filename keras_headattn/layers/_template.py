import functools

from keras.layers import Layer, LayerNormalization
from keras.saving import deserialize_keras_object, serialize_keras_object

from keras_headattn._validation import check_positive
from keras_headattn.layers._get import get, keywords_of


class Template:
    """A layer's configuration, from which a block makes its layers.

    Keeps one unbuilt layer alive: Keras tells objects apart by `id()` while saving, and could mistake a temporary layer
    for another. `layer` is a layer, its configuration, a `Template`, or `None`, for which `make` returns `None`.
    """

    def __init__(self, name, layer):
        if isinstance(layer, Template):
            layer = layer.layer
        if isinstance(layer, dict):
            layer = deserialize_keras_object(layer)
        if not isinstance(layer, (Layer, type(None))):
            raise ValueError(f"`{name}` must be a layer, which is copied. Received: {layer!r}")
        self.layer = None if layer is None else type(layer).from_config(layer.get_config())

    @classmethod
    def of_attention(cls, name, identifier, num_heads=None, width=None, **arguments):
        """Returns a template of attention; `num_heads` and `width` are for a class or a name."""
        if isinstance(identifier, (dict, Template)):
            return cls(name, identifier)
        if width is not None:
            keywords = keywords_of(identifier)
            num_heads = check_positive("num_heads", keywords.get("num_heads", num_heads))
            made = identifier.func if isinstance(identifier, functools.partial) else identifier
            if isinstance(made, (str, type)) and "key_dim" not in keywords and width % num_heads:
                raise ValueError(
                    f"`num_heads` must divide the width of the model; or give `{name}` as a layer. "
                    f"Received: num_heads={num_heads} for a width of {width}"
                )
            arguments = {"num_heads": num_heads, "key_dim": width // num_heads, **arguments}
        try:
            return cls(name, get(identifier, **arguments))
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from error

    @classmethod
    def of_norm(cls, norm):
        """Returns a template of normalisation. `None` is layer normalisation with an epsilon of 1e-6."""
        return cls("norm", norm or LayerNormalization(epsilon=1e-6))

    def across(self):
        """Returns the template for cross-attention, without relative positions, sliding window and value residual."""
        options = {"relative_positions": None, "sliding_window": None, "value_residual": False}
        return Template("cross_attention", self.make(**options))

    def make(self, defaults=None, **overrides):
        """Makes a layer: `overrides` replace the template's arguments, `defaults` those that are `None`."""
        if self.layer is None:
            return None
        config = self.layer.get_config()
        left = {name: value for name, value in (defaults or {}).items() if config.get(name, value) is None}
        return type(self.layer).from_config({**config, **left, **overrides})

    def serialize(self):
        """Returns the configuration as serialised by Keras."""
        return serialize_keras_object(self.layer)

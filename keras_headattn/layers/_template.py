from keras.saving import deserialize_keras_object, serialize_keras_object

from keras_headattn.layers._attention import Attention


class Template:
    """An attention layer's configuration, of which a block makes a layer of its own.

    It keeps no layer, whose weights would be counted among those of the model.

    Args:
        name: argument name for error messages.
        layer: layer of this library, or a `Template`.

    Raises:
        ValueError: for anything else.
    """

    def __init__(self, name, layer):
        if isinstance(layer, dict):
            layer = deserialize_keras_object(layer)
        if isinstance(layer, Template):
            self._class, self._config = layer._class, layer._config
        elif isinstance(layer, Attention):
            self._class, self._config = type(layer), layer.get_config()
        else:
            raise ValueError(
                f"`{name}` must be a layer such as keras_headattn.layers.MultiHeadAttention(8, 64), whose "
                f"configuration each block copies. Received: {layer!r}"
            )

    def make(self, defaults=None, **overrides):
        """A new layer.

        Args:
            defaults: dictionary of values for arguments that the layer has and the template leaves as `None`.
            **overrides: arguments that replace the template's.
        """
        left = {name: value for name, value in (defaults or {}).items() if self._config.get(name, value) is None}
        return self._class.from_config({**self._config, **left, **overrides})

    def serialize(self):
        return serialize_keras_object(self.make())

"""Quantized sublayers that load again: neither Keras nor a parent's arguments tell which they are."""

from collections.abc import Mapping
from typing import Any

import keras
from keras.saving import deserialize_keras_object, serialize_keras_object

from keras_headattn._private import flatten_layers


class SavedQuantization(keras.layers.Layer):
    """Base of layers and models that are built again with the quantization of their sublayers.

    The configuration of a build has it, by the sublayer's place in the tree of layers, if there is any.
    """

    def get_build_config(self) -> dict[str, Any] | None:
        config = super().get_build_config()
        quantized = {
            str(index): {"mode": layer.quantization_mode, "config": serialize_keras_object(layer.quantization_config)}
            for index, layer in enumerate(flatten_layers(self))
            if layer is not self and layer.quantization_mode is not None
        }
        return {**(config or {}), "quantization": quantized} if quantized else config

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        super().build_from_config({name: value for name, value in config.items() if name != "quantization"})
        layers = flatten_layers(self)
        for index, how in config.get("quantization", {}).items():
            layer = layers[int(index)]
            if layer.quantization_mode is None:
                layer.quantize(how["mode"], config=deserialize_keras_object(how["config"]), type_check=False)

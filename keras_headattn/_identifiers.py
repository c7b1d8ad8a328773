"""Checks of initializers, regularizers, constraints and seeds, and layers in configurations."""

import inspect

import keras
import numpy as np
from keras.saving import deserialize_keras_object, serialize_keras_object


def initializer(name, value):
    """Returns an initializer as `keras.initializers.get` does."""
    return _get(name, value, keras.initializers, keras.initializers.Initializer)


def regularizer(name, value):
    """Returns a regularizer as `keras.regularizers.get` does, or `None`."""
    return _get(name, value, keras.regularizers)


def constraint(name, value):
    """Returns a constraint as `keras.constraints.get` does, or `None`."""
    return _get(name, value, keras.constraints)


def _get(name, value, room, cls=None):
    try:
        obj = room.get(value)
    except (ValueError, TypeError, AttributeError):
        obj = value
    if obj is not None and not (isinstance(obj, cls) if cls else callable(obj)) or isinstance(obj, type):
        kind = room.__name__.rpartition(".")[2]
        raise ValueError(
            f"`{name}` must be one of keras.{kind}: an object, its name or its configuration. "
            f"Received: {name}={value!r}"
        )
    return obj


def check_seed(name, value):
    """Returns an integer seed or `None`."""
    value = value.item() if isinstance(value, np.integer) else value
    is_integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if value is not None and not is_integer:
        raise ValueError(f"`{name}` must be an integer of at most 63 bits, or None. Received: {name}={value!r}")
    return value


def seed_plus(seed, offset):
    """Returns the seed of a part; `None` stays."""
    return None if seed is None else seed + offset


def serialize_layer(layer):
    """Returns a layer's configuration, the same before and after it is built; `None` stays."""
    config = serialize_keras_object(layer)
    if config is not None:
        config.pop("build_config", None)  # whatever has the layer builds it
    return config


def deserialize_layers(config, names, custom_objects=None):
    """Replaces the configurations of layers by layers."""
    configs = {name: config[name] for name in names if isinstance(config[name], dict)}
    return {
        **config,
        **{name: deserialize_keras_object(layer_config, custom_objects) for name, layer_config in configs.items()},
    }


def arguments_of(layer, cls, *without):
    """Returns the configuration of the constructor arguments of `cls` that are attributes of a layer."""
    names = [
        name
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if parameter.kind != parameter.VAR_KEYWORD
    ]
    values = {name: getattr(layer, name) for name in names if name not in ("self", *without)}
    plain = (bool, int, float, str, list, tuple, dict, type(None))
    return {name: x if isinstance(x, plain) else serialize_layer(x) for name, x in values.items()}


def rebuilt(source, change):
    """Returns a new object, built as the source is, with `change` applied to the configuration of each object in it."""
    copy = deserialize_keras_object(_changed(serialize_keras_object(source), change))
    if not copy.built:
        copy.build_from_config(source.get_build_config())
    return copy


def _changed(config, change):
    if isinstance(config, (list, tuple)):
        return [_changed(part, change) for part in config]
    if not isinstance(config, dict):
        return config
    config = {name: _changed(value, change) for name, value in config.items()}
    return change(config) if "class_name" in config and isinstance(config.get("config"), dict) else config

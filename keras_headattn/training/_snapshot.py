"""All that makes up the state of a training run: variables, random generators, the memory of callbacks."""

import copy
import inspect
import random

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.training._checkpoint import TAGS


def variables_of(model):
    """Variables of the model and of its optimizer: dictionary of names to variables.

    Names are numbers, as Keras's paths depend on what the process has made before.
    """
    metrics = {id(variable) for variable in model.metrics_variables}
    own = [variable for variable in model.variables if id(variable) not in metrics]
    optimizer = [] if model.optimizer is None else model.optimizer.variables
    return _numbered("variable", own) | _numbered("optimizer variable", optimizer)


def metrics_of(model):
    """Variables of the model's metrics, as `variables_of`. Keras makes them in the first step."""
    return _numbered("metric variable", model.metrics_variables)


def _numbered(name, variables):
    return {f"{name} {number}": variable for number, variable in enumerate(variables)}


def take(variables):
    """Copies of variables: dictionary of their names to arrays.

    A variable of which every replica holds a part, such as a metric's sum, is an array of all parts.
    """
    arrays = {}
    for name, variable in variables.items():
        parts = _parts(variable)
        arrays[name] = np.stack([part.numpy() for part in parts]) if parts else np.array(variable.numpy())
    return arrays


def restore(variables, arrays):
    """Assigns to the variables what `take` returned for them."""
    for name, variable in variables.items():
        array, parts = arrays[name], _parts(variable)
        if array.dtype.kind == "V":  # a dtype that NumPy does not know
            array = array.view(variable.dtype)
        if parts:
            for part, value in zip(parts, array, strict=True):
                part.assign(value)
        else:
            variable.assign(array)


def _parts(variable):
    value = variable.value
    if isinstance(value, tf.distribute.DistributedValues) and variable.synchronization == "on_read":
        return value.values
    return None


def describe(model):
    """What must agree for a checkpoint to fit: dictionary of names to what JSON can hold."""
    variables = variables_of(model).items()
    description = {name: f"{tuple(variable.shape)} {variable.dtype}" for name, variable in variables}
    if model.optimizer is not None:
        description["optimizer"] = _without_rate(keras.optimizers.serialize(model.optimizer))
    return description


def difference(expected, found):
    """The first name of which two descriptions say different things, and both things, as text; `None` if none."""
    expected, found = _flat(expected), _flat(found)
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            return f"{name}: {expected.get(name)} there, {found.get(name)} here"
    return None


def _flat(value, name=""):
    if not isinstance(value, dict):
        return {name: value}
    parts = [_flat(item, f"{name}.{key}" if name else key) for key, item in value.items()]
    return {key: item for part in parts for key, item in part.items()}


def _without_rate(config):
    """A learning rate that is a number is state, which callbacks change; names are numbered anew by Keras. What an
    optimizer prints is free."""
    if isinstance(config, dict):
        return {
            key: _without_rate(value)
            for key, value in config.items()
            if key not in ("name", "verbose") and not (key == "learning_rate" and isinstance(value, float))
        }
    return config


def take_memory(callbacks):
    """Copies of what callbacks remember: for each its class and its attributes, but for constructor arguments."""
    memories = []
    for callback in callbacks:
        arguments = inspect.signature(type(callback).__init__).parameters
        memory = {name: value for name, value in vars(callback).items() if name not in arguments and name != "params"}
        memory = {name: copy.deepcopy(value) for name, value in memory.items() if _is_data(value)}
        memories.append({"class": type(callback).__name__, "memory": memory})
    return memories


def restore_memory(callbacks, memories):
    """Sets the attributes that `take_memory` returned, where there is a callback of the class."""
    left = list(memories)
    for callback in callbacks:
        names = [memory["class"] for memory in left]
        if type(callback).__name__ in names:
            vars(callback).update(left.pop(names.index(type(callback).__name__))["memory"])


def _is_data(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) and key not in TAGS and _is_data(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_data, value))
    return value is None or isinstance(value, (bool, int, float, str, np.generic, np.ndarray))


def take_random_state():
    """The states of Python's and NumPy's global generators."""
    return {"python": random.getstate(), "numpy": np.random.get_state(legacy=False)}


def restore_random_state(state):
    """Sets what `take_random_state` returned."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])

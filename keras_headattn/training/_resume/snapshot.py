"""All that makes up the state of a training run: variables, random generators, the memory of callbacks."""

import copy
import inspect
import random

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._private import existing_seed_generator, forget_seed_generator, global_seed_generator
from keras_headattn.training._resume.checkpoint import TAGS


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
    """Description of a model, which must agree with that of a checkpoint: dictionary of values for JSON."""
    variables = variables_of(model).items()
    description = {name: f"{tuple(variable.shape)} {variable.dtype}" for name, variable in variables}
    if model.optimizer is not None:
        description["optimizer"] = _without_rate(keras.optimizers.serialize(model.optimizer))
    return description


def difference(expected, found):
    """The first name with different values in two descriptions, with both values, as text; `None` if there is none."""
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
    """Leaves out names, which Keras numbers anew, `verbose`, and a learning rate that is a number, which callbacks
    change."""
    if isinstance(config, dict):
        return {
            key: _without_rate(value)
            for key, value in config.items()
            if key not in ("name", "verbose") and not (key == "learning_rate" and isinstance(value, float))
        }
    return config


def take_settings(callbacks):
    """Copies of the settings of callbacks: for each, its attributes that have the name of a constructor argument."""
    return [_data(callback, _arguments(type(callback).__mro__)) for callback in callbacks]


def take_memory(callbacks, settings):
    """Copies of the memory of callbacks: for each, its class and its attributes that are data.

    Settings that are as `take_settings` returned them are left out, and those of Keras's own callbacks always: Keras
    changes the sign of `min_delta` when it learns whether less is better, and does so again in another process.
    """
    memories = []
    for callback, before in zip(callbacks, settings, strict=True):
        classes = type(callback).__mro__
        never = {"params"} | _arguments(cls for cls in classes if cls.__module__.partition(".")[0] == "keras")
        same = {name for name in before if _is_same(getattr(callback, name, None), before[name])}
        memory = _data(callback, vars(callback).keys() - never - same)
        memories.append({"class": type(callback).__name__, "memory": memory})
    return memories


def restore_memory(callbacks, settings, memories):
    """Sets the attributes that `take_memory` returned, where there is a callback of the class.

    Attributes that are among `settings` are removed there: they are memory from now on.
    """
    left = list(memories)
    for callback, before in zip(callbacks, settings, strict=True):
        names = [memory["class"] for memory in left]
        if type(callback).__name__ in names:
            memory = left.pop(names.index(type(callback).__name__))["memory"]
            vars(callback).update(memory)
            for name in before.keys() & memory.keys():
                del before[name]


def _arguments(classes):
    return {name for cls in classes for name in inspect.signature(cls.__init__).parameters}


def _data(callback, names):
    attributes = {name: value for name, value in vars(callback).items() if name in names}
    return {name: copy.deepcopy(value) for name, value in attributes.items() if _is_data(value)}


def _is_same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one is other or np.array_equal(one, other)  # NaN is itself


def _is_data(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) and key not in TAGS and _is_data(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_data, value))
    return value is None or isinstance(value, (bool, int, float, str, np.generic, np.ndarray))


def take_random_state():
    """The states of the global generators of Python, NumPy and Keras. Keras makes its own on first use: until then
    its state is `None`."""
    generator = existing_seed_generator()
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "keras": generator and np.array(generator.state.numpy()),
    }


def restore_random_state(state):
    """Sets the states that `take_random_state` returned."""
    if state["keras"] is None:
        forget_seed_generator()
    else:
        global_seed_generator().state.assign(state["keras"])
    random.setstate(state["python"])  # after the generator of Keras, which may have drawn its seed from it
    np.random.set_state(state["numpy"])

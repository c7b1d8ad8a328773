"""A training run's state: variables, random generators, callbacks."""

import copy
import inspect
import random

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._private import existing_seed_generator, forget_seed_generator, global_seed_generator
from keras_headattn.training._resume.checkpoint import TAGS


def variables_of(model):
    """Returns the variables of model and optimizer by number; Keras's paths depend on what the process made before."""
    metrics = {id(variable) for variable in model.metrics_variables}
    weights = [variable for variable in model.variables if id(variable) not in metrics]
    optimizer = [] if model.optimizer is None else model.optimizer.variables
    return _numbered("variable", weights) | _numbered("optimizer variable", optimizer)


def metrics_of(model):
    """Returns the variables of the model's metrics, which Keras makes in the first step."""
    return _numbered("metric variable", model.metrics_variables)


def _numbered(name, variables):
    return {f"{name} {index}": variable for index, variable in enumerate(variables)}


def take(variables):
    """Copies variables to arrays; a variable with a part on each replica becomes an array of the parts."""
    arrays = {}
    for name, variable in variables.items():
        parts = _parts(variable)
        arrays[name] = np.stack([part.numpy() for part in parts]) if parts else np.array(variable.numpy())
    return arrays


def restore(variables, arrays):
    """Assigns the arrays of `take`."""
    for name, variable in variables.items():
        array, parts = arrays[name], _parts(variable)
        if array.dtype.kind == "V":  # a dtype unknown to NumPy
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
    """Describes a model for comparison with a checkpoint."""
    variables = variables_of(model).items()
    description = {name: f"{tuple(variable.shape)} {variable.dtype}" for name, variable in variables}
    if model.optimizer is not None:
        description["optimizer"] = _without_rate(keras.optimizers.serialize(model.optimizer))
    return description


def difference(expected, actual):
    """Returns the first difference of two descriptions as text, `None` if they are equal."""
    expected, actual = _flat(expected), _flat(actual)
    for name in {**expected, **actual}:
        if expected.get(name) != actual.get(name):
            return f"{name}: {expected.get(name)} there, {actual.get(name)} here"
    return None


def _flat(value, name=""):
    if not isinstance(value, dict):
        return {name: value}
    parts = [_flat(item, f"{name}.{key}" if name else key) for key, item in value.items()]
    return {key: item for part in parts for key, item in part.items()}


def _without_rate(config):
    """Removes names, `verbose`, and learning rates that are numbers, which may change between runs."""
    if isinstance(config, dict):
        return {
            key: _without_rate(value)
            for key, value in config.items()
            if key not in ("name", "verbose") and not (key == "learning_rate" and isinstance(value, float))
        }
    return config


def rate_of(optimizer):
    """Returns the learning rate of an optimizer; `None` if it is a schedule, or there is no optimizer."""
    while hasattr(optimizer, "inner_optimizer"):  # of a loss scale, of repulsion
        optimizer = optimizer.inner_optimizer
    rate = None if optimizer is None else optimizer.get_config().get("learning_rate")
    return rate if isinstance(rate, float) else None


def take_settings(callbacks):
    """Copies the attributes of each callback that are named like constructor arguments."""
    return [_data(callback, _arguments(type(callback).__mro__)) for callback in callbacks]


def take_memory(callbacks, settings):
    """Copies the class and the data of each callback, without unchanged settings and Keras's own.

    Keras's callbacks change theirs, such as the sign of `min_delta`, and do so again in another process.
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
    """Restores the data of `take_memory` by class, and removes it from `settings`: it is state from now on."""
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
    """Returns the states of Python's, NumPy's and Keras's global generators; Keras's is `None` before first use."""
    generator = existing_seed_generator()
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "keras": generator and np.array(generator.state.numpy()),
    }


def restore_random_state(state):
    if state["keras"] is None:
        forget_seed_generator()
    else:
        global_seed_generator().state.assign(state["keras"])
    random.setstate(state["python"])  # last, as Keras's generator may draw its seed from it
    np.random.set_state(state["numpy"])

"""Functions that run on one replica and assign variables afterwards."""

import keras
import tensorflow as tf

from keras_headattn._private import value_of

# Large, so that replica 1's random numbers are not those of a layer whose seed is one higher.
_SEED_STRIDE = 1_000_003


class ReplicaFunction:
    """Function that runs on the replica that calls it, compiled by XLA if `jit_compile`.

    XLA cannot compile assignments to mirrored variables, so the function returns the new values, which are assigned
    after it. Layer state, such as moving means, becomes the mean over replicas; metrics stay apart until read, and
    random numbers differ between replicas.
    """

    def __init__(self, function, jit_compile):
        self._function = function
        # Variables that `function` assigns by id, in the order of the first assignment.
        self._assigned = {}
        self._run = self._record
        if jit_compile:
            self._run = tf.function(self._record, jit_compile=True, autograph=False)

    def __call__(self, *args):
        result, values = self._run(*args)
        variables = list(self._assigned.values())
        _assign([variables[position] for position in values], list(values.values()))
        return result

    def _record(self, *args):
        with _Assignments() as assignments:
            result = self._function(*args)
        for variable, _ in assignments.made.values():
            self._assigned.setdefault(id(variable), variable)
        # A traced function is called again without running this line: only what it returns says what was
        # assigned.
        positions = {key: position for position, key in enumerate(self._assigned)}
        return result, {positions[key]: value for key, (_, value) in assignments.made.items()}


class _Assignments(keras.StatelessScope):
    """Scope that holds back assignments in `made`, from the id of a variable to it and its new value."""

    def __init__(self):
        super().__init__(collect_losses=True)  # those of `add_loss`
        self.made = {}

    def add_update(self, update):
        variable, value = update
        if _is_seed(variable):
            value -= _seed_offset(variable)
        self.made[id(variable)] = (variable, value)
        super().add_update((variable, value))

    def get_current_value(self, variable):
        value = super().get_current_value(variable)
        if value is None:
            value = value_of(variable)
        if not _is_seed(variable):
            return value
        if value is None:  # a generator created in this step
            raise ValueError(
                "On several replicas random numbers need a `keras.random.SeedGenerator`, made in the "
                "constructor of the layer and given as `seed`. Received: seed=None"
            )
        return value + _seed_offset(variable)


def _is_seed(variable):
    return variable.name == "seed_generator_state"


def _seed_offset(variable):
    """Returns this replica's offset of a generator's state: zero on the first, whose state is saved."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return tf.cast([replica * _SEED_STRIDE, 0], variable.dtype)


def _assign(variables, values):
    averaged = [index for index, variable in enumerate(variables) if _is_layer_state(variable)]
    if averaged:
        means = tf.distribute.get_replica_context().all_reduce("MEAN", [values[index] for index in averaged])
        for index, mean in zip(averaged, means, strict=True):
            values[index] = mean
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _is_layer_state(variable):
    # Metrics are aggregated on reading, others by TensorFlow in `assign`.
    return (
        variable.aggregation == "none"
        and variable.synchronization != "on_read"
        and keras.backend.is_float_dtype(variable.dtype)
    )

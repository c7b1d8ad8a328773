"""Functions that run on one replica of a distribution strategy and keep their assignments for afterwards."""

import keras
import tensorflow as tf

from keras_headattn._private import value_of

# Far apart, so that the masks of replica 1 are not those of a layer seeded one higher.
_SEED_STRIDE = 1_000_003


class ReplicaFunction:
    """Runs a function on the replica that calls it, compiled by XLA if asked to.

    XLA cannot compile an assignment to a variable of which every device holds a copy: it would have to talk
    to the other devices. So the compiled part assigns nothing: it returns the new values, and they are
    assigned after it.

    The state of a layer (the moving mean of a batch normalisation) becomes the mean of what the replicas
    computed, so that the copies stay equal. Metrics stay apart until they are read, and random numbers differ
    between replicas.

    Args:
        function: Takes tensors, returns tensors; may read and assign Keras variables.
        jit_compile: Whether XLA compiles `function`: once for each shape of its arguments and each replica.
    """

    def __init__(self, function, jit_compile):
        self._function = function
        # Every variable that `function` was seen to assign, by id, in the order of the first assignment.
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
    """Holds back every assignment, in `made`: the id of a variable -> the variable and its new value."""

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
        if value is None:  # a generator that was made just now, by this replica alone
            raise ValueError(
                "On several replicas random numbers need a `keras.random.SeedGenerator`, made in the "
                "constructor of the layer and given as `seed`. Received: seed=None"
            )
        return value + _seed_offset(variable)


def _is_seed(variable):
    return variable.name == "seed_generator_state"


def _seed_offset(variable):
    """Offset of the state (seed, count) on this replica: zero on the first, whose state is saved."""
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
    # Metrics are synchronised on reading; other aggregations are TensorFlow's own and happen in `assign`.
    return (
        variable.aggregation == "none"
        and variable.synchronization != "on_read"
        and keras.backend.is_float_dtype(variable.dtype)
    )

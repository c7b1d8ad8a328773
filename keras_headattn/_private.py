"""Private names of Keras, TensorFlow and TensorFlow Text, each with its reason. No other file uses them.

`tests/test_private.py` reports by name which of them an installed version does not have.
"""

import contextlib
import io
from typing import Any

# Methods of Keras and TensorFlow that classes of this library override.
HOOKS = {
    "_apply_weight_decay": "Keras decays all weights at the same rate.",
    "_make_function": "A step of several workers must return vectors, of which Keras takes means, and not scalars.",
    "_maybe_symbolic_build": "Keras averages the batches of replicas to learn their shapes, and booleans have no mean.",
    "_resolve_auto_jit_compile": "Keras switches XLA off under a strategy, where only its own step would fail.",
    "_create_resource": "A resource of TensorFlow is made in it; `TrackableResource` is public, and documents it.",
}


# Layers and models


def flatten_layers(layer: Any) -> list[Any]:
    """Lists a layer or model and all layers in it, at any depth; `model.layers` has only the first level.

    A layer comes before those in it, and these in the order in which they were made.

    Args:
        layer: `keras.layers.Layer` or `keras.Model`.

    >>> layers = [keras.layers.Dense(1, name=name) for name in ("first", "last")]
    >>> inner = keras.Sequential(layers, name="inner")
    >>> [layer.name for layer in flatten_layers(keras.Sequential([inner], name="outer"))]
    ['outer', 'inner', 'first', 'last']
    """
    layers, left = {}, [layer]  # by id: a layer may be in several
    while left:
        current = left.pop()
        if id(current) not in layers:
            layers[id(current)] = current
            # Keras lists what is in layers of layers from the last to the first.
            left += reversed(current._flatten_layers(include_self=False, recursive=False))
    return list(layers.values())


def build_optimizer(model):
    """Builds the optimizer of a built model, whose first step would else be traced twice by TensorFlow."""
    if model.optimizer is not None and not model.optimizer.built and all(x.built for x in flatten_layers(model)):
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def has_training_argument(layer):
    """Returns True if the `call` of a layer takes `training`, by Keras's rule."""
    return layer._call_has_training_arg


def accept_any_input(layer):
    """Lets a layer take strings and lists, which Keras would convert to floats or refuse."""
    layer._convert_input_args = False
    layer._allow_non_tensor_positional_args = True


def flash_attention_of(layer):
    """Returns the argument `flash_attention` of a stock attention layer, which its configuration leaves out."""
    return layer._flash_attention


def value_of(variable):
    """Returns the value of a variable beneath any `StatelessScope`, or `None` before it is initialized.

    `variable.value` asks the scope, and the scope of `ReplicaFunction` asks here.
    """
    return variable._value


def remat_mode(layer):
    """Returns the mode of the `keras.RematScope` that a layer was made in, or `None`."""
    return layer._remat_mode


def forget_remat(layers):
    """Takes layers out of the `keras.RematScope` that they were made in."""
    for layer in layers:
        layer._remat_mode = None


def autocast_scope():
    """Returns a context manager of the present precision of variables, for a function that runs after the call."""
    from keras.src.backend import AutocastScope, get_autocast_scope

    scope = get_autocast_scope()
    return contextlib.nullcontext() if scope is None else AutocastScope(scope.dtype)


def check_length(length, most, rule):
    """Refuses more than `most` tokens: at once if the length is an integer, else in TensorFlow's graph without XLA."""
    if isinstance(length, int):
        if length > most:
            raise ValueError(f"{rule} Received: {length} tokens")
        return
    from keras import backend

    if backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.debugging.assert_less_equal(length, most, rule)


def recurrence(step, inputs, states):
    """Returns the outputs `(B, m, ...)` of `step(input, states)` for each of the m inputs `(B, m, d)` in turn.

    On TensorFlow `keras.ops.scan` gives its loop no bound, which XLA needs for the gradient, and `keras.layers.RNN` has
    no tensors that are the same in every step.
    """
    from keras.src.backend import rnn

    _, outputs, _ = rnn(step, inputs, states)
    return outputs


# Training


def functional_class():
    """Returns the class of `keras.Model(inputs, outputs)`, which Keras does not export."""
    from keras.src.models.functional import Functional

    return Functional


def is_functional(args, kwargs):
    """Returns True if a model's constructor arguments are inputs and outputs, by the rule of `keras.Model`."""
    from keras.src.models.model import functional_init_arguments

    return functional_init_arguments(args, kwargs)


def supports_jit(model):
    """Returns True if XLA can compile all layers of a model on this machine; `layer.supports_jit` covers one layer."""
    from keras.src.trainers.trainer import model_supports_jit

    return model_supports_jit(model)


def loss_of(model, **arguments):
    """Returns the loss by `compute_loss`, which in a user's class need not take `training`, as in Keras."""
    return model._compute_loss(**arguments)


def with_added_losses(model, loss):
    """Adds a model's losses of `add_loss` and regularizers, scaled for several replicas, as its own `compute_loss`."""
    return sum((model._aggregate_additional_loss(added) for added in model.losses), loss)


def loss_tracker(model):
    """Returns the metric that `fit` logs as `loss`, for the step of `training.Model`."""
    return model._loss_tracker


def build_metrics(model, batch):
    """Builds the metrics from a batch before the first step, for `Resume` to restore."""
    model._symbolic_build(data_batch=batch)


def set_initial_epoch(model, epoch):
    """Sets the first epoch of `fit` after `on_train_begin`, as `BackupAndRestore` does; `None`: its argument's."""
    model._initial_epoch = epoch


def call_in_order(callbacks):
    """Makes a `CallbackList` call in the thread of `fit`, not in another while `Resume` reads the state."""
    callbacks._async_train = callbacks._async_test = False


def weights_file(model):
    """Returns the content of a file of `model.save_weights`.

    Keras lets HDF5 write to the disk, which ends the process by a segmentation fault if the disk is full.
    """
    from keras.src.saving.saving_lib import H5IOStore, _save_state

    file = io.BytesIO()
    store = H5IOStore(file, mode="w")
    _save_state(model, weights_store=store, assets_store=None, inner_path="", visited_saveables=set())
    store.close()
    return file.getvalue()


# Optimizers


def updates(optimizer):
    """Returns the counter of calls of `apply`; `iterations` counts those that changed weights."""
    return optimizer._iterations


def built_for(optimizer):
    """Returns the weights that an optimizer was built for, to which `apply(gradients)` applies."""
    return optimizer._trainable_variables


def own_variables(optimizer):
    """Returns a wrapper's own variables; its `variables` include those of the inner optimizer."""
    return optimizer._variables


def variable_key(optimizer, variable):
    """Returns the key of a variable in an optimizer, the same on every replica."""
    return optimizer._var_key(variable)


def is_decayed(optimizer, variable):
    """Returns True if an optimizer decays a variable, by `exclude_from_weight_decay`."""
    return optimizer._use_weight_decay(variable)


def share_averages(wrapper, optimizer):
    """Lets `SwapEMAWeights` find the moving averages of an optimizer in its wrapper."""
    wrapper._model_variables_moving_average = optimizer._model_variables_moving_average


def replicas_to_sum(optimizer):
    """Returns the number of replicas that sum their gradients in the next `apply`: 1 in `local_updates` and other
    backends.
    """
    if not hasattr(optimizer, "_all_reduce_sum_gradients"):
        return 1
    import tensorflow as tf

    [(replicas, _)] = optimizer._all_reduce_sum_gradients([(tf.ones(()), None)])
    return replicas


@contextlib.contextmanager
def local_updates(optimizers):
    """Lets optimizers update each replica's copy on its own device, from gradients already summed.

    Keras and TensorFlow have no option for this: the functions in which replicas meet are replaced. Replicas take turns
    between meetings, and there is none in here, so that no other replica sees the replacements.
    """
    import tensorflow as tf

    extended = tf.distribute.get_strategy().extended
    counters = [updates(optimizer).value for optimizer in optimizers]
    aggregations = [counter.aggregation for counter in counters]
    extended._use_merge_call = lambda: False
    for optimizer, counter in zip(optimizers, counters, strict=True):
        optimizer._all_reduce_sum_gradients = lambda gradients_and_variables: gradients_and_variables
        counter._aggregation = tf.VariableAggregation.NONE
    try:
        yield
    finally:
        del extended._use_merge_call
        for optimizer, counter, aggregation in zip(optimizers, counters, aggregations, strict=True):
            del optimizer._all_reduce_sum_gradients
            counter._aggregation = aggregation


# Random numbers


def global_seed_generator():
    """Returns the generator of `keras.random` functions without a seed, which Keras makes on first use, for `Resume` to
    save.
    """
    from keras.src.random.seed_generator import global_seed_generator

    return global_seed_generator()


def existing_seed_generator():
    """Returns the generator of `keras.random`, or `None` before its first use.

    `Resume` must not make one, as its seed is drawn from Python's generator.
    """
    from keras.src.backend.common.global_state import get_global_attribute
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

    return get_global_attribute(GLOBAL_SEED_GENERATOR)


def forget_seed_generator():
    """Makes Keras create a new generator of `keras.random` on next use, as `keras.utils.set_random_seed` does.

    `Resume` must not set the seed of anything else.
    """
    from keras.src.backend.common.global_state import set_global_attribute
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

    set_global_attribute(GLOBAL_SEED_GENERATOR, None)


# XLA


def is_compiled_by_xla():
    """Returns True if XLA compiles what is traced now: always on JAX, within `jit_compile=True` on TensorFlow."""
    import keras

    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    import tensorflow as tf
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    return not tf.executing_eagerly() and GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def sees_cpus_alone():
    """Returns True on TensorFlow without a GPU."""
    import keras

    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.list_logical_devices("GPU")


# Workers


def has_begun():
    """Returns True if TensorFlow has read its flags, which it does before it computes or looks for devices."""
    from tensorflow.python.eager import context

    return context._context is not None


def set_worker_timeouts(jobs, connect, heartbeat):
    """Configures TensorFlow's coordination of workers as `MultiWorkerMirroredStrategy` would, with other timeouts in
    seconds.

    `jobs` are the numbers of workers, by `"chief"` and `"worker"`.
    """
    from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
    from tensorflow.python.eager.context import context

    leader = "chief" if "chief" in jobs else "worker"
    context().configure_coordination_service(
        "standalone",
        service_leader=f"/job:{leader}/replica:0/task:0",
        cluster_register_timeout_in_ms=1000 * connect,
        heartbeat_timeout_in_ms=1000 * heartbeat,
        coordinated_jobs=[CoordinatedJob(name=job, num_tasks=tasks) for job, tasks in jobs.items()],
    )


# SavedModels


@contextlib.contextmanager
def in_sequence():
    """Makes a graph's function calls run their operations one after the other, in the calling thread.

    Other threads then get only parts of a product. The setting is an attribute of `StatefulPartitionedCall`; loops,
    which must be traced within it too, have no other way to it. It does not work across devices, such as a CPU and a
    GPU.
    """
    from tensorflow.python.eager.context import function_executor_type

    with function_executor_type("SINGLE_THREADED_EXECUTOR"):
        yield


# TensorFlow Text


def set_vocabulary(tokenizer, resource):
    """Gives a `SentencepieceTokenizer` a vocabulary with a name of its own."""
    tokenizer._model_resource = resource


def vocabulary_handle(proto, name):
    """Returns the handle of a SentencePiece vocabulary under this name, which `SentencepieceTokenizer` cannot take."""
    from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer

    return gen_sentencepiece_tokenizer.sentencepiece_op(model=proto, shared_name=name, name=name)

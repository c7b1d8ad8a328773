"""A Keras model that trains under `tf.distribute` with XLA."""

import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_headattn._private import (
    build_optimizer,
    functional_class,
    has_training_argument,
    is_functional,
    loss_of,
    loss_tracker,
    supports_jit,
)
from keras_headattn._remat_scope import rematerialize_layers, symbolic_call
from keras_headattn.training._distribution.devices import default_jit
from keras_headattn.training._distribution.gradients import sums_gradients
from keras_headattn.training._distribution.replica import ReplicaFunction
from keras_headattn.training._distribution.workers import ends_with_the_others, num_workers


@keras.saving.register_keras_serializable("keras_headattn")
class Model(keras.Model):
    """`keras.Model` that trains under `MirroredStrategy` and `MultiWorkerMirroredStrategy`, also with XLA.

    Use it like `keras.Model`: as `Model(inputs, outputs)`, as a base class, or around an existing model as
    `Model(model.inputs, model.outputs)`. On several replicas it differs from Keras:

    - `jit_compile=True` works: it compiles the forward and backward pass of each replica with its loss and metrics.
    - Gradients are summed before clipping, accumulation and the check of the loss scale, so that these, mixed precision
      and `ema_overwrite_frequency` work as on one replica.
    - Batches of any size work: all rows count the same.
    - Random layers draw different numbers on each replica; moving statistics are averaged.
    - Inputs may be boolean.

    On any number of replicas, gradients for the same embedding row are summed before the optimizer uses them.

    `jit_update = True`, set before `fit`, compiles the update of a single replica with XLA if the step is not compiled:
    faster for large models on a CPU.

    If one of several workers is lost, `fit`, `evaluate` and `predict` end the others with exit code 138.

    The replicas' mean losses are averaged, weighted by their rows. A loss that divides by tokens (with a mask, or
    `reduction="mean_with_sample_weight"`) divides by its replica's; `reduction="sum"` sums over all rows.

    If a class overrides `train_step` or `test_step`, its own step runs, on several replicas without XLA and with only
    the gradients handled as above; `compute_loss` and `compute_metrics` may be overridden freely. On several replicas
    random layers need a `keras.random.SeedGenerator`.

    >>> from keras_headattn.training import Model, default_jit, make_strategy
    >>> strategy = make_strategy()
    >>> with strategy.scope():
    ...     inputs = keras.Input((4,))
    ...     model = Model(inputs, keras.layers.Dense(1)(inputs))
    ...     model.compile("adam", "mse", jit_compile=default_jit(strategy))
    >>> history = model.fit(keras.ops.ones((8, 4)), keras.ops.zeros((8, 1)), verbose=0)
    """

    rematerialized_call = rematerialize_layers
    symbolic_call = symbolic_call
    jit_update = False
    _train_replica: Any = None
    _test_replica: Any = None
    _observers = ()
    _num_calls = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and is_functional(args, kwargs):
            cls = FunctionalModel
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any):
        if is_functional(args, kwargs):
            _make_functional(type(self))
        super().__init__(*args, **kwargs)

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        with ends_with_the_others(self.distribute_strategy):
            return super().fit(*args, **kwargs)

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *args, **kwargs):
        with ends_with_the_others(self.distribute_strategy):
            return super().evaluate(*args, **kwargs)

    @functools.wraps(keras.Model.predict)
    def predict(self, *args, **kwargs):
        with ends_with_the_others(self.distribute_strategy):
            return super().predict(*args, **kwargs)

    @property
    def num_traces(self) -> int:
        """int, graphs traced for the training step so far."""
        strategy = self.distribute_strategy
        return self._num_calls * num_workers(strategy) // strategy.num_replicas_in_sync

    def observe_gradients(self, observer: Callable[[list[Any]], Any]) -> None:
        """Adds a function that every training step calls in its graph.

        Args:
            observer: function of the list of gradients, one for each trainable weight or `None`: summed over replicas,
                with the loss scale, before clipping.

        >>> inputs = keras.Input((4,))
        >>> model = Model(inputs, keras.layers.Dense(1)(inputs))
        >>> model.observe_gradients(lambda gradients: tf.print(tf.linalg.global_norm(gradients)))
        """
        self._set_observers((*self._observers, observer))

    def unobserve_gradients(self, observer: Callable[[list[Any]], Any]) -> None:
        """Removes a function added by `observe_gradients`.

        Args:
            observer: the same function.
        """
        self._set_observers(other for other in self._observers if other != observer)

    def _set_observers(self, observers):
        self._observers = tuple(observers)
        self.train_function = None  # to be traced again

    def _observe(self, gradients):
        for observer in self._observers:
            observer(gradients)

    def make_train_function(self, force: bool = False) -> None:
        if self.train_function is not None and not force:
            return
        build_optimizer(self)
        self._train_replica = self._on_replica(self._gradients)
        with self._outer_graph():
            super().make_train_function(force)
        train = self.train_function

        def train_function(iterator):
            with self._summed_gradients():  # for an overridden `train_step`
                return train(iterator)

        self.train_function = train_function

    def make_test_function(self, force: bool = False) -> None:
        if force or self.test_function is None:
            self._test_replica = self._on_replica(self._metrics_of_batch)
        with self._outer_graph():
            super().make_test_function(force)

    def _make_function(self, step_function):
        if num_workers(self.distribute_strategy) > 1:
            step_function = _with_row_axis(step_function)
        return super()._make_function(step_function)

    def train_step(self, data: Any) -> dict[str, Any]:
        if not tf.executing_eagerly():
            self._num_calls += 1
        # In a custom loop there is no function from `fit`.
        run = self._train_replica if self.train_function else self._on_replica(self._gradients)
        gradients, logs = run(data, _all_rows(data)) if self._is_distributed() else run(data)
        if gradients:
            if not self._is_distributed():
                self._observe(gradients)
            self._update(gradients)
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return logs

    def _update(self, gradients):
        def apply(gradients):
            self.optimizer.apply(gradients, self.trainable_weights)

        if self.jit_update and not (self._is_distributed() or self.jit_compile or tf.executing_eagerly()):
            if not self.optimizer.built:
                self.optimizer.build(self.trainable_weights)  # XLA cannot create variables
            apply = tf.function(apply, jit_compile=True, autograph=False)
        with self._summed_gradients():
            apply(gradients)

    def test_step(self, data: Any) -> dict[str, Any]:
        run = self._test_replica if self.test_function else self._on_replica(self._metrics_of_batch)
        return run(data, _all_rows(data)) if self._is_distributed() else run(data)

    def _on_replica(self, function):
        return ReplicaFunction(function, self.jit_compile) if self._is_distributed() else function

    def _summed_gradients(self):
        if self._is_distributed() and self.optimizer is not None:
            return sums_gradients(self.optimizer, self._observe)
        return contextlib.nullcontext()

    def _gradients(self, data, all_rows=None):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred, loss = self._forward(x, y, sample_weight, all_rows, training=True)
            # A replica's mean counts by its share of the rows. A sum over rows needs no weight.
            if all_rows is not None and not _is_sum(self.loss):
                share = tf.cast(_num_rows(x), tf.float32) * self.distribute_strategy.num_replicas_in_sync / all_rows
                loss *= tf.cast(share, loss.dtype)
            if self.optimizer is not None:
                loss = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, self.trainable_weights)
        # The rows of an embedding that were looked up twice must be added up before an optimizer squares or
        # clips them. Keras does not.
        gradients = [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]
        return gradients, self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def _metrics_of_batch(self, data, all_rows=None):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred, _ = self._forward(x, y, sample_weight, all_rows, training=False)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def _forward(self, x, y, sample_weight, all_rows, training):
        y_pred = self(x, training=training) if has_training_argument(self) else self(x)
        loss = loss_of(self, x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        # Keras divides a replica's loss by the number of replicas; the tracker averages undivided losses.
        num_replicas = self.distribute_strategy.num_replicas_in_sync
        # Sums of replicas add up, however many rows each has.
        rows = _num_rows(x) if all_rows is None or not _is_sum(self.loss) else all_rows / num_replicas
        loss_tracker(self).update_state(loss * tf.cast(num_replicas, loss.dtype), sample_weight=rows)
        return y_pred, loss

    def _is_distributed(self):
        return self.distribute_strategy.num_replicas_in_sync > 1

    @contextlib.contextmanager
    def _outer_graph(self):
        """Keeps Keras from compiling the graph of all replicas."""
        jit_compile = self.jit_compile
        self.jit_compile = jit_compile and not self._is_distributed()
        try:
            yield
        finally:
            self.jit_compile = jit_compile

    def _resolve_auto_jit_compile(self):
        # Keras disables XLA under a strategy, as its own step would fail.
        return default_jit(self.distribute_strategy) and supports_jit(self)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras averages the replicas' batches to find their shape, which fails for booleans.
        if iterator is not None and self._is_distributed():
            _, _, batches = next(iter(iterator))
            local = self.distribute_strategy.experimental_local_results
            data_batch = keras.tree.map_structure(lambda value: local(value)[0], next(batches))
            iterator = None
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)


def _with_row_axis(step):
    """Gives scalars a row axis, as Keras averages over the rows that workers return."""

    def step_with_row_axis(data):
        return keras.tree.map_structure(lambda value: tf.reshape(value, (1,)), step(data))

    return step_with_row_axis


def _all_rows(data):
    """Returns the number of rows of all replicas."""
    x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    return tf.distribute.get_replica_context().all_reduce("SUM", tf.cast(_num_rows(x), tf.float32))


def _num_rows(x):
    return tf.shape(next(leaf for leaf in keras.tree.flatten(x) if leaf is not None))[0]


def _is_sum(loss):
    return any(getattr(leaf, "reduction", None) == "sum" for leaf in keras.tree.flatten(loss))


_Functional: Any = functional_class()


@keras.saving.register_keras_serializable("keras_headattn")
class FunctionalModel(Model, _Functional):
    """Class of `Model(inputs, outputs)`."""


def _make_functional(cls):
    """Replaces `Model` by `FunctionalModel` in the bases of a subclass.

    Keras would insert its own class beneath `Model`, for all subclasses, and break those that define `call`.
    """
    if cls is Model:
        return FunctionalModel
    if issubclass(cls, Model) and not issubclass(cls, FunctionalModel):
        cls.__bases__ = tuple(_make_functional(base) for base in cls.__bases__)
    return cls

"""The gradient's norm in the logs."""

from typing import Any

import keras
import tensorflow as tf


class GradientNorm(keras.callbacks.Callback):
    """Callback that logs `gradient_norm`, the mean L2 norm of an epoch's gradients, for a `training.Model`.

    It is the norm of the whole gradient, summed over replicas, without loss scale and before clipping; with
    `gradient_accumulation_steps`, that of each step. Infinite norms are left out. If the model overrides `train_step`,
    gradients are seen only on several replicas.

    Raises:
        ValueError: in `fit`, if the model is not a `training.Model`.

    >>> from keras_headattn.training import Model
    >>> inputs = keras.Input((4,))
    >>> model = Model(inputs, keras.layers.Dense(1)(inputs))
    >>> model.compile("sgd", "mse")
    >>> x, y = keras.ops.ones((8, 4)), keras.ops.zeros((8, 1))
    >>> history = model.fit(x, y, verbose=0, callbacks=[GradientNorm()])
    >>> history.history["gradient_norm"][0] > 0
    True
    """

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        if not hasattr(model, "observe_gradients"):
            raise ValueError(
                f"`GradientNorm` needs a `keras_headattn.training.Model`. Received: model of type {type(model)}"
            )
        # Not a metric of the model: validation would reset it.
        with model.distribute_strategy.scope():
            self._mean = keras.metrics.Mean()
        model.unobserve_gradients(self._update)  # left over from an interrupted `fit`
        model.observe_gradients(self._update)

    def _update(self, gradients):
        gradients = [tf.cast(gradient, tf.float32) for gradient in gradients if gradient is not None]
        norm = tf.linalg.global_norm(gradients) / self.model.optimizer.scale_loss(tf.constant(1.0))
        finite = tf.math.is_finite(norm)
        self._mean.update_state(tf.where(finite, norm, 0.0), sample_weight=tf.cast(finite, norm.dtype))

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._mean.reset_state()
        self._sums = [0.0, 0.0]

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Plain data, which `Resume` saves.
        self._sums = [total + float(1 * part) for total, part in zip(self._sums, self._mean.variables, strict=True)]
        self._mean.reset_state()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        total, count = self._sums
        if count:
            logs["gradient_norm"] = total / count

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.model.unobserve_gradients(self._update)

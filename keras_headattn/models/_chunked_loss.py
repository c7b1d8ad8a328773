"""Base of models that train without the logits of a whole batch."""

import contextlib
import contextvars
from typing import Any

import keras

from keras_headattn._identifiers import arguments_of
from keras_headattn._model import Model
from keras_headattn._private import with_added_losses
from keras_headattn._types import Tensor
from keras_headattn._validation import check_positive
from keras_headattn.losses import LabelSmoothedCrossentropy, MeanOfLosses, as_labels
from keras_headattn.ops import linear_crossentropy

# Ids of the models whose training or test step is being run; replicas have a thread, and thus a context, each.
_STEPPING: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar("stepping", default=())


class ChunkedLossModel(Model):
    """Base of models whose `fit` and `evaluate` need not hold the logits of a whole batch.

    With a `loss_chunk_size`, steps (also `train_on_batch` and `test_on_batch`) compute the loss by
    `ops.linear_crossentropy`. `compile` then takes only a `LabelSmoothedCrossentropy` and no metrics: `accuracy`,
    weighted like the loss, is always measured. Labels are integers `(B, m)`; padding needs `sample_weight` 0. Other
    calls still return logits.

    A subclass implements `states` and `output_weights`, and its `call` returns `self.states(...)` where
    `self.needs_states` is True.

    Args:
        loss_chunk_size: number of tokens per chunk of logits. Default `None`: all.

    Raises:
        ValueError: for a wrong size; and by `compile`, for another loss or metrics.
    """

    def __init__(self, *, loss_chunk_size: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.loss_chunk_size = None if loss_chunk_size is None else check_positive("loss_chunk_size", loss_chunk_size)
        if loss_chunk_size is not None:
            self.accuracy = keras.metrics.Mean(name="accuracy")

    # Bound c on the logits, which become c * tanh(logits / c).
    logits_soft_cap: float | None = None

    def states(self, inputs: Any, training: bool | None = None) -> Tensor:
        """Computes the inputs of the output layer, `(B, m, D)`.

        Args:
            inputs: as in a call.
            training: True to apply dropout.
        """
        raise NotImplementedError

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Returns the output layer's kernel `(D, V)`, in the dtype of the states, and its bias `(V,)` or `None`."""
        raise NotImplementedError

    @property
    def needs_states(self) -> bool:
        """True inside a step of `fit` or `evaluate` that computes its loss in chunks."""
        return id(self) in _STEPPING.get()

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, **kwargs: Any) -> None:
        """Compiles like `keras.Model`.

        Args:
            optimizer, **kwargs: as in `keras.Model.compile`, without other metrics with `loss_chunk_size`.
            loss: with `loss_chunk_size` a `LabelSmoothedCrossentropy`.
        """
        if self.loss_chunk_size is not None:
            if getattr(type(loss), "call", None) is not LabelSmoothedCrossentropy.call:
                raise ValueError(
                    "`loss` must be a keras_headattn.losses.LabelSmoothedCrossentropy with `loss_chunk_size`; with a "
                    f"smoothing of 0 it is the plain cross-entropy. Received: loss={loss!r}"
                )
            if kwargs.get("loss_weights") is not None:
                raise ValueError(
                    "`loss_weights` must be None with `loss_chunk_size`; scale `sample_weight` instead. "
                    f"Received: loss_weights={kwargs['loss_weights']!r}"
                )
            if unsupported := [name for name in ("metrics", "weighted_metrics") if kwargs.get(name)]:
                raise ValueError(
                    f"`{unsupported[0]}` must be None with `loss_chunk_size`, as metrics get no logits; `accuracy` is "
                    f"always measured. Received: {unsupported[0]}={kwargs[unsupported[0]]!r}"
                )
        super().compile(optimizer, loss, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras does not compile loaded models that override `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built and self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, ChunkedLossModel)}

    def train_step(self, *args: Any) -> Any:
        with self._step():
            return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        with self._step():
            return super().test_step(*args)

    @contextlib.contextmanager
    def _step(self):
        token = _STEPPING.set(_STEPPING.get() if self.loss_chunk_size is None else (*_STEPPING.get(), id(self)))
        try:
            yield
        finally:
            _STEPPING.reset(token)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        if not self.needs_states or self.loss_chunk_size is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        labels = as_labels(y, y_pred)
        kernel, bias = self.output_weights()
        losses, is_right = linear_crossentropy(
            y_pred, kernel, labels, bias, self.loss.label_smoothing, self.loss_chunk_size, self.logits_soft_cap
        )
        self.accuracy.update_state(is_right, sample_weight)
        mean = MeanOfLosses(reduction=self.loss.reduction)
        return with_added_losses(self, mean(labels, losses, sample_weight))

"""Logs as curves in TensorBoard."""

from collections.abc import Collection
from typing import Any

import keras
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn.training._callbacks.writers import WritingCallback


class TensorBoardCurves(WritingCallback):
    """Callback that writes each epoch's logs to TensorBoard, training and validation in one run.

    Curves are named `epoch/loss`, `epoch/val_loss`, `epoch/learning_rate` (after the epoch) and so on; epochs count
    from 1. A resumed run continues its curves. Put it after callbacks that add to the logs.

    Args:
        log_dir: folder of the event files.
        leave_out: names in the logs that are not written. Default: none.
        profile_steps: `(first, last)`, training steps to profile, counted from 1 in each `fit`. Default `None`.

    Raises:
        ValueError: if `profile_steps` are not two ascending numbers from 1.

    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> history = model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0, callbacks=[TensorBoardCurves("logs")])
    """

    def __init__(self, log_dir: Path, leave_out: Collection[str] = (), profile_steps: tuple[int, int] | None = None):
        super().__init__(log_dir)
        self.leave_out = frozenset(leave_out)
        if profile_steps and not (len(profile_steps) == 2 and 0 < profile_steps[0] <= profile_steps[1]):
            raise ValueError(
                f"`profile_steps` must be a first and a last step, from 1. Received: profile_steps={profile_steps}"
            )
        self.profile_steps = tuple(profile_steps or ())
        self._profiles = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        self._step = 0

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        before, self._step = self._step, self._step + self.model.steps_per_execution
        if self.profile_steps and before < self.profile_steps[0] <= self._step:
            tf.profiler.experimental.start(self.log_dir)
            self._profiles = True

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._profiles and self._step >= self.profile_steps[1]:
            self._stop()

    def _stop(self):
        tf.profiler.experimental.stop()
        self._profiles = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        curves = {name: value for name, value in (logs or {}).items() if name not in self.leave_out}
        if "learning_rate" not in self.leave_out:
            curves.setdefault("learning_rate", keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        with self._writer.as_default():
            for name, value in curves.items():
                tf.summary.scalar(f"epoch/{name}", value, step=epoch + 1)
        self._writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._profiles:
            self._stop()
        super().on_train_end(logs)

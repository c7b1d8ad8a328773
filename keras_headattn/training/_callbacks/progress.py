"""Progress reports of `fit`."""

import statistics
import time
import types
from collections.abc import Collection
from typing import Any

import keras
import numpy as np

from keras_headattn._terminal import duration, shows_bar

COMPILES = 5  # times the usual duration of a step, from which it is taken to compile


class Progress(keras.callbacks.ProgbarLogger):
    """Callback that shows progress and the time left: Keras's bar on a terminal, a plain line for each epoch in a log.

    Steps that compile are not counted for the time left.

    It replaces Keras's own report and comes last in `fit(callbacks=[...])`. `fit(verbose=...)` chooses: 1 for the bar,
    2 for lines, 0 for nothing, and `"auto"` (the default) for the bar on a terminal or in a notebook, unless `NO_COLOR`
    is set or `TERM` is `dumb`. A line is `Epoch 3/40: 12 s, about 7 min left - loss 1.234 - val_loss 1.345`.

    Args:
        leave_out: names in the logs that are not shown. Default `("compilations", "training_seconds")`.

    >>> progress = Progress()
    """

    async_safe = True  # Keras need not wait for it in every step

    def __init__(self, leave_out: Collection[str] = ("compilations", "training_seconds")):
        super().__init__()
        self.leave_out = leave_out

    def set_params(self, params: dict[str, Any]) -> None:
        super().set_params(params)
        if params["verbose"] == "auto":
            self.verbose = 1 if shows_bar() else 2

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        # Not plain data: `Resume` must not save it. The seconds are those of the last epoch.
        self._clock = types.SimpleNamespace(begin=time.monotonic(), seconds=0.0)
        self._steps = types.SimpleNamespace(begin=0.0, seconds=[])

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._steps.seconds = []
        if self.verbose == 1:
            if self._clock.seconds and self.epochs > 1:
                print(f"About {self._left(epoch)} left. ", end="")
            super().on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_begin(batch, logs)
        self._steps.begin = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._steps.seconds.append(time.monotonic() - self._steps.begin)
        super().on_train_batch_end(batch, self._shown(logs))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        now = time.monotonic()
        took = now - self._clock.begin
        self._clock = types.SimpleNamespace(begin=now, seconds=took - _compiling(self._steps.seconds))
        shown = self._shown(logs)
        if self.verbose == 1:
            super().on_epoch_end(epoch, shown)
        elif self.verbose:
            left = f", about {self._left(epoch + 1)} left" if epoch + 1 < self.epochs else ""
            values = "".join(f" - {name} {_number(value)}" for name, value in shown.items())
            print(f"Epoch {epoch + 1}/{self.epochs}: {duration(took)}{left}{values}", flush=True)

    def _shown(self, logs):
        return {name: value for name, value in (logs or {}).items() if name not in self.leave_out}

    def _left(self, done):
        return duration((self.epochs - done) * self._clock.seconds)


def _compiling(steps):
    """Returns the seconds that steps took beyond the usual, if they took far longer: those of a new shape.

    >>> _compiling([60.0, 1.0, 1.0, 2.0, 31.0])
    87.0
    """
    usual = statistics.median(steps) if steps else 0.0
    return sum(step - usual for step in steps if step > COMPILES * usual)


def _number(value):
    """Formats a number, or the mean of an array, with four digits.

    >>> [_number(value) for value in (2, 0.5, -12.34567, 15234.5, 0.00012)]
    ['2', '0.5000', '-12.35', '15,234', '0.00012']
    """
    if isinstance(value, int):
        return str(value)
    value = float(np.mean(value))
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.4g}".rstrip(".") if abs(value) >= 1e-3 or not value else f"{value:.3g}"

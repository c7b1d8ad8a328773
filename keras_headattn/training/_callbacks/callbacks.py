"""Callbacks that add to the logs of an epoch what Keras does not, or end training.

Keras's own `TensorBoard` writes losses, metrics and the learning rate; TensorBoard's
`tensorboard.plugins.hparams.api.KerasCallback` writes hyperparameters.

A callback here that adds to the logs comes before those that read them (`EarlyStopping`, `ModelCheckpoint`,
`TensorBoard`) in `fit(callbacks=[...])`.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import keras

from headattn_io.files import Path
from keras_headattn.training._distribution.compilations import count_compilations
from keras_headattn.training._distribution.workers import gather


class Throughput(keras.callbacks.Callback):
    """Adds to the logs of an epoch `training_seconds`, spent in training steps, and `tokens_per_second`, target tokens.

    Validation does not count; compilation, mostly in the first epoch, does. Where `Resume` goes on within an epoch,
    the rest is measured, and the whole is estimated from it.

    Args:
        tokens: Function of no arguments: how many target tokens, or images, the epoch just trained on has.
        name: What the rate is called in the logs. Defaults to `"tokens_per_second"`.

    Example:

    >>> throughput = Throughput(lambda: 120_000)
    >>> images = Throughput(lambda: 50_000, name="images_per_second")
    """

    def __init__(self, tokens: Callable[[], int], name: str = "tokens_per_second"):
        super().__init__()
        self.tokens = tokens
        self.name = name

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._steps = _Steps()

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._steps.first is None:
            self._steps.first, self._steps.begin = batch, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._steps.done, self._steps.end = batch + 1, time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        steps = self._steps
        if steps.first is not None:  # else the epoch was trained before an interruption
            share = 1 - steps.first / steps.done
            logs["training_seconds"] = max(steps.end - steps.begin, 1e-9) / share
            logs[self.name] = self.tokens() / logs["training_seconds"]


@dataclasses.dataclass
class _Steps:
    """The steps of an epoch in this process. `Resume` remembers plain data only, and so not this clock."""

    first: int | None = None
    begin: float = 0.0
    done: int = 0
    end: float = 0.0


class TimeLimit(keras.callbacks.Callback):
    """Ends training where one more epoch, as long as those so far, would pass the limit.

    No epoch is cut short, and at least one is trained. It comes after `Resume` in the list, not into its `callbacks`:
    then the run can go on, and each `fit` has the whole time.

    Args:
        seconds: From the start of `fit`.

    Example:

    >>> one_hour = TimeLimit(3600)
    """

    def __init__(self, seconds: float):
        super().__init__()
        if seconds <= 0:
            raise ValueError(f"`seconds` must be positive. Received: seconds={seconds}")
        self.seconds = seconds

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._clock = _Clock(time.monotonic())

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._clock.epochs += 1
        elapsed = time.monotonic() - self._clock.begin
        is_over = elapsed + elapsed / self._clock.epochs > self.seconds
        if gather([is_over], self.model.distribute_strategy).any():  # clocks of several workers differ
            self.model.stop_training = True


@dataclasses.dataclass
class _Clock:
    """A clock that `Resume` does not remember, as `_Steps`."""

    begin: float
    epochs: int = 0


class EpochScore(keras.callbacks.Callback):
    """Adds a score of the whole model to the logs of an epoch, such as BLEU on the validation set.

    Args:
        score: Function from the model to a number.
        name: Its name in the logs. Defaults to `"val_bleu"`, which `EarlyStopping(monitor="val_bleu", mode="max")`
            reads.

    Example:

    >>> bleu = EpochScore(lambda model: 27.3, name="val_bleu")
    """

    def __init__(self, score: Callable[[keras.Model], float], name: str = "val_bleu"):
        super().__init__()
        self.score = score
        self.name = name

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        # Of several workers all take the first one's: they must not stop at different times.
        logs[self.name] = float(gather([self.score(self.model)], self.model.distribute_strategy)[0, 0])


class Compilations(keras.callbacks.Callback):
    """Adds `compilations` to the logs of an epoch: the programs that training steps have needed so far.

    Validation does not count. The number should be that of the shapes of batches, and stop growing in the first
    epoch. It is printed at the end, unless `fit` is silent.

    Args:
        folder: That of `cache_compilations`: counts what XLA compiles, one program for each shape and replica,
            and does not find there. `None` counts the graphs that TensorFlow makes of the step of a
            `training.Model`; one can serve many shapes.

    Raises:
        ValueError: in `fit`, without `folder`, if the model is not a `training.Model`.

    Example:

    >>> compilations = Compilations()
    """

    def __init__(self, folder: Path | None = None):
        super().__init__()
        self.folder = folder

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        if self.folder is None and not hasattr(model, "num_traces"):
            raise ValueError(
                "`Compilations` needs a `keras_headattn.training.Model`, or the folder of `cache_compilations`. "
                f"Received: folder=None and a model of type {type(model)}"
            )

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._total = 0

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._before = self._programs()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._total += self._programs() - self._before

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        logs["compilations"] = self._total

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self.params.get("verbose"):
            made = "Graphs made" if self.folder is None else "Programs compiled by XLA"
            print(f"{made} for training steps: {self._total}")

    def _programs(self):
        return self.model.num_traces if self.folder is None else count_compilations(self.folder)


class Utilization(keras.callbacks.Callback):
    """Adds `flops_utilization` to the logs of an epoch: the share of the devices' speed that the model puts to use.

    It is the number of operations that the model needs by its formulas, over the number that the devices could have
    done. Operations for padding, and those done a second time, are not needed.

    Source: Chowdhery et al. 2022, "PaLM", appendix B, "model FLOPs utilization".

    Args:
        flops_per_token: Operations of forward and backward pass for one target token, about 6 for each weight
            that a token meets.
        peak_flops: Operations per second of all devices together, at most, in the precision used.

    Comes after `Throughput`.

    Example:

    >>> utilization = Utilization(flops_per_token=6 * 60e6, peak_flops=3e14)
    """

    def __init__(self, flops_per_token: float, peak_flops: float):
        super().__init__()
        if peak_flops <= 0:
            raise ValueError(f"`peak_flops` must be positive. Received: peak_flops={peak_flops}")
        self.flops_per_token = flops_per_token
        self.peak_flops = peak_flops

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        if "tokens_per_second" in logs:
            logs["flops_utilization"] = logs["tokens_per_second"] * self.flops_per_token / self.peak_flops

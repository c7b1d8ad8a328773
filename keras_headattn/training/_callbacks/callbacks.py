"""Callbacks that end training or add to its logs; put the latter before those that read logs (`EarlyStopping`)."""

import time
import types
from collections.abc import Callable
from typing import Any

import keras

from keras_headattn._files import Path
from keras_headattn.training._distribution.compilations import count_compilations
from keras_headattn.training._distribution.workers import gather


class Throughput(keras.callbacks.Callback):
    """Callback that logs `training_seconds` and `tokens_per_second` of an epoch's training steps.

    Validation does not count; compilation does. If `Resume` continues within an epoch, the rest is extrapolated to the
    whole epoch.

    Args:
        tokens: function of no arguments to the number of target tokens (or images) in the epoch just trained on.
        name: str, name of the rate in the logs. Default `"tokens_per_second"`.

    >>> throughput = Throughput(lambda: 120_000)
    >>> images = Throughput(lambda: 50_000, name="images_per_second")
    """

    def __init__(self, tokens: Callable[[], int], name: str = "tokens_per_second"):
        super().__init__()
        self.tokens = tokens
        self.name = name

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        # Not plain data: `Resume` must not save it.
        self._steps = types.SimpleNamespace(first=None, begin=0.0, done=0, end=0.0)

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


class TimeLimit(keras.callbacks.Callback):
    """Callback that ends training if another epoch, as long as the mean so far, would pass a time limit.

    At least one epoch is trained. Put it after `Resume`, not in its `callbacks`, so that each `fit` gets the whole
    time.

    Args:
        seconds: number, from the start of `fit`.

    >>> one_hour = TimeLimit(3600)
    """

    def __init__(self, seconds: float):
        super().__init__()
        if seconds <= 0:
            raise ValueError(f"`seconds` must be positive. Received: seconds={seconds}")
        self.seconds = seconds

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._clock = types.SimpleNamespace(begin=time.monotonic(), epochs=0)  # not plain data, as above

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._clock.epochs += 1
        elapsed = time.monotonic() - self._clock.begin
        is_over = elapsed + elapsed / self._clock.epochs > self.seconds
        if gather([is_over], self.model.distribute_strategy).any():  # workers' clocks differ
            self.model.stop_training = True


class EpochScore(keras.callbacks.Callback):
    """Callback that logs a score of the whole model, such as BLEU on the validation set.

    Args:
        score: function of the model to a number.
        name: str, name in the logs. Default `"val_bleu"`, as in `EarlyStopping(monitor="val_bleu", mode="max")`.

    >>> bleu = EpochScore(lambda model: 27.3, name="val_bleu")
    """

    def __init__(self, score: Callable[[keras.Model], float], name: str = "val_bleu"):
        super().__init__()
        self.score = score
        self.name = name

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        # All workers use the first one's score, so that they stop together.
        logs[self.name] = float(gather([self.score(self.model)], self.model.distribute_strategy)[0, 0])


class Compilations(keras.callbacks.Callback):
    """Callback that logs and prints `compilations`, the number of programs compiled for training steps so far.

    It should equal the number of batch shapes, and not grow after the first epoch.

    Args:
        folder: path given to `cache_compilations`, to count the programs that XLA adds there, for each shape and
            replica. Default `None`: the number of graphs traced for the step of a `training.Model`.

    Raises:
        ValueError: in `fit`, without `folder`, if the model is not a `training.Model`.

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
    """Callback that logs `flops_utilization`, the model's operations as a fraction of the devices' peak.

    Padding and recomputed operations are not counted. Put it after `Throughput`.

    Source: Chowdhery et al. 2022, "PaLM", appendix B, "model FLOPs utilization".

    Args:
        flops_per_token: operations of forward and backward pass for a target token, about 6 per weight.
        peak_flops: number, peak operations per second of all devices together.

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

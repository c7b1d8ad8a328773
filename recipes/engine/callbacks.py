"""The callbacks of all recipes, in their order, and the weights that they keep."""

import functools
import json
import math

import keras
from keras.callbacks import LambdaCallback

from keras_headattn._files import write_atomically
from keras_headattn.training import (
    Compilations,
    GradientNorm,
    Progress,
    Resume,
    Throughput,
    TimeLimit,
    average_weights,
    gather,
)
from recipes.engine.report import shown_settings, tensorboard_callbacks

NAMES = {
    "loss": "training loss",
    "val_loss": "validation loss",
    "val_accuracy": "validation accuracy",
    "val_score": "validation score",
}


def make_callbacks(run, model, batches, throughput, scores, reports, shown, details):
    """Returns callbacks in the order in which they read each other's logs: throughput, scores, saving, TensorBoard.

    With several workers the first one writes; all take part in what sums over them. Takes a `Session`, and what its
    `fit` does.
    """
    config, arguments = run.config, run.config.callback_arguments
    norms = [GradientNorm()] if arguments["gradient_norm"] else []
    scores = scores(model) if scores else []
    visible = []
    if run.is_chief:
        remembered = [Throughput(*throughput), *norms, *(reports(model) if reports else []), *scores]
        remembered.append(SaveEpochs(run, model, config.select, config.average, config.average_of))
        # A run's folder may be moved: what writes to TensorBoard is not remembered.
        # Settings come first: without its fast data server TensorBoard follows the newest file of a folder alone.
        visible = [LambdaCallback(on_train_begin=lambda logs: run.save_config(config))]  # after `Resume` found no fault
        begin = functools.partial(run.loggers.open, shown_settings(config))
        visible.append(LambdaCallback(on_train_begin=lambda logs: begin(), on_epoch_end=run.loggers.log_epoch))
        visible.append(LambdaCallback(on_train_begin=lambda logs: run.begin()))
        visible.append(Compilations(config.xla_cache))
        visible += tensorboard_callbacks(run, shown_settings(config), arguments["profile_steps"])
        visible += shown(model) if shown else []
    else:
        remembered = [*norms, *scores]
    if config.optimizer_arguments.get("use_ema"):
        averages = MovingAverages()
        remembered = [averages, *remembered, LambdaCallback(on_epoch_end=lambda epoch, logs: averages.restore())]
    # Nor are reasons to stop: the same command continues with more time or patience.
    ends = [StopWhenStalled(run, config.patience, config.select)]
    if config.time_limit:
        ends.append(TimeLimit(60 * config.time_limit))
    progress = Progress(leave_out=("compilations", "training_seconds", *details))
    resume = Resume(run.checkpoints, batches, remembered, every=arguments["save_steps"])
    return [FiniteLoss(run), resume, *visible, *ends, progress]


class SaveEpochs(keras.callbacks.Callback):
    """Keeps the logs of all epochs, and the weights of the best one and of those that the final ones are made of.

    The arguments after `run` and the model are those of `final_epochs`.
    """

    def __init__(self, run, model, select="val_loss", average=1, average_of="best"):
        super().__init__()
        self.run = run
        self.trained = model
        self.select, self.average, self.average_of = select, average, average_of

    def on_epoch_end(self, epoch, logs=None):
        try:
            self._save(epoch, logs)
        except OSError as error:
            newest = max(self.run.checkpoints.glob("epoch-*.npz"), default="none")
            raise OSError(
                f"The weights of epoch {epoch + 1} cannot be written: {error}. The newest checkpoint is {newest}."
            ) from error

    def _save(self, epoch, logs):
        done = epoch + 1
        history = [*self.run.history()[:epoch], {name: float(value) for name, value in (logs or {}).items()}]
        check_select(self.select, history[-1])
        self.run.save_model(self.trained, weights_of(self.run, done))
        write_atomically(self.run.folder / "history.json", json.dumps(history, indent=1).encode())
        # An epoch that is interrupted after this point is repeated, on GPUs perhaps with a slightly different result.
        kept = set()
        for known in filter(None, (history, history[:-1])):
            epochs = best_epoch(known, self.select), *final_epochs(known, self.select, self.average, self.average_of)
            kept |= {weights_of(self.run, n) for n in epochs}
        for path in self.run.checkpoints.glob("*.weights.h5"):
            if path not in kept:
                path.unlink()


class FiniteLoss(keras.callbacks.Callback):
    """Ends training with an error at the first loss that is not finite, before its weights are kept.

    It comes before `Resume`, whose checkpoints stay as they were.
    """

    def __init__(self, run):
        super().__init__()
        self.run = run

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch, logs=None):
        self._check("loss", logs, f"step {batch + 1} of epoch {self._epoch}")

    def on_epoch_end(self, epoch, logs=None):
        self._check("val_loss", logs, f"epoch {epoch + 1}")

    def _check(self, name, logs, position):
        value = (logs or {}).get(name, 0.0)
        if not math.isfinite(value):
            raise ValueError(
                f"The {NAMES[name]} must be finite, and is not in {position}. Give another --run and a lower "
                "--learning-rate, clip gradients (--optimizer-arguments global_clipnorm=1), or look for extreme values "
                f"in the data. {self.run.folder} keeps what it had before. Received: {name}={value}"
            )


class StopWhenStalled(keras.callbacks.Callback):
    """Ends training when validation gets no better, over all epochs of the run; see `has_stalled`.

    `Resume` is not to see it: with more patience the run may go on.
    """

    def __init__(self, run, patience, select="val_loss"):
        super().__init__()
        self.run = run
        self.patience = patience
        self.select = select

    def on_epoch_end(self, epoch, logs=None):
        stalled = has_stalled(self.run.history(), self.patience, self.select)
        if gather([stalled], self.model.distribute_strategy).any():  # workers may see different versions of the file
            print(f"\nNo better {NAMES.get(self.select, self.select)} for {self.patience} epochs: training ends.")
            self.model.stop_training = True


class MovingAverages(keras.callbacks.Callback):
    """Gives the model the moving averages of its weights, which the optimizer keeps with `use_ema`, for a while.

    For validation, and from the end of an epoch to `restore`: for callbacks that score or save the model. Unlike
    `SwapEMAWeights` it changes no weight by rounding.
    """

    def on_test_begin(self, logs=None):
        variables = self.model.trainable_variables
        weights = [keras.ops.convert_to_numpy(variable) for variable in variables]
        self.model.optimizer.finalize_variable_values(variables)
        self._taken = lambda: zip(variables, weights, strict=True)  # a function, which `Resume` does not remember

    def on_test_end(self, logs=None):
        self.restore()

    def on_epoch_end(self, epoch, logs=None):
        self.on_test_begin()

    def restore(self):
        """Gives the model its own weights again."""
        for variable, weight in self._taken():
            variable.assign(weight)


def weights_of(run, epoch):
    """File of the weights after `epoch` (1 = the first)."""
    return run.checkpoints / f"epoch-{epoch:03d}.weights.h5"


def best_epoch(history, select="val_loss"):
    """Returns the epoch (1 = the first) with the lowest `"val_loss"`, or the highest value of another log.

    Of equal epochs the first counts.
    """
    return _from_best(history, select)[0]


def _from_best(history, select):
    """All epochs (1 = the first), the best one first."""
    sign = 1 if select == "val_loss" else -1
    return sorted(range(1, len(history) + 1), key=lambda epoch: sign * history[epoch - 1][select])


def check_select(select, names):
    """Checks that one of the logs of an epoch is that by which epochs are compared."""
    if select not in names:
        known = ", ".join(sorted(name for name in names if name.startswith("val_")))
        raise ValueError(f"--select must be a measure of validation: {known}. Received: select={select!r}")


def has_stalled(history, patience, select="val_loss"):
    """True if the last `patience` epochs (`None`: any number) brought no better validation loss, accuracy or score.

    >>> has_stalled([{"val_loss": 2.0}, {"val_loss": 3.0}], patience=1)
    True
    """
    return bool(history) and patience is not None and len(history) - best_epoch(history, select) >= patience


def final_epochs(history, select="val_loss", average=1, average_of="best"):
    """The epochs (1 = the first) whose mean the final weights are: the best or the last (`average_of`) `average`
    epochs.

    >>> final_epochs([{"val_loss": 1.0}, {"val_loss": 3.0}, {"val_loss": 2.0}], average=2)
    [1, 3]
    """
    if average_of == "last":
        return list(range(1, len(history) + 1))[-average:]
    return sorted(_from_best(history, select)[:average])


def finish(run, model, epochs):
    """Gives `model` its final weights, the mean of those of some epochs, and saves it."""
    average_weights(model, [weights_of(run, epoch) for epoch in epochs])
    run.save_model(model, run.model)

"""The callbacks of all recipes, in their order."""

import functools

from keras.callbacks import LambdaCallback

from keras_headattn.training import Compilations, GradientNorm, Progress, Resume, Throughput, TimeLimit
from recipes.engine.checkpoints import FiniteLoss, MovingAverages, SaveEpochs, StopWhenStalled
from recipes.engine.tensorboard import shown_settings, tensorboard_callbacks


def make_callbacks(run, model, batches, throughput, scores, reports, shown, details):
    """Returns callbacks in the order in which they read each other's logs: throughput, scores, saving, TensorBoard.

    With several workers the first one writes; all take part in what sums over them. Takes a `Session`, and what its
    `fit` does.
    """
    config, given = run.config, run.config.callback_arguments
    norms = [GradientNorm()] if given["gradient_norm"] else []
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
        visible += tensorboard_callbacks(run, shown_settings(config), given["profile_steps"])
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
    resume = Resume(run.checkpoints, batches, remembered, every=given["save_steps"])
    return [FiniteLoss(run), resume, *visible, *ends, progress]

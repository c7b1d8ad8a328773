"""Reports of a run while it trains."""

import keras
from tensorboard.plugins.hparams import api as hparams

from keras_headattn.training import Compilations, GradientNorm, Resume, Throughput, TimeLimit, is_chief
from recipes.engine.checkpoints import SaveEpochs, StopWhenStalled


def make_callbacks(config, run, classifier, batches):
    """Throughput, saving, TensorBoard: in the order in which they read each other's logs."""
    callbacks = [GradientNorm()] if config.gradient_norm else []
    shown = []
    if is_chief(classifier.distribute_strategy):  # of several workers, the first one writes
        callbacks.insert(0, Throughput(lambda: batches.num_examples, "texts_per_second"))
        callbacks.append(SaveEpochs(run, classifier, config.average, config.average_of, config.select))
        # What writes to TensorBoard is not to be remembered: a run's folder may be moved.
        shown = [Compilations(), *_tensorboard(config, run)]
    # Nor is what ends training: the same command, with more time or patience, goes on.
    ends = [StopWhenStalled(run, config.patience, config.select)]
    if config.time_limit:
        ends.append(TimeLimit(60 * config.time_limit))
    return [Resume(run.checkpoints, batches, callbacks, every=config.save_steps), *shown, *ends]


def _tensorboard(config, run):
    """Curves, histograms and settings."""
    log_dir = str(run.folder / "tensorboard")
    settings = {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, (int, float, str)) and name not in ("run", "export")
    }
    return [
        keras.callbacks.TensorBoard(log_dir, write_graph=False, profile_batch=config.profile_steps or 0),
        hparams.KerasCallback(log_dir, settings, trial_id=config.run),
    ]

"""Reports of a run while it trains."""

from keras_headattn.training import Compilations, GradientNorm, Progress, Resume, Throughput, TimeLimit, is_chief
from recipes.engine.checkpoints import SaveEpochs, StopWhenStalled
from recipes.engine.tensorboard import tensorboard_callbacks


def make_callbacks(task, model, batches, validation):
    """Throughput, scores, saving, TensorBoard: in the order in which they read each other's logs.

    With several workers the first one writes; all take part in what sums over them.
    """
    config, run = task.config, task.run
    norms = [GradientNorm()] if config.gradient_norm else []
    shown = []
    if is_chief(model.distribute_strategy):
        remembered = [Throughput(*task.throughput(batches)), *norms, *task.reports(model, batches)]
        remembered += [*task.scores(model), SaveEpochs(run, model, config)]
        # A run's folder may be moved: what writes to TensorBoard is not remembered.
        # Settings come first: without its fast data server TensorBoard follows the newest file of a folder alone.
        shown = [Compilations(config.xla_cache), *tensorboard_callbacks(config, run)]
        shown += task.shown(model, batches, validation)
    else:
        remembered = [*norms, *task.scores(model)]
    # Nor is what ends training: the same command, with more time or patience, goes on.
    ends = [StopWhenStalled(run, config.patience, config.select)]
    if config.time_limit:
        ends.append(TimeLimit(60 * config.time_limit))
    return [Resume(run.checkpoints, batches, remembered, every=config.save_steps), *shown, *ends, Progress()]

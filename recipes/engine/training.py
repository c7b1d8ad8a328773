"""Training of any recipe's task, to its evaluation and export."""

import contextlib
import functools
import itertools
import json
import math
import os
import shutil
import statistics
import sys
import time

import keras
import tensorflow as tf
from keras.callbacks import LambdaCallback

from keras_headattn._terminal import duration
from keras_headattn.layers import merge_lora
from keras_headattn.optimizers import Repulsive
from keras_headattn.serving import check_export_folder
from keras_headattn.training import (
    Compilations,
    GradientNorm,
    Model,
    Progress,
    Resume,
    Throughput,
    TimeLimit,
    gather,
    is_chief,
    leave_together,
    make_strategy,
)
from recipes.engine.checkpoints import (
    FiniteLoss,
    MovingAverages,
    SaveEpochs,
    StopWhenStalled,
    final_epochs,
    finish,
    has_stalled,
)
from recipes.engine.config import passing_on
from recipes.engine.exporting import export
from recipes.engine.lock import locked
from recipes.engine.lora import adapt
from recipes.engine.proportions import remark_on_size, remark_on_warmup
from recipes.engine.quiet import silence
from recipes.engine.run import try_folder
from recipes.engine.tensorboard import shown_settings, tensorboard_callbacks, write_scores

DRY_RUN_STEPS = 20
LARGE = 10_000_000  # weights from which compiling their update by XLA pays off on a CPU


def train(task, afresh=False):
    """Trains to the end, or on from the last checkpoint; then evaluates, exports and tries the SavedModel.

    With `afresh`, what an earlier run left in the folder is removed once the data were read.
    """
    with _ready(task) as strategy, full_disk_reported(), task.loggers.closing():
        folders = task.export_folders() if task.config.export else ()
        starting = task.run.starting(folders) if is_chief(strategy) else contextlib.nullcontext()
        with silence(task.config.quiet), starting:
            model = _learn(task, strategy, afresh)
        if is_chief(strategy):
            end(task, model)


@contextlib.contextmanager
def full_disk_reported():
    """Turns TensorFlow's error of a full disk, of the files of TensorBoard say, into an `OSError`."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        if "space left" not in error.message:
            raise
        line = error.message.splitlines()[0]
        raise OSError(f"The disk is full. Make room, and the same command goes on. Received: {line}") from error


def end(task, model):
    """Finishes a trained model, or the one in its file (`None`): final weights, scores, SavedModels.

    The last two are of the model in the file. What an earlier command did after as many epochs, with the same settings,
    is not done again.
    """
    config, run = task.config, task.run
    history = run.history()
    if model is not None:
        if _lora_rank(config) is not None:
            merge_lora(model)
        epochs = final_epochs(history, config.select, config.average, config.average_of)
        finish(run, model, epochs)
        sizes = {"parameters": model.count_params(), "flops": task.flops(model)}
        run.note_finished({"epochs": len(history), **sizes})
        with silence(config.quiet):
            print(f"Final weights: mean of epochs {epochs}" if len(epochs) > 1 else f"Final weights: epoch {epochs[0]}")
    left = _left_to_do(task)
    if not left:
        with silence(config.quiet):
            again = f"python -m recipes.{run.recipe.name} {'export' if config.export else 'evaluate'} {config.run}"
            print(f"The run has finished, and nothing is left to do. To {again.split()[3]} it again: {again}")
        return
    model = run.load_model()
    if "scores" in left:
        task.evaluate(model, task.data.tests)
        write_scores(run)
        run.note_finished({"scores": left["scores"]})
    if "export" in left:
        export(task, model, {"export": left["export"]})
    if "logged" in left:
        task.loggers.open(shown_settings(config))
        task.loggers.log_scores(run.scores())
        run.note_finished({"logged": left["logged"]})
    run.save_config(config)
    with silence(config.quiet):
        for command in task.next_commands():
            print(f"Next: {command}")


def _left_to_do(task):
    """Returns the parts of the end that are not done yet with these settings: dictionary of a part to its settings."""
    config, recipe, done = task.config, task.run.recipe, task.run.finished()
    wanted = {"scores": {name: getattr(config, name) for name in recipe.evaluated}}
    if config.export:
        own = {name: getattr(config, name) for name in recipe.exported}
        wanted["export"] = own | {"export": config.export_folder}
    if config.loggers:
        wanted["logged"] = wanted["scores"] | {"loggers": config.loggers}
    wanted = json.loads(json.dumps(wanted))
    return {name: values for name, values in wanted.items() if done.get(name) != values}


@contextlib.contextmanager
def _ready(task):
    """Context with a strategy, in a seeded process that is the only one training in the run's folder.

    Of several workers the first alone writes and prints, and all end when the last is done.
    """
    config = task.config
    strategy = make_strategy(config.replicas, config.strategy)
    if not is_chief(strategy):
        sys.stdout = open(os.devnull, "w")  # all workers would print the same
    if getattr(config, "model_arguments", None):  # recipes of one's own may have none
        task.try_model()
        keras.backend.clear_session()  # names and random numbers start afresh
    keras.utils.set_random_seed(config.seed)
    keras.config.set_dtype_policy(config.precision)
    task.check()
    task.make_optimizer(1, 1)  # a mistake in its settings is reported before data are read
    taken = f"Another process is training in this folder. Wait for it, or give another --run. Received: {config.run}"
    is_new = not task.run.folder.exists()
    if is_chief(strategy):
        try_folder("--run", config.run)
    with locked(config.run, taken, is_new) if is_chief(strategy) else contextlib.nullcontext():
        if is_chief(strategy):
            task.run.remove_halves()
        yield strategy
        leave_together(strategy)


def _learn(task, strategy, afresh):
    """Reads the data, prepares the run and trains; returns the model, or `None` if the run has its final one."""
    _prepare(task, strategy, afresh)
    if gather([_is_done(task)], strategy).any():
        print("There is no epoch left to train.")
        if gather([task.run.finished().get("epochs") == len(task.run.history())], strategy).any():
            return None
    batches, validation = task.make_batches(strategy.num_replicas_in_sync)
    print(batches.summary())
    model, trainer = make_trainer(task, strategy, len(batches), **task.config.compile_arguments)
    if gather([_is_done(task)], strategy).any():
        return model
    _fit(task, model, trainer, batches, validation)
    return model


def _prepare(task, strategy, afresh):
    """Reads the data, and makes or checks the folder of the run."""
    report_hidden_gpus()
    with _chief_first(strategy):
        if not afresh:
            task.run.check(task.config)
        task.load()  # may download
        data = task.fingerprint()
        if not afresh:
            task.run.check_data(data)
        if not task.data.tests:
            print("There is no test set: nothing will be scored. Give --test, or score one later by `evaluate`.")
        if is_chief(strategy):
            for folder in task.export_folders() if task.config.export else ():
                check_export_folder(folder, task.config.run)
            if afresh:
                task.run.set_aside()
            task.run.start(task.config, data)
        task.prepare()


def make_trainer(task, strategy, steps, jit_compile=None, steps_per_execution=1, model=None):
    """Returns the model and, compiled, what trains it, for so many steps an epoch; the rest is as of `compile`.

    The model is a new one by default, or that of `prune` in the run's folder.
    """
    num_replicas = strategy.num_replicas_in_sync
    jit_compile = task.uses_xla() if jit_compile is None else jit_compile
    with strategy.scope():
        model = model or _first_model(task)
        trainer = task.make_trainer(model)
        trainer.compile(
            optimizer=task.make_optimizer(steps, num_replicas),
            loss=task.make_loss(),
            weighted_metrics=task.make_metrics() or None,  # an empty list is an error in Keras
            jit_compile=jit_compile,
            steps_per_execution=steps_per_execution,
        )
        trainer.jit_update = model.count_params() >= LARGE
    print(
        f"{model.count_params():,} parameters, {task.describe()}, {num_replicas} replica(s), "
        f"XLA {'on' if jit_compile else 'off'}"
    )
    _remark(task, trainer, steps)
    return model, trainer


def _first_model(task):
    """Returns the model that training begins with; of a resumed run, before its weights are restored."""
    model = task.run.load_pruned()
    if model is None:
        model = task.make_model()
        if not task.run.has_checkpoint():
            task.begin(model)
    rank = _lora_rank(task.config)
    if rank is not None:
        adapt(task.adapted(model), rank, task.config.lora_alpha)
    return model


def _lora_rank(config):
    """Returns the rank of `--lora-rank`; `None` for none, and in recipes without it."""
    return getattr(config, "lora_rank", None)


def column_trainer(columns, call):
    """Returns a model to train: of integer inputs `(B, n)` of these names, given to `call` as a dictionary.

    Its output has no Keras mask, which would scale the loss of batches that are weighted already.
    """
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in columns}
    return Model(inputs, keras.ops.copy(call(inputs)), name="trainer")


def _remark(task, trainer, steps):
    """Prints, before a run begins, that its model is large for the data, or its warm-up long."""
    if task.run.has_checkpoint():
        return
    parameters = sum(math.prod(variable.shape) for variable in trainer.trainable_variables)
    remarks = remark_on_size(task.config, parameters, task.run.num_examples())
    for remark in (remarks, remark_on_warmup(task.config, task.warmup(steps), task.config.epochs * steps)):
        if remark:
            print(remark)


def _fit(task, model, trainer, batches, validation):
    """Trains the model, from the run's last checkpoint if there is one."""
    config = task.config
    start = time.monotonic()
    with _fault_of(batches):
        trainer.fit(
            batches.dataset(),
            validation_data=validation.dataset(),
            epochs=config.epochs,
            shuffle=False,  # batches have their own order, which a resumed run repeats
            verbose=0 if config.quiet else "auto",
            callbacks=make_callbacks(task, model, batches, validation, **config.callback_arguments),
        )
    print(f"Trained for {(time.monotonic() - start) / 60:.1f} minutes.")


def dry_run(task):
    """Reads the data, builds the model and times a few training steps, in a folder that is removed afterwards."""
    times = []
    with _ready(task) as strategy:
        _prepare(task, strategy, afresh=False)
        batches, _ = task.make_batches(strategy.num_replicas_in_sync)
        print(batches.summary())
        _, trainer = make_trainer(task, strategy, len(batches), **task.config.compile_arguments)
        clock = LambdaCallback(on_train_batch_end=lambda step, logs: times.append(time.monotonic()))
        steps = min(DRY_RUN_STEPS, len(batches))
        with _fault_of(batches):
            trainer.fit(batches.dataset(), steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[clock])
    if len(times) < 2:
        print("An epoch has one step: too few to time.")
        return
    step = statistics.median(after - before for before, after in itertools.pairwise(times))
    epoch, epochs = step * len(batches), task.config.epochs
    print(
        f"About {step:.2g} s a step: {duration(epoch)} an epoch, at most {duration(epoch * epochs)} for {epochs} "
        "epochs, without compilation and validation."
    )


def _is_done(task):
    """True if no epoch is left to train."""
    config, history = task.config, task.run.history()
    return len(history) >= config.epochs or has_stalled(history, config.patience, config.select)


@contextlib.contextmanager
def _fault_of(batches):
    """Raises the error of batches that cannot be read, in place of TensorFlow's."""
    try:
        yield
    except tf.errors.OpError as error:
        if getattr(batches, "fault", None) is None:
            raise
        raise batches.fault from error


def make_callbacks(task, model, batches, validation, save_steps=1000, gradient_norm=False, profile_steps=()):
    """Returns callbacks in the order in which they read each other's logs: throughput, scores, saving, TensorBoard.

    With several workers the first one writes; all take part in what sums over them.
    """
    config, run = task.config, task.run
    norms = [GradientNorm()] if gradient_norm else []
    shown = []
    if is_chief(model.distribute_strategy):
        remembered = [Throughput(*task.throughput(batches)), *norms, *task.reports(model, batches)]
        remembered += [*task.scores(model), SaveEpochs(run, model, config.select, config.average, config.average_of)]
        # A run's folder may be moved: what writes to TensorBoard is not remembered.
        # Settings come first: without its fast data server TensorBoard follows the newest file of a folder alone.
        shown = [LambdaCallback(on_train_begin=lambda logs: run.save_config(config))]  # after `Resume` found no fault
        begin = functools.partial(task.loggers.open, shown_settings(config))
        shown.append(LambdaCallback(on_train_begin=lambda logs: begin(), on_epoch_end=task.loggers.log_epoch))
        shown.append(LambdaCallback(on_train_begin=lambda logs: run.begin()))
        shown += [Compilations(config.xla_cache), *tensorboard_callbacks(run, shown_settings(config), profile_steps)]
        shown += task.shown(model, batches, validation)
    else:
        remembered = [*norms, *task.scores(model)]
    if config.optimizer_arguments.get("use_ema"):
        averages = MovingAverages()
        remembered = [averages, *remembered, LambdaCallback(on_epoch_end=lambda epoch, logs: averages.restore())]
    # Nor are reasons to stop: the same command continues with more time or patience.
    ends = [StopWhenStalled(run, config.patience, config.select)]
    if config.time_limit:
        ends.append(TimeLimit(60 * config.time_limit))
    progress = Progress(leave_out=("compilations", "training_seconds", *task.details))
    resume = Resume(run.checkpoints, batches, remembered, every=save_steps)
    return [FiniteLoss(run), resume, *shown, *ends, progress]


def report_hidden_gpus():
    """Prints what to install if the machine has NVIDIA GPUs that TensorFlow does not see."""
    if shutil.which("nvidia-smi") and not tf.config.list_physical_devices("GPU"):
        print(
            "This machine has nvidia-smi, but TensorFlow sees no GPU. Its CUDA libraries are installed by: "
            'pip install -e ".[recipes,gpu]"'
        )


def make_optimizer(config, optimizer, **arguments):
    """Returns a Keras optimizer of this class with the shared settings, and around it what keeps heads apart."""
    with passing_on("optimizer_arguments"):
        optimizer = optimizer(**arguments, **config.optimizer_arguments)
    if config.repulsive == "none":
        return optimizer
    with passing_on("repulsive_arguments"):
        return Repulsive(optimizer, method=config.repulsive, seed=config.seed, **config.repulsive_arguments)


@contextlib.contextmanager
def _chief_first(strategy):
    """Lets the first worker run a block, such as one that prepares files, before the others do."""
    if not is_chief(strategy):
        gather([0], strategy)
    yield
    if is_chief(strategy):
        gather([0], strategy)

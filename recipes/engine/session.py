"""Training of a run, from the settings to SavedModels: what all recipes do alike."""

import contextlib
import itertools
import json
import os
import shutil
import statistics
import sys
import time
import warnings

import keras
import tensorflow as tf
from keras.callbacks import LambdaCallback

from keras_headattn._terminal import duration
from keras_headattn.serving import check_export_folder
from keras_headattn.training import Model, default_jit, gather, is_chief, leave_together
from recipes.engine.callbacks import check_select, final_epochs, finish, has_stalled, make_callbacks
from recipes.engine.command import program
from recipes.engine.config import passing_on
from recipes.engine.data import fingerprint
from recipes.engine.exporting import export
from recipes.engine.loggers import RunLoggers
from recipes.engine.modelling import remark_on_size, remark_on_warmup
from recipes.engine.quiet import silence
from recipes.engine.report import shown_settings, write_scores
from recipes.engine.run import Run, locked, try_folder

DRY_RUN_STEPS = 20
LARGE = 10_000_000  # weights from which compiling their update by XLA pays off on a CPU


class Session(Run):
    """A run while it is trained. A recipe calls its methods from top to bottom.

    Args:
        config: the settings.
        recipe: `Recipe`.
        strategy: `tf.distribute.Strategy` of the devices.
        afresh: True to remove what an earlier run left in the folder, once the data were read.
    """

    def __init__(self, config, recipe, strategy, afresh=False):
        super().__init__(config.run, recipe)
        self.config, self.strategy, self.afresh = config, strategy, afresh
        self.num_replicas = strategy.num_replicas_in_sync
        self.is_chief = is_chief(strategy)
        self.loggers = RunLoggers(config.loggers, self, config.quiet)
        self._quiet = contextlib.ExitStack()  # until scores are printed
        self._worked = False  # the command had something to do
        self._model = None

    def read(self, read, describe=fingerprint):
        """Reads the data by a function, and starts the run; returns `Corpora`.

        `describe` returns sizes and checksums of data: a run goes on with those that it was begun with.
        """
        report_hidden_gpus()
        return self.once(lambda: self._read(read, describe))

    def _read(self, read, describe):
        if not self.afresh:
            self.check(self.config)
        corpora = read()  # may download
        data = describe(corpora)
        if not self.afresh:
            self.check_data(data)
        self._tests = list(corpora.tests)
        if not corpora.tests:
            print("There is no test set: nothing will be scored. Give --test, or score one later by `evaluate`.")
        if self.is_chief:
            for folder in self.config.export_folders:
                with passing_on("export"):
                    check_export_folder(folder, self.config.run)
            if self.afresh:
                self.set_aside()
            self.start(self.config, data)
        return corpora

    def check(self, config):
        super().check(config)
        if self.model.exists() and not self.has_checkpoint() and not self._is_trained():
            raise ValueError(
                "The run has finished, and has no checkpoint to go on from for more epochs. Give another --run, or at "
                f"most --epochs {len(self.history())}. Received: --epochs {config.epochs} without {self.checkpoints}"
            )

    def once(self, make):
        """Calls a function that reads or makes files of the run: on the first worker before the others."""
        if not self.is_chief:
            gather([0], self.strategy)
        result = make()
        if self.is_chief:
            gather([0], self.strategy)
        return result

    def is_unfinished(self):
        """Returns True if `fit` has something to do. Prints it if no epoch is left."""
        if gather([not self._is_trained()], self.strategy).all():
            return True
        print("There is no epoch left to train.")
        return not gather([self.finished().get("epochs") == len(self.history())], self.strategy).any()

    def _is_trained(self):
        history = self.history()
        stalled = has_stalled(history, self.config.patience, self.config.select)
        return len(history) >= self.config.epochs or stalled

    def fit(
        self,
        batches,
        validation,
        model,
        *,
        optimizer,
        loss,
        throughput,
        metrics=list,
        trainer=None,
        scores=None,
        reports=None,
        shown=None,
        details=(),
        jit_compile=None,
        warmup=0,
        merge=None,
        flops=None,
    ):
        """Trains a model, from the run's last checkpoint if there is one, and gives it its final weights.

        Args:
            batches, validation: data to train and validate on, with `dataset()` and `summary()`.
            model: function that returns the model that is saved, new, or of a run that `prune` made.
            optimizer: function of the model that returns the optimizer.
            loss: the loss.
            throughput: a function that counts things in an epoch, and the name of their number a second in the logs.
            metrics: function that returns a list of metrics, weighted as the loss is.
            trainer: function of the model that returns what is trained around it. Default `None`: the model.
            scores: function of the model that returns callbacks that score it, in which all workers take part.
            reports: function of the model that returns callbacks whose memory a resumed run has.
            shown: function of the model that returns callbacks without memory, of the first worker alone.
            details: names of logs that only history and TensorBoard show.
            jit_compile: whether XLA compiles where the settings leave that open. Default `None`: where it is faster.
            warmup: int, the steps in which the learning rate rises.
            merge: function of the model that is called before it gets its final weights. Default `None`.
            flops: function of the model that counts its operations on one example, for tables. Default `None`.
        """
        self._worked = True
        self._check_updates(len(batches))
        print(batches.summary())
        model, built = self.build(model, trainer, optimizer, loss, metrics, jit_compile)
        if not (scores or reports):
            self._check_select(built)
        self._remark(built, warmup, len(batches))
        if not gather([self._is_trained()], self.strategy).any():
            callbacks = make_callbacks(self, model, batches, throughput, scores, reports, shown, details)
            start = time.monotonic()
            with fault_of(batches):
                built.fit(
                    batches.dataset(),
                    validation_data=validation.dataset(),
                    epochs=self.config.epochs,
                    shuffle=False,  # batches have their own order, which a resumed run repeats
                    verbose=0 if self.config.quiet else "auto",
                    callbacks=callbacks,
                )
            print(f"Trained for {(time.monotonic() - start) / 60:.1f} minutes.")
        if self.is_chief:
            self._finish(model, merge, flops)

    def build(self, model, trainer, optimizer, loss, metrics, jit_compile=None):
        """Makes the model and, compiled, what trains it, on the devices; takes what `fit` does, and returns both."""
        arguments = dict(self.config.compile_arguments)
        jit_compile = default_jit() if jit_compile is None else jit_compile
        jit_compile = jit_compile if arguments["jit_compile"] is None else arguments["jit_compile"]
        with self.strategy.scope(), warnings.catch_warnings():
            if self.has_checkpoint():  # what the model starts with does not matter
                warnings.simplefilter("ignore")
            model = model()
            if not trainer and getattr(model, "inputs", None) is None:
                model = f"{type(model).__name__}, which has no `inputs`"
                raise ValueError(f"`trainer` must be given: use `column_trainer`. Received: trainer=None for {model}")
            built = trainer(model) if trainer else Model(model.inputs, model.outputs, name="trainer")
            built.compile(
                optimizer=optimizer(model),
                loss=loss,
                weighted_metrics=(metrics := metrics()) or None,  # an empty list is an error in Keras
                **arguments | {"jit_compile": jit_compile},
            )
        self._metric_names = [getattr(metric, "name", metric) for metric in keras.tree.flatten(metrics)]
        built.jit_update = model.count_params() >= LARGE
        print(
            f"{model.count_params():,} parameters, {self.config.description}, {self.num_replicas} replica(s), "
            f"XLA {'on' if jit_compile else 'off'}"
        )
        return model, built

    def _check_select(self, built):
        """Checks `--select` before training, if Keras alone makes the logs."""
        select, names = self.config.select, ["loss", *self._metric_names]
        known = (*names, *(metric.name for metric in built.metrics))
        if type(built).compute_metrics is Model.compute_metrics and not select.endswith(known):
            check_select(select, [f"val_{name}" for name in names])

    def _check_updates(self, steps):
        """Checks that training updates the model, for so many steps an epoch."""
        if self.config.batches_per_update > self.config.epochs * steps:
            raise ValueError(
                "gradient_accumulation_steps of --optimizer-arguments must be at most the steps of training. "
                f"Received: {self.config.batches_per_update} for {self.config.epochs} epochs of {steps} steps"
            )

    def _remark(self, built, warmup, steps):
        """Prints, before a run begins, that its model is large for the data, or its warm-up long."""
        if self.has_checkpoint():
            return
        parameters = sum(variable.shape.num_elements() for variable in built.trainable_variables)
        remarks = remark_on_size(self.config, parameters, self.num_examples())
        for remark in (remarks, remark_on_warmup(self.config, warmup, self.config.epochs * steps)):
            if remark:
                print(remark)

    def _finish(self, model, merge, flops):
        """Gives a trained model its final weights, and saves it."""
        config, history = self.config, self.history()
        if merge:
            merge(model)
        epochs = final_epochs(history, config.select, config.average, config.average_of)
        finish(self, model, epochs)
        if self.results.exists():
            print(f"Results of the earlier weights are removed: {self.results}")
            shutil.rmtree(self.results)
        sizes = {"parameters": model.count_params(), "flops": flops(model) if flops else None}
        self.note_finished({"epochs": len(history), **sizes})
        print(f"Final weights: mean of epochs {epochs}" if len(epochs) > 1 else f"Final weights: epoch {epochs[0]}")

    def finished_model(self):
        """Returns the finished model, as it is in the file."""
        self._model = self._model or self.load_model()
        return self._model

    def report(self, score):
        """Scores the finished model by a function, unless that was done with these settings."""
        wanted = {"scores": {name: getattr(self.config, name) for name in self.recipe.evaluated}}
        if self.is_chief and self._is_left(wanted):
            self._quiet.close()
            before = self._score_files()
            score(self.finished_model())
            own = [name for name, time in self._score_files().items() if before.get(name) != time]
            if missing := [name for name in self._tests if not (self.results / name / "scores.json").exists()]:
                print(f"No scores were written for {', '.join(missing)}. Call add_scores of the run for each test set.")
            write_scores(self)
            self.note_finished(wanted | {"tests": own})

    def _score_files(self):
        """Returns the times at which the results of test sets were written, by name."""
        return {path.parent.name: path.stat().st_mtime_ns for path in self.results.glob("*/scores.json")}

    def export(self, write):
        """Exports the finished model by a function of it and of folders, unless that was done with these settings.

        The function writes a SavedModel into each of the folders, which stand for `config.export_folders`, or into a
        number there, and tries it. They appear where they belong once they are complete.
        """
        config = self.config
        settings = {name: getattr(config, name) for name in self.recipe.exported}
        wanted = {"export": settings | {"export": config.export_folder}}
        if self.is_chief and config.export and self._is_left(wanted):
            self._quiet.close()
            export(self, config, self.finished_model(), write, self.recipe.page, wanted)

    def _is_left(self, wanted):
        """Returns True if a part of the end is not done yet with these settings."""
        left = any(self.finished().get(name) != values for name, values in json.loads(json.dumps(wanted)).items())
        self._worked |= left
        return left

    def close(self, next_commands=()):
        """Ends a run that has its scores and SavedModels: logs them, and prints what may be done next."""
        config = self.config
        if not self.is_chief:
            return
        logged = {name: getattr(config, name) for name in self.recipe.evaluated} | {"loggers": config.loggers}
        if config.loggers and self._is_left({"logged": logged}):
            self.loggers.open(shown_settings(config))
            self.loggers.log_scores(self.scores())
            self.note_finished({"logged": logged})
        if self._worked:
            self.save_config(config)
        self._quiet.close()
        with silence(config.quiet):
            if not self._worked:
                command = "export" if config.export else "evaluate"
                again = f"python {' '.join(program(self.recipe.name))} {command} {config.run}"
                print(f"The run has finished, and nothing is left to do. To {command} it again: {again}")
            for command in next_commands if self._worked else ():
                print(f"Next: {command}")


class Stopped(Exception):
    """Leaves a session whose `fit` does something else than to train."""


class DryRun(Session):
    """Session that times a few training steps and ends."""

    def fit(self, batches, validation, model, *, optimizer, loss, metrics=list, trainer=None, jit_compile=None, **_):
        print(batches.summary())
        _, built = self.build(model, trainer, optimizer, loss, metrics, jit_compile)
        times = []
        clock = LambdaCallback(on_train_batch_end=lambda step, logs: times.append(time.monotonic()))
        steps = min(DRY_RUN_STEPS, len(batches))
        with fault_of(batches):
            built.fit(batches.dataset(), steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[clock])
        if len(times) < 2:
            self._quiet.close()
            print("An epoch has one step: too few to time.")
            raise Stopped
        step = statistics.median(after - before for before, after in itertools.pairwise(times))
        epoch, epochs = step * len(batches), self.config.epochs
        self._quiet.close()
        print(
            f"About {step:.2g} s a step: {duration(epoch)} an epoch, at most {duration(epoch * epochs)} for {epochs} "
            "epochs, without compilation and validation."
        )
        raise Stopped


class Rereading(Session):
    """Session of a finished run, which reads its data again and changes nothing; a subclass has the `fit`."""

    def __init__(self, config, recipe):
        super().__init__(config, recipe, tf.distribute.get_strategy())

    def _read(self, read, describe):
        return read()

    def is_unfinished(self):
        return True

    def run(self):
        """Runs the recipe up to `fit`, which ends by `Stopped`."""

        @contextlib.contextmanager
        def opened(config):
            with contextlib.suppress(Stopped):
                yield self

        self.recipe.train(self.config, opened)


@contextlib.contextmanager
def session(config, recipe, strategy, afresh=False, of=Session):
    """Context in which a run is trained: a `Session`, or a subclass of it.

    The process is seeded, and the only one that trains in the folder of the run; an error before training leaves the
    folder as it was. Of several workers the first alone writes and prints, and all end when the last is done.
    """
    if not is_chief(strategy):
        sys.stdout = open(os.devnull, "w")  # all workers would print the same
    keras.backend.clear_session()  # names and random numbers start afresh
    keras.utils.set_random_seed(config.seed)
    keras.config.set_dtype_policy(config.precision)
    run = of(config, recipe, strategy, afresh)
    with contextlib.suppress(Stopped):
        if run.is_chief:
            with _own_folder(run):
                yield run
                leave_together(strategy)
        else:
            yield run
            leave_together(strategy)


@contextlib.contextmanager
def _own_folder(run):
    config = run.config
    taken = f"Another process is training in this folder. Wait for it, or give another --run. Received: {config.run}"
    is_new = not run.folder.exists()
    try_folder("--run", config.run)
    with locked(config.run, taken, is_new), full_disk_reported(), run.loggers.closing():
        run.remove_halves()
        with run._quiet, run.starting(config.export_folders):
            run._quiet.enter_context(silence(config.quiet))
            yield


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


@contextlib.contextmanager
def fault_of(batches):
    """Raises the error of batches that cannot be read, in place of TensorFlow's."""
    try:
        yield
    except tf.errors.OpError as error:
        if getattr(batches, "fault", None) is None:
            raise
        raise batches.fault from error


def report_hidden_gpus():
    """Prints what to install if the machine has NVIDIA GPUs that TensorFlow does not see."""
    if shutil.which("nvidia-smi") and not tf.config.list_physical_devices("GPU"):
        print(
            "This machine has nvidia-smi, but TensorFlow sees no GPU. Its CUDA libraries are installed by: "
            'pip install -e ".[recipes,gpu]"'
        )

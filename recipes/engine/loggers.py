"""Weights & Biases and MLflow: a run there for a run here. docs/loggers.md says how to use them."""

import contextlib
import json
import os
import re
import secrets

from keras_headattn._files import read_json, write_atomically
from keras_headattn._optional import optional_import

IDS = "loggers.json"  # the runs' names at the services, in the run's folder


def check_loggers(names):
    """Checks that the packages of loggers are installed."""
    for name in names:
        optional_import(name, extra="loggers")


class RunLoggers:
    """Loggers of a run. They are opened when something is logged, and continue the run that they began.

    Args:
        names: of the loggers.
        run: `Run`.
        quiet: True if they print nothing.
    """

    def __init__(self, names, run, quiet=False):
        self.names, self.run, self.quiet = names, run, quiet
        self._open = {}
        self._waiting = []  # epochs that a service did not take

    def open(self, settings):
        """Opens the loggers. A new run there is given `settings`, a dictionary, and the epochs that are done."""
        path = self.run.folder / IDS
        ids = read_json(path) if path.exists() else {}
        for name in self.names:
            if name in self._open:
                continue
            logger = LOGGERS[name](self.run, self.quiet)
            with _explained(name, path):
                run_id = logger.start(ids.get(name), settings)
            self._open[name] = logger
            if ids.get(name) != run_id:
                ids[name] = run_id
                write_atomically(path, (json.dumps(ids, indent=1) + "\n").encode())
                self._send([(name, epoch, logs) for epoch, logs in enumerate(self.run.history(), 1)])

    def log_epoch(self, epoch, logs):
        """Logs the numbers of an epoch, from 0. What a service does not take is sent again after the next epoch."""
        values = {name: float(value) for name, value in logs.items()}
        self._send([(name, epoch + 1, values) for name in self._open])

    def _send(self, epochs):
        self._waiting = [entry for entry in self._waiting + epochs if not self._sent(*entry)]

    def _sent(self, name, epoch, values):
        try:
            self._open[name].log(epoch, values)
        except Exception as error:  # training goes on, whatever a service does
            print(f"\n{name} did not take epoch {epoch}: {error}")
            return False
        return True

    def log_scores(self, scores):
        """Logs the scores of test sets: dictionary from set to measure to number or `None`."""
        values = {
            f"test/{test}/{name}": value
            for test, measures in scores.items()
            for name, value in measures.items()
            if value is not None
        }
        for name, logger in self._open.items():
            with _explained(name, self.run.folder / IDS):
                logger.summarize(values, len(self.run.history()))

    @contextlib.contextmanager
    def closing(self):
        """Closes the loggers when the block ends; their runs have failed if it raises an error."""
        failed = True
        try:
            yield
            failed = False
        finally:
            self._send([])
            for name, logger in self._open.items():
                try:
                    logger.stop(failed)
                except Exception as error:
                    print(f"{name} could not be closed: {error}")
            self._open = {}


@contextlib.contextmanager
def _explained(name, path):
    """Raises the errors of a service as one of the option."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"--loggers {name}: {error}. Mend it, or leave --loggers out; without {path} a new run is begun there. "
            f"Received: loggers={name}"
        ) from error


class Wandb:
    """Run of Weights & Biases. Its project is `WANDB_PROJECT`, or named after the recipe."""

    def __init__(self, run, quiet):
        self.run, self.quiet = run, quiet

    def start(self, known, settings):
        wandb = optional_import("wandb", extra="loggers")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or self.run.recipe.name,
            id=known or secrets.token_hex(8),
            name=str(self.run.folder),
            config=settings,
            resume="allow",
            dir=str(self.run.folder),
            settings=wandb.Settings(console="off", silent=self.quiet),
        )
        self._run.define_metric("*", step_metric="epoch")  # a repeated epoch is not behind the last step then
        return self._run.id

    def log(self, epoch, values):
        self._run.log({"epoch": epoch, **values})

    def summarize(self, values, epoch):
        self._run.summary.update(values)

    def stop(self, failed):
        self._run.finish(exit_code=int(failed))


class MLflow:
    """Run of MLflow. Its experiment is `MLFLOW_EXPERIMENT_NAME`, or named after the recipe."""

    def __init__(self, run, quiet):
        self.run = run

    def start(self, known, settings):
        self._mlflow = optional_import("mlflow", extra="loggers")
        if not {"MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"} & set(os.environ):
            self._mlflow.set_experiment(self.run.recipe.name)
        run = self._mlflow.start_run(known, run_name=None if known else str(self.run.folder))
        if not known:  # a parameter cannot be changed
            self._mlflow.log_params(settings)
        return run.info.run_id

    def log(self, epoch, values):
        self._mlflow.log_metrics({re.sub(r"[^\w\-./: ]", "_", name): value for name, value in values.items()}, epoch)

    def summarize(self, values, epoch):
        self.log(epoch, values)

    def stop(self, failed):
        self._mlflow.end_run("FAILED" if failed else "FINISHED")


LOGGERS = {"wandb": Wandb, "mlflow": MLflow}

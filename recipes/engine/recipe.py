"""A recipe as the command line knows it."""

import argparse
import dataclasses
import functools
import importlib
import os
import pkgutil
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import fields

from keras_headattn._files import check_local, read_json
from keras_headattn._sentences import read_sentences
from recipes.engine.command import Command, run_command
from recipes.engine.config import add_options, flag, load_config, override
from recipes.engine.exported import saved_model_in
from recipes.engine.exporting import export
from recipes.engine.heads import check_attentions
from recipes.engine.lock import locked
from recipes.engine.loggers import check_loggers
from recipes.engine.pruning import prune
from recipes.engine.quiet import quiet_tensorflow, silence
from recipes.engine.run import Run, try_folder
from recipes.engine.seeds import train_seeds
from recipes.engine.task import is_cached
from recipes.engine.training import dry_run, train


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Task that the engine trains, evaluates and exports. docs/own_recipe.md shows one.

    Args:
        name: str, its module in `recipes`.
        doc: str, what `--help` prints first.
        settings: its dataclass of settings, a subclass of `recipes.engine.settings.Settings`.
        task: subclass of `recipes.engine.task.Task`, or a function of the same arguments that returns one.
        embedded: str, the name in its folder `configs` of the task that needs no data; `None`: there is none.
        quick: dictionary of the settings of `--quick`.
        quick_data: dictionary of those for data that are not embedded, besides.
        files: names of the files that a run's folder has besides those of every recipe.
        check_files: function of the settings that opens the files they name, and raises an `OSError` or a `ValueError`
            if one cannot be read.
        read: function of the settings that reads the data of files: `recipes.engine.task.Corpora`, or `None` if there
            are none, or they are read later.
        evaluated, exported: names of the settings that `evaluate` and `export` may give anew.
        commands: dictionary of name to `Command`, besides train, evaluate and export.
        evaluated_alone: names of the settings that `evaluate` takes with a SavedModel, which has none of its own.
        evaluate_alone: function that scores one: of the settings, its path, and the files of test sets.
        of_hparams: function that turns a JSON object of `--config` that names no recipe into settings.
    """

    name: str
    doc: str
    settings: type
    task: Callable
    embedded: str | None = None
    quick: dict = dataclasses.field(default_factory=dict)
    quick_data: dict = dataclasses.field(default_factory=dict)
    files: tuple = ()
    check_files: Callable = lambda config: None
    read: Callable = lambda config: None
    evaluated: tuple = ()
    exported: tuple = ()
    commands: dict = dataclasses.field(default_factory=dict)
    evaluated_alone: tuple = ()
    evaluate_alone: Callable | None = None
    of_hparams: Callable | None = None

    def main(self, arguments=None):
        """Runs one of the recipe's commands: `train` where none is named."""
        run_command(self.name, self.doc, self.all_commands(), arguments)

    def all_commands(self):
        """Returns a dictionary of name to `Command`."""
        train = "train, evaluate and export; the same command goes on after an interruption"
        evaluate = "score a finished run on its test sets, or on others"
        if self.evaluate_alone:
            evaluate += "; or a SavedModel"
        export = "write the SavedModels of a finished run again"
        return {
            "train": Command(self._train, train, self._add_training, continues=True),
            "evaluate": Command(self._evaluate, evaluate, self._add_evaluation),
            "export": Command(self._export, export, functools.partial(self.add_run, names=self.exported)),
            "prune": Command(self._prune, "remove a finished run's least important heads, as a new run", _add_prune),
            **self.commands,
        }

    def check(self, config):
        """Checks files, attention and packages of loggers, before data are read."""
        check_attentions(config)
        check_loggers(config.loggers)
        self.check_files(config)

    def make_task(self, config, run=None, corpora=None):
        """Returns the `Task` with these settings."""
        return self.task(config, run or Run(config.run, self), corpora)

    def run_of(self, folder):
        """Returns the `Run` in a folder; none, or one of another recipe, is a `ValueError`."""
        run = Run(folder, self)
        run.config()
        return run

    def finished(self, folder, given=None):
        """Returns the `Task` of a finished run, with what it learned; `given` settings replace the run's."""
        run = self.run_of(folder)
        config = run.config().changed(given or {})
        run.check_finished()
        quiet_tensorflow()
        task = self.make_task(config, run)
        task.prepare()
        return task

    def add_settings(self, parser, without=()):
        """Adds `--config` and an option for every setting not in `without`; returns the group of the most used."""
        parser.usage = "%(prog)s [options]"
        names = ", ".join(self.config_names())
        parser.epilog = textwrap.fill(f"Names for --config: {names or 'none'}", 79)
        group = parser.add_argument_group("most used")
        group.add_argument(
            "--config", metavar="NAME", help="settings: a name from the end of this help, or the config.json of a run"
        )
        add_options(parser, self.settings, names=self.names() - set(without), first=group)
        return group

    def add_run(self, parser, names=()):
        """Adds the folder of a finished run, and options of the settings that may differ from the run's."""
        parser.add_argument("folder", help="folder of the run")
        add_options(parser, self.settings, names, default="the run's")

    def names(self):
        """Returns the names of all settings."""
        return {field.name for field in fields(self.settings)}

    def config_names(self):
        """Returns the names of the settings in its folder `configs`."""
        return list(named_configs(self.name))

    def chosen_settings(self, options):
        """Returns the settings of a command line, over those of `--quick`, over those of `--config`."""
        given = given_settings(options, self.names())
        is_embedded = given.get("embedded") or not given.keys() & set(self.settings.SOURCES)
        config = self.named_config(options.config)
        if is_embedded and self.embedded and not options.config:
            config = named_configs(self.name)[self.embedded]
        if getattr(options, "quick", False):
            embedded = getattr(config, "embedded", False) and is_embedded
            quick = {"epochs": 2, "run": f"runs/quick_{self.name}"} | self.quick
            config = override(config, quick | ({} if embedded else self.quick_data))
        config = config.changed(given)
        config.data  # noqa: B018  (an error if there are none)
        config.refuse_unused(given)
        return config

    def named_config(self, name):
        """Returns the settings of this name in the folder `configs`, of a JSON file, or, for `None`, the defaults."""
        if name is None:
            return self.settings()
        if name.endswith(".json"):
            values = read_json(name) if self.of_hparams else None
            if isinstance(values, dict) and "recipe" not in values:
                try:
                    return self.of_hparams(values)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from error
            return load_config(self.settings, name, self.name)
        if name not in self.config_names():
            raise ValueError(
                f"--config is a saved config.json or one of {', '.join(self.config_names())}. Received: {name}"
            )
        return dataclasses.replace(named_configs(self.name)[name], run=f"runs/{name}")

    def _add_training(self, parser):
        group = self.add_settings(parser)
        parser.sources = self.settings.SOURCES
        group.add_argument(
            "--quick", action="store_true", help=f"see that it works, in a minute, in runs/quick_{self.name}"
        )
        group.add_argument(
            "--seeds",
            type=int,
            nargs="+",
            metavar="INT",
            help="a run each, below the folder --run, without SavedModels; a table of means and deviations at the end",
        )
        group.add_argument(
            "--dry-run",
            action="store_true",
            help="read the data, build the model, time a few steps, and leave nothing but --records",
        )
        parser.add_argument("--afresh", action="store_true", help=argparse.SUPPRESS)  # for each run of --quick --seeds

    def _train(self, options):
        config = self.chosen_settings(options)
        if not options.dry_run:
            try_folder("--run", config.run, leave=False)
        if options.dry_run and (options.seeds or config.strategy == "multi_worker"):
            other = "--seeds" if options.seeds else "--strategy multi_worker"
            raise ValueError(f"A dry run is one run on this machine. Received: --dry-run with {other}")
        self.check(config)
        # Nobody keeps anything in the folder of quick runs.
        afresh = options.afresh or options.quick and not hasattr(options, "run")
        if not (afresh or options.seeds):
            Run(config.run, self).check(config)
        corpora = self._read_early(config, options.seeds)
        quiet_tensorflow(None if options.seeds else config.xla_cache)
        if options.dry_run:
            self._dry_run(config, corpora)
            return
        if options.seeds:
            train_seeds(self, config, options.seeds, afresh)
            return

        train(self.make_task(config, corpora=corpora), afresh)

    def _dry_run(self, config, corpora):
        with tempfile.TemporaryDirectory() as folder:
            given = {"run": folder, "export": None, "compile_arguments": {"steps_per_execution": 1}}
            dry_run(self.make_task(config.changed(given), corpora=corpora))
        print(f"No run was kept. Without --dry-run it is in {config.run}")

    def _read_early(self, config, seeds):
        """Reads the data of files. Runs of several seeds read them themselves."""
        if config.strategy == "multi_worker":  # the first worker prepares files for the others
            return None
        with silence(config.quiet or seeds):
            corpora = self.read(config)
        return None if seeds else corpora

    def _add_evaluation(self, parser):
        self.add_run(parser, {*self.evaluated, *self.evaluated_alone})

    def _evaluate(self, options):
        given = given_settings(options, {*self.evaluated, *self.evaluated_alone})
        if path := saved_model_in(options.folder):
            self._evaluate_alone(options.folder, path, given)
            return
        refuse_others(given, self.evaluated, "is that of the run")
        files = given.pop("test", None)
        config = self.run_of(options.folder).config().changed(given)
        config.refuse_unused(given | ({"test": files} if files else {}))
        for file in files or ():
            if not os.path.exists(file) and not is_cached(file):
                raise FileNotFoundError(f"There is no such file. Received: --test {file}")
        task = self.finished(options.folder, given)
        tests = task.load_tests(files)
        if not tests:
            raise ValueError(f"The run has no test set. Give --test. Received: {options.folder}, without --test")
        task.evaluate(task.run.load_model(), tests)

    def _evaluate_alone(self, folder, path, given):
        if self.evaluate_alone is None:
            raise ValueError(f"recipes.{self.name} evaluates folders of runs. Received: {folder}, a SavedModel")
        refuse_others(given, self.evaluated_alone, "is only for runs: a SavedModel has its own")
        files = given.pop("test", None)
        if not files:
            raise ValueError(f"A SavedModel has no test set of its own. Give --test. Received: {folder}")
        config = self.settings().changed(given)
        config.refuse_unused(given | {"test": files})
        check_readable(*files, encoding=getattr(config, "encoding", None))
        quiet_tensorflow()
        self.evaluate_alone(config, path, files)

    def _export(self, options):
        task = self.finished(options.folder, given_settings(options, self.exported))
        if not task.config.export:
            raise ValueError(
                f"The run in {options.folder} has no folder for SavedModels. Give --export. Received: export=None"
            )

        busy = f"Another process trains or exports this run. Wait for it. Received: {options.folder}"
        with locked(options.folder, busy):
            export(task, task.run.load_model())

    def _prune(self, options):
        if not 0 < options.keep <= 1:
            raise ValueError(f"--keep must be above 0 and at most 1. Received: {options.keep}")
        check_local("OUTPUT", options.output)
        if os.path.exists(options.output):
            raise ValueError(f"The folder of the new run must not exist yet. Received: {options.output}")
        run = self.run_of(options.folder)
        run.check_finished()
        config = run.config()
        self.check(config)
        quiet_tensorflow()

        prune(self.make_task(config, run), options.keep, options.by, options.output)


def _add_prune(parser):
    parser.add_argument("folder", help="folder of the run")
    parser.add_argument("output", help="folder of the new run")
    parser.add_argument("--keep", type=float, default=0.5, help="share of the heads to keep [0.5]")
    parser.add_argument(
        "--by",
        choices=("gradient", "ablation"),
        default="gradient",
        help="rank heads by the gradient of the validation loss, or by its rise without each head [gradient]",
    )


def given_settings(options, names):
    """Picks the settings among the options that the command line gives."""
    return {name: value for name, value in vars(options).items() if name in names}


def refuse_others(given, names, reason):
    """Checks that all settings in the dictionary `given` are among `names`."""
    for name in given.keys() - {*names}:
        raise ValueError(f"{flag(name)} {reason}. Received: {name}={given[name]!r}")


def check_readable(*paths, encoding=None):
    """Opens text files, so that one that cannot be read is reported before long work begins.

    `None`, `"-"`, standard input, and sets in sacreBLEU's cache are passed over.
    """
    for path in paths:
        if path not in (None, "-") and not is_cached(path):
            next(read_sentences(path, encoding), None)


@functools.cache
def named_configs(recipe):
    """Collects the settings in the folder `configs` of a recipe by name; a file may give several."""
    found = {}
    for file in config_modules(recipe):
        found |= file.CONFIGS if hasattr(file, "CONFIGS") else {file.__name__.rpartition(".")[2]: file.CONFIG}
    return dict(sorted(found.items()))


def config_modules(recipe):
    """Imports the files in the folder `configs` of a recipe, which it may lack."""
    try:
        configs = importlib.import_module(f"recipes.{recipe}.configs")
    except ModuleNotFoundError:
        return []
    return [
        importlib.import_module(f"{configs.__name__}.{each.name}") for each in pkgutil.iter_modules(configs.__path__)
    ]

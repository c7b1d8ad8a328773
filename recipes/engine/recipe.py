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

from keras_headattn._files import check_local
from keras_headattn._sentences import read_sentences
from keras_headattn.training import make_strategy
from recipes.engine.command import Command, run_command
from recipes.engine.config import add_options, flag, load_config, override, suggestion
from recipes.engine.data import is_cached
from recipes.engine.exporting import export
from recipes.engine.loggers import check_loggers
from recipes.engine.modelling import check_attentions
from recipes.engine.pruning import prune
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.run import Run, locked, try_folder
from recipes.engine.seeds import train_seeds
from recipes.engine.session import DryRun, session


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Recipe: a task with its settings and commands. docs/own_recipe.md shows one.

    Args:
        name: str, its module in `recipes`.
        doc: str, what `--help` prints first.
        settings: its dataclass of settings, a subclass of `recipes.engine.settings.Settings`.
        train: function of the settings and of one that opens a `Session` for them: it trains, scores and exports a run.
        evaluate: function of a finished `Run`, the settings, and files (`None`: those of the settings) to score it on.
        write: function of a finished `Run`, the settings, the model and folders, which writes a SavedModel into each,
            or into a number there; `None` for a recipe without SavedModels.
        predictor: function of a finished `Run`, the settings and the model that returns what predicts labels of texts,
            as of `recipes.engine.texts.predicting`; for recipes of such texts.
        page: True or False for a SavedModel that `recipes.serve` has a page of, with attention or without.
        built_in: str, the name in its folder `configs` of the task that needs no data; `None`: there is none.
        quick: dictionary of the settings of `--quick`.
        quick_data: dictionary of those for data that are not built in, besides.
        unit: str, what the sizes of data sets count.
        files: names of the files that a run's folder has besides those of every recipe.
        check_files: function of the settings that opens the files they name, and raises an `OSError` or a `ValueError`
            if one cannot be read.
        evaluated, exported: names of the settings that `evaluate` and `export` may give anew.
        commands: dictionary of name to `Command`, besides train, evaluate and export.
    """

    name: str
    doc: str
    settings: type
    train: Callable
    evaluate: Callable
    write: Callable | None = None
    predictor: Callable | None = None
    page: bool | None = None
    built_in: str | None = None
    quick: dict = dataclasses.field(default_factory=dict)
    quick_data: dict = dataclasses.field(default_factory=dict)
    unit: str = "examples"
    files: tuple = ()
    check_files: Callable = lambda config: None
    evaluated: tuple = ()
    exported: tuple = ()
    commands: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        lists = {name: getattr(self.settings, name) for name in ("SOURCES", "MOST_USED", "SIZE_OPTIONS", "PRETRAINED")}
        lists |= {name: vars(self)[name] for name in ("evaluated", "exported", "quick", "quick_data")}
        for name, listed in lists.items():
            for setting in {part.partition(".")[0] for part in listed} - self.names():
                raise ValueError(f"{name} must name settings. Received: {setting}{suggestion(setting, self.names())}")

    def main(self, arguments=None):
        """Runs one of the recipe's commands: `train` where none is named."""
        run_command(self.name, self.doc, self.all_commands(), arguments)

    def all_commands(self):
        """Returns a dictionary of name to `Command`."""
        train = "train, evaluate and export; the same command goes on after an interruption"
        evaluate = "score a finished run on its test sets, or on others"
        export = "write the SavedModels of a finished run again"
        export = Command(self._export, export, functools.partial(self.add_run, names=self.exported))
        return {
            "train": Command(self._train, train, self._add_training, continues=True),
            "evaluate": Command(self._evaluate, evaluate, self._add_evaluation),
            **({"export": export} if self.write else {}),
            "prune": Command(self._prune, "remove a finished run's least important heads, as a new run", _add_prune),
            **self.commands,
        }

    def check(self, config):
        """Checks files, attention and packages of loggers, before data are read."""
        check_attentions(config)
        check_loggers(config.loggers)
        _check_data_files(config)
        self.check_files(config)

    def run_of(self, folder):
        """Returns the `Run` in a folder; none, or one of another recipe, is a `ValueError`."""
        run = Run(folder, self)
        run.read_config()
        return run

    def open(self, folder, given=None):
        """Returns the `Run` in a folder, which has finished, and its settings; `given` ones replace the run's."""
        run = self.run_of(folder)
        config = run.read_config().changed(given or {})
        run.check_finished()
        quiet_tensorflow()
        return run, config

    def add_settings(self, parser, without=()):
        """Adds `--config` and an option for every setting not in `without`; returns the group of the most used."""
        parser.usage = "%(prog)s [options]"
        names = ", ".join(self.config_names())
        parser.epilog = textwrap.fill(f"Names for --config: {names or 'none'}", 79)
        parser.shorten_help("most used")
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
        is_built_in = given.get("built_in") or not given.keys() & set(self.settings.SOURCES)
        config = self.named_config(options.config)
        if is_built_in and self.built_in and not options.config:
            config = named_configs(self.name)[self.built_in]
        if getattr(options, "quick", False):
            built_in = is_built_in and config.source == "built_in"
            quick = {"epochs": 2, "run": f"runs/quick_{self.name}"} | self.quick
            config = override(config, quick | ({} if built_in else self.quick_data))
        config = config.changed(given)
        config.data  # noqa: B018  (an error if there are none)
        config.refuse_unused(given)
        return config

    def named_config(self, name):
        """Returns the settings of this name in the folder `configs`, of a JSON file, or, for `None`, the defaults."""
        if name is None:
            return self.settings()
        if name.endswith(".json"):
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
            "--quick", action="store_true", help=f"train a tiny model in a minute, in runs/quick_{self.name}"
        )
        group.add_argument(
            "--seeds",
            type=int,
            nargs="+",
            metavar="INT",
            help="random seeds: a run of each in RUN/seed=INT, without SavedModels; then a table of their means",
        )
        group.add_argument(
            "--dry-run",
            action="store_true",
            help="estimate of the time that training takes, from a few steps; nothing is kept"
            + (" but --records" if "prepare" in self.commands else ""),
        )
        parser.add_argument("--afresh", action="store_true", help=argparse.SUPPRESS)  # for each run of --quick --seeds

    def _train(self, options):
        config = self.chosen_settings(options)
        if not options.dry_run:
            try_folder("--run", config.run, leave=False)
        if options.dry_run and (options.seeds or config.strategy == "multi_worker"):
            conflict = "--seeds" if options.seeds else "--strategy multi_worker"
            raise ValueError(f"A dry run is one run on this machine. Received: --dry-run with {conflict}")
        self.check(config)
        # Nobody keeps anything in the folder of quick runs.
        afresh = options.afresh or options.quick and not hasattr(options, "run")
        if not (afresh or options.seeds):
            Run(config.run, self).check(config)
        if options.seeds:
            train_seeds(self, config, options.seeds, afresh)
            return
        quiet_tensorflow(config.xla_cache)
        # Devices cannot be chosen once a recipe's checks have made tensors.
        opened = functools.partial(session, recipe=self, strategy=make_strategy(config.replicas, config.strategy))
        if options.dry_run:
            self._dry_run(config, opened)
        else:
            self.train(config, functools.partial(opened, afresh=afresh))

    def _dry_run(self, config, opened):
        with tempfile.TemporaryDirectory() as folder:
            values = {"run": folder, "export": None, "compile_arguments": {"steps_per_execution": 1}}
            self.train(config.changed(values), functools.partial(opened, of=DryRun))
        print(f"No run was kept. Without --dry-run it is in {config.run}")

    def _add_evaluation(self, parser):
        self.add_run(parser, self.evaluated)

    def _evaluate(self, options):
        given = given_settings(options, self.evaluated)
        files = given.pop("test", None)
        run, config = self.open(options.folder, given)
        config.refuse_unused(given | ({"test": files} if files else {}))
        for file in files or ():
            if not os.path.exists(file) and not is_cached(file):
                raise FileNotFoundError(f"There is no such file. Received: --test {file}")
        self.evaluate(run, config, files)

    def _export(self, options):
        given = given_settings(options, self.exported)
        run, config = self.open(options.folder, given)
        if not config.export:
            raise ValueError(
                f"The run in {options.folder} has no folder for SavedModels. Give --export. Received: export=None"
            )
        busy = f"Another process trains or exports this run. Wait for it. Received: {options.folder}"
        with locked(options.folder, busy):
            export(run, config, run.load_model(), functools.partial(self.write, run, config), self.page)

    def _prune(self, options):
        if not 0 < options.keep <= 1:
            raise ValueError(f"--keep must be above 0 and at most 1. Received: {options.keep}")
        check_local("OUTPUT", options.output)
        if os.path.exists(options.output):
            raise ValueError(f"The folder of the new run must not exist yet. Received: {options.output}")
        run = self.run_of(options.folder)
        run.check_finished()
        config = run.read_config()
        self.check(config)
        quiet_tensorflow()
        prune(run, config, options.keep, options.by, options.output)


def _check_data_files(config):
    """Checks that the files of --train, --validation and --test are there."""
    for field in fields(config):
        if field.name in ("train", "validation", "test") and field.metadata["metavar"] in ("FILE", "PATH"):
            value = getattr(config, field.name)
            for path in value if isinstance(value, tuple) else [value] if value else []:
                is_share = path.replace(".", "", 1).isdecimal()
                if not (is_share or is_cached(path) or os.path.exists(path)):
                    raise FileNotFoundError(f"There is no such file. Received: {flag(field.name)} {path}")


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
    configs = {}
    for file in config_modules(recipe):
        configs |= file.CONFIGS if hasattr(file, "CONFIGS") else {file.__name__.rpartition(".")[2]: file.CONFIG}
    return dict(sorted(configs.items()))


def config_modules(recipe):
    """Imports the files in the folder `configs` of a recipe, which it may lack."""
    try:
        configs = importlib.import_module(f"recipes.{recipe}.configs")
    except ModuleNotFoundError:
        return []
    return [
        importlib.import_module(f"{configs.__name__}.{info.name}") for info in pkgutil.iter_modules(configs.__path__)
    ]

"""The common part of the command lines of recipes."""

import dataclasses
import importlib
import os
import sys

from recipes.engine.config import add_options, load_config, override, the_one


def run_command(parser, commands, arguments=None, go_on=("train",), filters=()):
    """Runs one sub-command; `train` where none is named. Mistakes are told in one line.

    Args:
        parser: `argparse.ArgumentParser` whose sub-commands are kept as `command`.
        commands: dictionary of name to function of the options.
        arguments: list of str; `None`: those of the process.
        go_on: names of those that go on where they were interrupted.
        filters: names of those whose output may be cut short, as by `| head`.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] not in (*commands, "-h", "--help"):
        arguments.insert(0, "train")
    options = parser.parse_args(arguments)
    try:
        commands[options.command](options)
    except BrokenPipeError:  # what reads the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if options.command not in filters:
            sys.exit(1)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        again = " The same command goes on." if options.command in go_on and not starts_afresh(options) else ""
        sys.exit(f"\nInterrupted.{again}")


def add_training(commands, cls, groups, embedded, name="train", help="train, evaluate and export (the default)"):
    """Adds a sub-command that takes all settings, and returns its parser.

    Args:
        commands: what `add_subparsers` returns.
        cls: dataclass of the settings.
        groups: see `recipes.engine.config.add_options`.
        embedded: name in `recipes/configs` of the task that needs no data.
        name, help: of the sub-command.
    """
    description = (
        f"Defaults are in brackets; the embedded task has others, in recipes/configs/{embedded}.py. Settings can also "
        "come from a file, see --config, and be overridden here."
    )
    command = commands.add_parser(name, help=help, description=description, usage="%(prog)s [options]")
    command.add_argument("--config", help="a name in recipes/configs, or the path of a saved config.json")
    add_options(command, cls, groups=groups)
    return command


def add_quick(command, what):
    """Adds `--quick`; `what` it makes of model and data."""
    command.add_argument("--quick", action="store_true", help=f"{what}: about a minute, in runs/quick")


def starts_afresh(options):
    """Whether what an earlier start of the command left is removed: with `--quick` in a folder that nobody named."""
    return getattr(options, "quick", False) and not hasattr(options, "run")


def add_finished(commands, name, cls, names, help):
    """Adds a sub-command for the folder of a finished run, some of whose settings may be others; returns its parser."""
    command = commands.add_parser(name, help=help)
    command.add_argument("folder", help="folder of the run")
    add_options(command, cls, names, default="the run's")
    return command


def chosen_settings(options, cls, data, embedded, quick=None, smaller=None, names=None):
    """The settings of the command line, over those of `--quick`, over those of `--config`.

    Args:
        options: what the parser returned.
        cls: dataclass of the settings.
        data: names of the settings that say what to train on.
        embedded: name in `recipes/configs` of the task that is meant without `--config` and data.
        quick, smaller: dictionaries of the settings of `--quick`; the second for data that is not embedded.
        names: of the settings the command line may give. Default `None`: all.

    Raises:
        ValueError: for wrong settings, or if none says what to train on.
    """
    given = given_settings(options, field_names(cls) if names is None else names)
    is_embedded = given.get("embedded") or not given.keys() & set(data)
    config = named_config(cls, options.config or (embedded if is_embedded else None))
    if getattr(options, "quick", False):
        config = override(config, quick | ({} if config.embedded else smaller))
    config = override(config, given)
    the_one(config, data)
    return config


def given_settings(options, names):
    """Those of the settings that the command line gives."""
    return {name: value for name, value in vars(options).items() if name in names}


def field_names(cls):
    """Names of the settings of a dataclass."""
    return {field.name for field in dataclasses.fields(cls)}


def named_config(cls, name):
    """The settings of `recipes/configs/<name>.py`, of a JSON file, or the defaults.

    Args:
        cls: dataclass of the settings.
        name: str; `None`: the defaults.

    Raises:
        ValueError: if there are none of that name, or they are another recipe's.
    """
    if name is None:
        return cls()
    if name.endswith(".json"):
        return load_config(cls, name)
    try:
        config = importlib.import_module(f"recipes.configs.{name}").CONFIG
    except ModuleNotFoundError:
        raise ValueError(f"--config is a name in recipes/configs or a .json file. Received: {name}") from None
    if not isinstance(config, cls):
        raise ValueError(f"recipes/configs/{name}.py is for another recipe. Received: --config {name}")
    return config

"""Commands of the recipes, as a user runs them."""

import dataclasses
import functools
import importlib
import importlib.util

from keras_headattn.training import make_strategy
from recipes.engine import session as sessions
from recipes.engine.command import run_command
from recipes.engine.recipe import named_configs
from recipes.engine.session import Session, Stopped, session
from tests.processes import ROOT, run_python


def command(name):
    """The module that `python -m recipes.<name>` runs."""
    is_package = importlib.util.find_spec(f"recipes.{name}").submodule_search_locations
    return importlib.import_module(f"recipes.{name}" + (".__main__" if is_package else ""))


def check_options(name, arguments):
    """Parses the arguments of `python -m recipes.<name>`, a list, and runs nothing; wrong ones end the process."""
    recipe = command(name)
    if "--help" in arguments:
        return
    if not hasattr(recipe, "RECIPE") or recipe.RECIPE.name != name:
        (recipe.parse if name == "sweep" else recipe._parser().parse_args)(arguments)
        return
    parsed = []
    commands = {
        each: dataclasses.replace(command, run=parsed.append) for each, command in recipe.RECIPE.all_commands().items()
    }
    run_command(name, "", commands, arguments)
    assert len(parsed) == 1


def all_configs():
    """The named settings of all recipes by name."""
    folders = sorted((ROOT / "recipes").glob("*/configs"))
    return {name: config for path in folders for name, config in named_configs(path.parent.name).items()}


def run_process(recipe, *arguments, stdin=""):
    """Runs `python -m recipes.<recipe>` in a process of its own."""
    return run_python("-m", f"recipes.{recipe}", *arguments, stdin=stdin)


def quick_run(recipe, tmp_path_factory, *arguments):
    """A finished quick run: `(folder, its process)`."""
    folder = tmp_path_factory.mktemp("quick")
    process = run_process(recipe, "--quick", "--run", folder / "run", "--export", folder / "exported", *arguments)
    assert process.returncode == 0, process.stderr
    versions = [path.parent for path in folder.glob("exported*/*/saved_model.pb")]
    assert all((path / "README.md").exists() for path in versions)  # the model card
    return folder, process


def run_here(main, capsys, *arguments):
    """Runs a recipe's `main` in this process; returns what it printed, or the message that it ended with."""
    capsys.readouterr()
    try:
        main([*map(str, arguments)])
    except SystemExit as end:
        return str(end.code)
    return capsys.readouterr().out


def train(recipe, config, **given):
    """Trains, scores and exports a run in this process; further arguments are those of `session`."""
    strategy = make_strategy(config.replicas, config.strategy)
    recipe.train(config, functools.partial(session, recipe=recipe, strategy=strategy, **given))


def train_here(recipe, config, monkeypatch, *callbacks):
    """Trains in this process, with further callbacks; the final weights and the history without times."""
    make = sessions.make_callbacks
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "make_callbacks", lambda *given: [*make(*given), *callbacks])
        train(recipe, config)
    run = recipe.run_of(config.run)
    history = [{k: v for k, v in logs.items() if "second" not in k} for logs in run.history()]
    return run.load_model().get_weights(), history


def built(recipe, config):
    """The batches, those of validation, and the compiled trainer of a run that is not trained."""
    found = []

    class Built(Session):
        def fit(self, batches, validation, model, *, optimizer, loss, metrics=list, trainer=None, **_):
            _, trainer = self.build(model, trainer, optimizer, loss, metrics, jit_compile=False)
            found.extend([batches, validation, trainer])
            self.begin()  # keeps the files that batches read
            raise Stopped

    train(recipe, config, of=Built)
    return found


def drawn(figure):
    """How many lines, bars, points, pictures and texts each plot of a figure has in it, besides its axes and labels."""
    parts = ("lines", "patches", "collections", "images", "texts")
    return [sum(len(getattr(axes, part)) for part in parts) for axes in figure.axes]

"""The options of all recipes, as `train --help` and `train --help all` list them."""

import contextlib
import importlib
import io
import re
import subprocess
import sys
from dataclasses import fields

import pytest

from tests.recipes.commands import ROOT, all_configs

RECIPES = "answer classify glue graphs imagenet lm pretrain rationales series tag translate".split()


@pytest.fixture(scope="module")
def helped():
    """The help of each recipe."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        for name in RECIPES:
            with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
                importlib.import_module(f"recipes.{name}.__main__").main(["train", "--help", "all"])
            found[name] = text.getvalue()
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_the_most_used_options_come_first(name, helped):
    text = helped[name]
    titles = re.findall(r"^([a-z ]+):$", text, re.M)
    assert titles[:3] == ["options", "most used", "data"] and len(set(titles)) == len(titles)
    first = text[text.index("\nmost used:") : text.index("\ndata:")]
    options = ["--config", "--attention", "--epochs", "--batch-size", "--run", "--quick", "--seeds", "--dry-run"]
    if name in ("translate", "graphs"):
        options[3] = "--tokens-per-batch"
    assert all(f"\n  {option} " in first for option in options)
    assert len(re.findall("^  --", first, re.M)) < 20
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", RECIPES)
def test_help_is_that_of_the_most_used_options(name, helped, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        importlib.import_module(f"recipes.{name}.__main__").main(["train", "--help"])
    shown = capsys.readouterr().out
    before, _, after = helped[name].partition("\n\ndata:")
    epilog = after[after.index("Names for --config") :]
    assert shown == f"{before}\n\nAll options: python -m recipes.{name} train --help all\n\n{epilog}"
    assert len(shown.splitlines()) < 80
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module(f"recipes.{name}.__main__").main(["train", "--help", "data"])
    assert "--help takes nothing or all. Received: data" in capsys.readouterr().err


@pytest.mark.parametrize("name", RECIPES)
def test_names_of_configs_are_at_the_end(name, helped):
    before, _, names = helped[name].partition("Names for --config: ")
    assert "config.json" in " ".join(before.split())
    recipe = importlib.import_module(f"recipes.{name}.__main__").RECIPE
    assert names.replace(",", " ").split() == recipe.config_names()


@pytest.mark.parametrize("name", RECIPES)
def test_all_settings_are_options(name, helped):
    recipe = importlib.import_module(f"recipes.{name}.__main__").RECIPE
    options = {"--" + field.name.replace("_", "-") for field in fields(recipe.settings)}
    assert options <= {*re.findall(r"--[\w-]+", helped[name])}


@pytest.mark.parametrize("name, text", [
    ("answer", "initializer_range"), ("glue", "head_dim"), ("glue", "gradient_accumulation_steps"),
    ("translate", "[1 2]"),
])  # fmt: skip
def test_arguments_and_defaults_are_listed(name, text, helped):
    assert text in helped[name]


def test_help_without_keras():
    command = [sys.executable, "-S", "-m", "recipes.tag", "--help"]  # without installed packages
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert "not installed: numpy, keras, tensorflow. Run: pip install" in line


@pytest.mark.parametrize("cls", dict.fromkeys(map(type, all_configs().values())), ids=lambda cls: cls.__name__)
def test_named_settings_exist(cls):
    names = {field.name for field in fields(cls)}
    assert {*cls.MOST_USED, *(name.partition(".")[0] for name in cls.SIZE_OPTIONS), *cls.PRETRAINED} <= names


def test_a_recipe_without_a_saved_model_offers_no_export():
    commands = {name: importlib.import_module(f"recipes.{name}.__main__").RECIPE.all_commands() for name in RECIPES}
    assert [name for name, of_recipe in commands.items() if "export" not in of_recipe] == ["rationales"]

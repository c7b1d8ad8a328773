"""The Python examples of the documentation run, top to bottom of each page; its commands have options that exist."""

import importlib
import pathlib
import re
import runpy
import shlex

import keras
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.clear_session()  # names of layers that pages quote do not depend on other tests
    namespace = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#]+)", prose):
        if "://" not in link:
            assert (page.parent / link).exists(), link


def test_tables_of_attentions_are_those_of_the_classes():
    attentions = runpy.run_path(str(ROOT / "docs" / "attentions.py"))
    for page in attentions["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert text == attentions["written"](text), f"Run `python docs/attentions.py`, which writes it into {page.name}"


def test_reference_has_every_public_module():
    modules = [path.stem for path in (ROOT / "keras_headattn").glob("*.py")]
    modules += [path.parent.name for path in (ROOT / "keras_headattn").glob("*/__init__.py")]
    public = {f"keras_headattn.{name}" for name in modules if not name.startswith("_")}
    found = re.findall(r"automodule:: (\S+)", (ROOT / "docs" / "api.rst").read_text(encoding="utf-8"))
    assert set(found) == public and len(found) == len(public)


def commands():
    """List of (page, name, arguments), from all `python -m recipes.NAME ARGUMENTS` in blocks, tables and text."""
    return [
        (page.name, name, [word for word in shlex.split(arguments) if word != "..."])
        for page in PAGES
        for name, arguments in re.findall(
            r"python -m recipes\.(\w+)([^\n`|<#]*)", page.read_text(encoding="utf-8").replace("\\\n", " ")
        )
    ]


@pytest.mark.parametrize("page, name, arguments", commands())
def test_commands_have_options_that_exist(page, name, arguments):
    recipe = importlib.import_module(f"recipes.{name}")
    if hasattr(recipe, "COMMANDS") and not {*arguments[:1]} & {*recipe.COMMANDS}:
        arguments = ["train", *arguments]  # the default
    if "--help" not in arguments:
        recipe._parser().parse_args(arguments)

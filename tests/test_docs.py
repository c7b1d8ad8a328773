"""The Python examples of the documentation run, top to bottom of each page; its commands have options that exist."""

import json
import pathlib
import re
import runpy
import shlex

import keras
import pytest
import tensorflow as tf

import keras_headattn
from tests.recipes.commands import check_options

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The recipe of docs/own_recipe.md; tests/recipes/test_own_recipe.py runs its commands.
OWN = "parts"
DOCS = ROOT / "docs"
SERVING = DOCS / "serving.md"
PAGES = [ROOT / "README.md", *sorted([*DOCS.glob("*.md"), *DOCS.glob("results/*.md")])]


def run_examples(page):
    """Returns the variables that the examples of a page leave."""
    keras.utils.clear_session()  # names of layers that pages quote do not depend on other tests
    namespace = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)
    return namespace


@pytest.mark.parametrize("page", [x for x in PAGES if x != SERVING], ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(page)


def test_examples_of_serving_run_and_its_requests_fit(tmp_path, monkeypatch):
    """TensorFlow Serving takes `instances` for the rows of the only input, or of all inputs by name."""
    monkeypatch.chdir(tmp_path)
    assert run_examples(SERVING)["translations"].shape == (2,)
    page = SERVING.read_text(encoding="utf-8")
    requests = re.findall(r"models/(\w+):predict \\\n +-d '(.*)'", page)
    assert len(requests) == 4
    for model, body in requests:
        body = json.loads(body)
        loaded = tf.saved_model.load(f"saved_models/{model}/1")
        signature = loaded.signatures[body.get("signature_name", "serving_default")]
        [(argument, spec)] = signature.structured_input_signature[1].items()
        outputs = signature(**{argument: tf.constant(body["instances"], spec.dtype)})
        assert {len(output) for output in outputs.values()} == {len(body["instances"])}
    (body,) = re.findall(r'^\{"signature_name": "constrained".*\}$', page, re.MULTILINE)
    (row,) = json.loads(body)["instances"]
    constrained = tf.saved_model.load("saved_models/demo/1").signatures["constrained"]
    specs = constrained.structured_input_signature[1]
    found = constrained(**{name: tf.constant([row[name]], spec.dtype) for name, spec in specs.items()})
    assert found["translations"].numpy()[0, 0].decode().startswith(row["prefix"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#]+)", prose):
        if "://" not in link:
            assert (page.parent / link).exists(), link


def test_the_sidebar_has_every_page():
    """Sphinx refuses a page that no list has."""
    listed = (DOCS / "conf.py").read_text(encoding="utf-8")
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES[1:]} - {"index"}
    assert {page for page in pages if not re.search(rf"/docs/{page}\b", listed)} == set()


def test_tables_of_attentions_are_those_of_the_classes():
    attentions = runpy.run_path(str(ROOT / "docs" / "attentions.py"))
    for page in attentions["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert text == attentions["written"](page), f"Run `python docs/attentions.py`, which writes it into {page.name}"


def test_reference_has_every_public_module():
    """docs/conf.py writes a page for each room that the library names."""
    modules = [path.stem for path in (ROOT / "keras_headattn").glob("*.py")]
    modules += [path.parent.name for path in (ROOT / "keras_headattn").glob("*/__init__.py")]
    assert sorted(keras_headattn.__all__) == sorted(name for name in modules if not name.startswith("_"))


def commands():
    """List of (page, name, arguments), from all `python -m recipes.NAME ARGUMENTS` in blocks, tables and text."""
    return [
        (page.name, name, [word for word in shlex.split(arguments) if word != "..."])
        for page in PAGES
        for name, arguments in re.findall(
            r"python -m recipes\.(\w+)([^\n`|<#]*)", page.read_text(encoding="utf-8").replace("\\\n", " ")
        )
        if name != OWN
    ]


@pytest.mark.parametrize("page, name, arguments", commands())
def test_commands_have_options_that_exist(page, name, arguments):
    check_options(name, arguments)

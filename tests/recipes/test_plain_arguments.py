"""Functions of recipes take the values that they need: none takes all settings to read a few of them."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEW = 3
HOOKS = {"_check_files"}  # which `Recipe` calls with all settings


def readers(source):
    """Names of functions that read few attributes of their argument `config`, and do nothing else with it."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or function.name in HOOKS:
            continue
        nodes = list(ast.walk(function))
        if not any(isinstance(node, ast.arg) and node.arg == "config" for node in nodes):
            continue
        called = [node.func for node in nodes if isinstance(node, ast.Call)]
        uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == "config"]
        reads = [node.attr for node in nodes if isinstance(node, ast.Attribute) and node.value in uses]
        methods = [node for node in called if isinstance(node, ast.Attribute) and node.value in uses]
        if len(reads) == len(uses) and not methods and len(set(reads)) <= FEW:
            yield function.name


def test_no_function_takes_settings_to_read_a_few():
    paths = sorted((ROOT / "recipes").rglob("*.py"))
    assert len(paths) > 100
    found = [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in readers(path.read_text("utf-8"))]
    if found:
        pytest.fail("\n".join(["Give these the values that they read:", *found]), pytrace=False)


@pytest.mark.parametrize("body, count", [
    ("return config.a + config.b + config.a", 1),
    ("return len(x)", 1),
    ("return config.a, config.b, config.c, config.d", 0),
    ("return other(config), config.a", 0),
    ("return config.changed({})", 0),
    ("return [getattr(config, name) for name in x]", 0),
])  # fmt: skip
def test_readers_are_found(body, count):
    assert len(list(readers(f"def f(x, config):\n    {body}"))) == count

"""The import rules of pyproject.toml hold, and recipes and examples use public names of the library."""

import ast
import os
import pathlib

from importlinter.cli import lint_imports

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_contracts(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0


def private_imports(path):
    """Yields imports of private modules and names of the library, each with its line; also of those in functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            if package in ("headattn_io", "keras_headattn") and any(part.startswith("_") for part in parts):
                yield f"{os.path.relpath(path, ROOT)}:{node.lineno} imports {name}"


def test_recipes_and_examples_use_public_names():
    paths = [path for folder in ("recipes", "examples") for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 100
    assert [fault for path in sorted(paths) for fault in private_imports(path)] == []


def test_private_imports_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("from keras_headattn import _figures, layers\ndef f():\n    from headattn_io._x import y")
    assert len(list(private_imports(path))) == 2

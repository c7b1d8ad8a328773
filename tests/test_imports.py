"""The import rules of pyproject.toml hold; examples use public names of the library, and recipes few others."""

import ast
import os
import pathlib

from importlinter.cli import lint_imports

ROOT = pathlib.Path(__file__).resolve().parents[1]


# Modules that the library and the recipes share: figures, files, terminals, optional packages, and readers of data.
SHARED = tuple(
    f"keras_headattn.{name}."
    for name in (
        "_figures", "_files", "_terminal", "_tensorflow", "_optional", "_sentences", "data._labelled_text",
        "data._parallel", "interop._checkpoints", "interop._start", "serving._tagger", "serving._warmup",
    )
)  # fmt: skip


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
            if package == "keras_headattn" and any(part.startswith("_") for part in parts):
                yield f"{os.path.relpath(path, ROOT)}:{node.lineno} imports {name}"


def test_recipes_and_examples_use_public_names():
    recipes, examples = (sorted((ROOT / folder).rglob("*.py")) for folder in ("recipes", "examples"))
    assert len(recipes) > 100 and examples
    assert [fault for path in examples for fault in private_imports(path)] == []
    faults = [fault for path in recipes for fault in private_imports(path)]
    assert [fault for fault in faults if not fault.partition(" imports ")[2].startswith(SHARED)] == []


def test_private_imports_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("from keras_headattn import _figures, layers\ndef f():\n    from keras_headattn._x import y")
    assert len(list(private_imports(path))) == 2

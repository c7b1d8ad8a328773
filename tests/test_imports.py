"""The two import rules of the library, read off its sources.

Arrows point one way: a room imports itself and rooms on lower floors, none beside it (but serving may import
text). And what the models are made of needs keras and numpy alone, so that it runs on every backend of Keras.
"""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLOORS = [
    ["_lazy", "_private", "_registration", "_validation", "_files", "_figures", "ops"],
    ["positions", "optimizers", "losses", "regularizers"],
    ["layers"],
    ["models", "decoding"],
    ["training", "serving", "text", "metrics", "analysis", "interop"],
    ["recipes"],
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
SIDEWAYS = {("serving", "text")}

PURE = {"keras", "numpy"}
WITH_TENSORFLOW = PURE | {"tensorflow", "tensorboard"}
# What a room imports besides the standard library: at the top of a file, and in functions (None: anything).
OUTSIDE = {
    **{room: (PURE, PURE) for rooms in FLOORS[:4] for room in rooms},
    **{room: (PURE, None) for room in ("_figures", "metrics", "analysis", "interop")},
    **{room: (WITH_TENSORFLOW, None) for room in ("training", "serving", "recipes")},
    "_private": (set(PURE), None),  # names of TensorFlow in functions that only rooms with it call
    "text": (WITH_TENSORFLOW | {"tensorflow_text", "sentencepiece"}, None),
}
NEVER_TENSORFLOW = {room for room, (top, _) in OUTSIDE.items() if top is PURE}

FILES = sorted(path for folder in ("keras_headattn", "recipes") for path in (ROOT / folder).rglob("*.py"))
# Importing any room runs the package's own __init__.py: it stays as light as the lowest.
PACKAGE = ROOT / "keras_headattn" / "__init__.py"


def room_of(module):
    """`keras_headattn.layers._attention` is in room `layers`; `numpy` is in none."""
    parts = module.split(".")
    if parts[0] == "keras_headattn" and len(parts) > 1:
        return parts[1]
    return "recipes" if parts[0] == "recipes" else None


def imports(path):
    """`[(module, line, whether it is inside a function), ...]` of a file."""
    found = []

    def visit(node, inside):
        if isinstance(node, ast.Import):
            found.extend((alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            package = node.module in ("keras_headattn", "recipes")
            names = [f"{node.module}.{alias.name}" for alias in node.names] if package else [node.module]
            found.extend((name, node.lineno, inside) for name in names)
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


def wrong_imports(path, room):
    """What a file of this room imports and may not."""
    at_top, in_functions = OUTSIDE[room]
    for module, line, inside in imports(path):
        other, name = room_of(module), module.split(".")[0]
        if other is not None:
            allowed = other == room or FLOOR.get(other, len(FLOORS)) < FLOOR[room] or (room, other) in SIDEWAYS
        else:
            names = in_functions if inside else at_top
            allowed = name in sys.stdlib_module_names or names is None or name in names
            allowed = allowed and not (room in NEVER_TENSORFLOW and name.startswith("tensorflow"))
        if not allowed:
            yield f"{path.name}:{line} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_import_rules(path):
    if path == PACKAGE:
        assert [module for module, _, _ in imports(path) if module.split(".")[0] not in sys.stdlib_module_names] == []
        return
    parts = path.relative_to(ROOT).with_suffix("").parts
    room = room_of(".".join(parts))
    assert room in FLOOR, f"{room} is a new room: give it a floor in {pathlib.Path(__file__).name}"
    assert list(wrong_imports(path, room)) == []


@pytest.mark.parametrize("room, source", [
    ("ops", "from keras_headattn.layers import Attention"),
    ("layers", "import tensorflow as tf"),
    ("layers", "def f():\n    import tensorflow"),
    ("layers", "from keras_headattn.optimizers import InverseSquareRoot"),
    ("layers", "from keras_headattn import models"),
    ("models", "from keras_headattn.decoding._search import beam_search"),
    ("decoding", "import scipy.special"),
    ("training", "import keras_headattn.metrics"),
    ("training", "from recipes.config import option"),
    ("metrics", "import sacrebleu"),
    ("metrics", "def f():\n    import tensorflow_text"),
    ("recipes", "class A:\n    import num2words"),
])  # fmt: skip
def test_the_rules_catch(room, source, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(list(wrong_imports(path, room))) == 1


@pytest.mark.parametrize("room, source", [
    ("layers", "import math\nfrom keras import ops\nfrom keras_headattn.ops import attend"),
    ("serving", "from keras_headattn.text import SentencePieceTokenizer\nimport tensorflow as tf"),
    ("recipes", "from keras_headattn import metrics\nfrom recipes.config import option"),
    ("metrics", "def f():\n    import sacrebleu"),
])  # fmt: skip
def test_the_rules_allow(room, source, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert list(wrong_imports(path, room)) == []


def test_no_tensorflow_without_its_backend():
    """Imports that no parser sees, such as those by name, would show here."""
    pytest.importorskip("jax")
    rooms = [room for room in [*FLOOR] if room in NEVER_TENSORFLOW and importable(room)]
    assert "models" in rooms
    code = "import sys, " + ", ".join(f"keras_headattn.{room}" for room in rooms)
    code += "; sys.exit('tensorflow' in sys.modules)"
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


def importable(room):
    path = ROOT / "keras_headattn" / room
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()

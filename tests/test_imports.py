"""The import rules of the library, read off its sources.

Arrows point one way: a room imports itself and rooms on lower floors, none beside it (but serving may import text, and
data for its batches of few shapes). What the models are made of needs keras and numpy alone, so that it runs on
every backend of Keras. And recipes and examples use public modules and names only.
"""

import ast
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLOORS = [
    ["headattn_io"],
    ["_private", "_identifiers", "_tensorflow", "_types", "_validation"],
    ["_recompute", "_remat_scope", "_saved_quantization"],
    ["_heads", "_model", "_figures", "_attention_page", "ops"],
    ["positions", "_random"],
    ["layers", "optimizers", "losses", "regularizers"],
    ["models", "decoding"],
    ["training", "serving", "text", "metrics", "analysis", "data", "interop", "utils"],
    ["keras_headattn"],
    ["recipes"],
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
SIDEWAYS = {("serving", "text"), ("serving", "data"), ("interop", "text")}

PURE = {"keras", "numpy"}
WITH_TENSORFLOW = PURE | {"tensorflow", "tensorboard"}
# What a room imports besides the standard library: at the top of a file, and in functions (None: anything).
OUTSIDE = {
    **{room: (PURE, PURE) for rooms in FLOORS[:-1] for room in rooms},
    "headattn_io": ({"numpy"}, set()),  # what recipes import before they import Keras
    **{room: (PURE, None) for room in ("_figures", "metrics", "analysis", "interop")},
    **{room: (WITH_TENSORFLOW, None) for room in ("training", "serving", "data", "recipes")},
    "ops": (PURE, PURE | {"jax", "torch"}),  # their fused kernels
    "_tensorflow": (WITH_TENSORFLOW, None),
    "_recompute": (PURE, None),  # TensorFlow on its own backend
    "_private": (set(PURE), None),  # names of TensorFlow in functions that only rooms with it call
    "text": (WITH_TENSORFLOW | {"tensorflow_text", "sentencepiece"}, None),
}
NEVER_TENSORFLOW = {room for room, (top, _) in OUTSIDE.items() if "tensorflow" not in top} - {
    "_private",
    "_recompute",
    "analysis",  # `head_importance`
    "interop",
}

FOLDERS = ("headattn_io", "keras_headattn", "recipes")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def room_of(module):
    """`keras_headattn.layers._attention` is in room `layers`; `numpy` is in none."""
    parts = module.split(".")
    if parts[0] == "keras_headattn":
        return parts[1] if len(parts) > 1 else parts[0]
    return parts[0] if parts[0] in ("headattn_io", "recipes") else None


def imports(path):
    """`[(module, line, whether it is inside a function), ...]` of a file."""
    found = []

    def visit(node, inside):
        if isinstance(node, ast.Import):
            found.extend((alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            package = source in FOLDERS
            names = [f"{source}.{alias.name}" for alias in node.names] if package else [source]
            found.extend((name, node.lineno, inside) for name in names)
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        never_run = node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" else ()
        for child in ast.iter_child_nodes(node):
            visit(child, inside or child in never_run)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


def wrong_imports(path, room):
    """The imports of a file that its room may not have, each with its line; relative ones too."""
    at_top, in_functions = OUTSIDE[room]
    for module, line, inside in imports(path):
        other, name = room_of(module), module.split(".")[0]
        if other is not None:
            allowed = other == room or FLOOR.get(other, len(FLOORS)) < FLOOR[room] or (room, other) in SIDEWAYS
        else:
            names = in_functions if inside else at_top
            allowed = name and (name in sys.stdlib_module_names or names is None or name in names)
            allowed = allowed and not (room in NEVER_TENSORFLOW and name.startswith("tensorflow"))
        if not allowed:
            yield f"{os.path.relpath(path, ROOT)}:{line} imports {module}"


def recipe_of(parts):
    """`translate` of recipes/translate/task.py; `None` of what all recipes may import, and of what may import them."""
    return parts[1] if parts[0] == "recipes" and len(parts) > 2 and parts[1] != "engine" else None


def of_other_recipes(path):
    """The imports by which a recipe, or what recipes share, needs one recipe."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "recipes" or len(parts) < 3:
        return
    for module, line, _ in imports(path):
        other = recipe_of([*module.split("."), ""])
        if other not in (None, recipe_of(parts)):
            yield f"{'/'.join(parts)}.py:{line} imports {module}"


def faults(path):
    """All that breaks the rules in a file of the library or of the recipes."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    room = parts[0] if parts[1:] == ("__init__",) else room_of(".".join(parts))
    if room not in FLOOR:
        return [f"{'/'.join(parts)}.py is in the new room {room}: give it a floor in {pathlib.Path(__file__).name}"]
    return [*wrong_imports(path, room), *of_other_recipes(path)]


def test_import_rules():
    found = [fault for path in FILES for fault in faults(path)]
    assert len(FILES) > 100
    if found:
        pytest.fail("\n".join(["", *found]), pytrace=False)


@pytest.mark.parametrize("room, source", [
    ("ops", "from keras_headattn.layers import Attention"),
    ("layers", "import tensorflow as tf"),
    ("layers", "def f():\n    import tensorflow"),
    ("layers", "from keras_headattn.optimizers import InverseSquareRoot"),
    ("layers", "from keras_headattn import models"),
    ("models", "from keras_headattn.decoding._beam_search import beam_search"),
    ("decoding", "import scipy.special"),
    ("training", "import keras_headattn.metrics"),
    ("training", "from recipes.engine.config import option"),
    ("metrics", "import sacrebleu"),
    ("metrics", "def f():\n    import tensorflow_text"),
    ("recipes", "class A:\n    import num2words"),
    ("ops", "from . import masks"),
    ("_figures", "if TYPE_CHECKING:\n    pass\nelse:\n    import matplotlib"),
    ("training", "def f():\n    from ..metrics import bleu"),
])  # fmt: skip
def test_the_rules_catch(room, source, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(list(wrong_imports(path, room))) == 1


@pytest.mark.parametrize("room, source", [
    ("layers", "import math\nfrom keras import ops\nfrom keras_headattn.ops import attend"),
    ("serving", "from keras_headattn.text import SentencePieceTokenizer\nimport tensorflow as tf"),
    ("recipes", "from keras_headattn import metrics\nfrom recipes.engine.config import option"),
    ("metrics", "def f():\n    import sacrebleu"),
    ("_figures", "if TYPE_CHECKING:\n    import matplotlib"),
])  # fmt: skip
def test_the_rules_allow(room, source, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert list(wrong_imports(path, room)) == []


def private_imports(path):
    """Imports of private modules and names of the library, each with its line; also of those in functions."""
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
    if found := [fault for path in sorted(paths) for fault in private_imports(path)]:
        pytest.fail("\n".join(["", *found]), pytrace=False)


@pytest.mark.parametrize("source, count", [
    ("from keras_headattn.data._batches import MemoryBatches", 1),
    ("from keras_headattn import _figures, layers", 1),
    ("from keras_headattn.data import _hidden, Records", 1),
    ("import keras_headattn._private", 1),
    ("def f():\n    from headattn_io._x import y", 1),
    ("from keras_headattn.data import Records\nimport keras_headattn.utils\nfrom keras.src._x import y", 0),
])  # fmt: skip
def test_private_imports_are_found(source, count, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(list(private_imports(path))) == count


def rooms_without_tensorflow():
    return [room for room in FLOOR if room in NEVER_TENSORFLOW and importable(room)]


def importable(room):
    path = ROOT / "keras_headattn" / room
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_rooms_without_tensorflow():
    """`tests/backends` imports them, and checks that TensorFlow is not there then."""
    found = rooms_without_tensorflow()
    assert "models" in found and "training" not in found

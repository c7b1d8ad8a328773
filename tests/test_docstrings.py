"""Examples in docstrings run, and every public name and method has a docstring that names its arguments."""

import doctest
import importlib
import inspect
import itertools
import pathlib
import re
import traceback

import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = [path for folder in ("keras_headattn", "recipes") for path in (ROOT / folder).rglob("*.py")]
MODULES = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES)
PUBLIC = [name for name in MODULES if re.fullmatch(r"keras_headattn\.[a-z]\w*", name)]
OURS = ("keras_headattn.",)  # modules of the classes and functions of this library
# Arguments that every Keras object has.
KERAS_ARGUMENTS = {"name", "dtype", "reduction"}


def room_of(name):
    """The folder of a module in the library; all recipes are one room."""
    parts = name.split(".")
    inner = (ROOT / parts[0] / parts[1]).is_dir() if len(parts) > 1 else False
    return ".".join(parts[:2]) if inner and parts[0] == "keras_headattn" else parts[0]


ROOMS = {room: list(names) for room, names in itertools.groupby(sorted(MODULES, key=room_of), room_of)}


def report(faults, missing=()):
    """Fails with all faults in one message; else skips where optional packages are missing."""
    if faults:
        pytest.fail("\n".join(["", *faults]), pytrace=False)
    if missing:
        pytest.skip(f"all else is right, but optional packages are missing: {', '.join(map(str, missing))}")


@pytest.mark.parametrize("room", ROOMS)
def test_examples(room, tmp_path, monkeypatch):
    """Each module's begin in an empty folder, with the same seed."""
    faults, missing = [], []
    for name in ROOMS[room]:
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        keras.utils.set_random_seed(0)
        keras.config.set_dtype_policy("float32")
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            if (error.name or "").startswith((*OURS, "recipes.")):  # no optional package
                raise
            missing.append(error)
            continue
        names = {"keras": keras, "np": np, **vars(module)}
        for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, globs=names):
            try:
                faults += example_faults(test)
            except ImportError as error:
                missing.append(error)
    report(faults, missing)


def example_faults(test):
    """The first fault of a docstring's examples, with its place: a list of one, or none."""
    try:
        doctest.DebugRunner(optionflags=doctest.ELLIPSIS).run(test)
    except doctest.DocTestFailure as failure:
        example = failure.example
        return [f"{place(test, example)}\n>>> {example.source}expected: {example.want}got: {failure.got}"]
    except doctest.UnexpectedException as failure:
        error = failure.exc_info[1]
        if isinstance(error, ImportError):
            raise error from None
        trace = "".join(traceback.format_exception(error))
        return [f"{place(test, failure.example)}\n>>> {failure.example.source}{trace}"]
    return []


def place(test, example):
    return f"{test.filename}:{(test.lineno or 0) + example.lineno + 1} {test.name}"


def documented(value):
    """Docstrings of a function, or of a class and the classes of this library it is made from."""
    owners = inspect.getmro(value) if inspect.isclass(value) else [value]
    return "\n".join(o.__doc__ or "" for o in owners if o.__module__.startswith(OURS))


def name_faults(module):
    """Public names of a module without a docstring that names all arguments."""
    if not inspect.getdoc(module):
        yield f"{module.__name__} has no docstring"
    for name in module.__all__:
        value, path = getattr(module, name), f"{module.__name__}.{name}"
        if not callable(value):
            continue  # a table, which can have no docstring of its own
        own = (vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or ""
        if len(own) <= 30:
            yield f"{path} has no docstring"
        if "Args:" in own or not inspect.isclass(value):
            yield from argument_faults(path, value)


def faults_of_all(faults_of):
    """Reports what `faults_of` finds in all public modules."""
    faults, missing = [], []
    for name in PUBLIC:
        try:
            faults += faults_of(importlib.import_module(name))
        except ImportError as error:
            missing.append(error)
    report(faults, missing)


def test_public_names_are_documented():
    faults_of_all(name_faults)


def own_methods(value):
    """Public methods of a class and its bases in this library, where first defined: no overrides of Keras's."""
    owners = inspect.getmro(value)
    for place, owner in enumerate(owners):
        for name, member in vars(owner).items():
            first = not any(name in vars(base) for base in owners[place + 1 :])
            method = getattr(member, "__func__", member)  # of a class method
            ours = owner.__module__.startswith(OURS)
            if ours and first and inspect.isfunction(method) and not name.startswith("_"):
                yield f"{owner.__name__}.{name}", getattr(owner, name)


def stages():
    """Stages of attention by name; the table in the docstring of `Attention` documents their arguments."""
    table = importlib.import_module("keras_headattn.layers").Attention.__doc__
    return {f"Attention.{name}" for name in re.findall(r"^ *\| `(\w+)` \|", table, re.MULTILINE)}


def method_faults(module):
    """Public methods of a module's classes without a docstring that names all arguments; stages need a sentence."""
    short = stages()
    for value in filter(inspect.isclass, (getattr(module, name) for name in module.__all__)):
        for name, method in own_methods(value):
            path = f"{module.__name__}: {name}"
            if not method.__doc__:
                yield f"{path} has no docstring"
            elif name not in short and set(inspect.signature(method).parameters) - {"self"}:
                if "Args:" not in method.__doc__:
                    yield f"{path}: the docstring has no 'Args:'"
                yield from argument_faults(path, method)


def test_public_methods_are_documented():
    faults_of_all(method_faults)


def argument_faults(path, value):
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = [p.name for p in inspect.signature(value).parameters.values() if p.kind not in kinds]
    parameters = [p for p in parameters if p != "self"]
    text = documented(value)
    missing = [p for p in parameters if p not in KERAS_ARGUMENTS and not re.search(rf"\b{p}\b", text)]
    if missing:
        yield f"{path}: the docstring does not name {missing}"

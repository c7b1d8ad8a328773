"""Examples in docstrings run, and every public name and method has a docstring that names its arguments."""

import doctest
import importlib
import inspect
import pathlib
import re
import types

import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("keras_headattn", "recipes")
    for path in (ROOT / folder).rglob("*.py")
)
PUBLIC = [name for name in MODULES if re.fullmatch(r"keras_headattn\.\w+", name)]
# Arguments that every Keras object has.
KERAS_ARGUMENTS = {"name", "dtype", "reduction"}


def load(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs an optional package: {error}")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = load(name)
    names = {"keras": keras, "np": np, **vars(module)}
    runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, globs=names):
        if test.examples:
            run(runner, test)


def run(runner, test):
    try:
        runner.run(test)
    except doctest.DocTestFailure as failure:
        example = failure.example
        pytest.fail(f"{test.name}\n>>> {example.source}expected: {example.want}got: {failure.got}", pytrace=False)
    except doctest.UnexpectedException as failure:
        error = failure.exc_info[1]
        if isinstance(error, ImportError):
            pytest.skip(f"needs an optional package: {error}")
        raise error from None


def public_names(module):
    """`__all__`, or all that was made in this library and does not start with an underscore."""
    if hasattr(module, "__all__"):
        return module.__all__
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").startswith("keras_headattn.")
    ]


def documented(value):
    """Docstrings of a function, or of a class and the classes of this library it is made from."""
    owners = inspect.getmro(value) if inspect.isclass(value) else [value]
    return "\n".join(o.__doc__ or "" for o in owners if o.__module__.startswith("keras_headattn."))


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_documented(module):
    module = load(module)
    assert inspect.getdoc(module), f"{module.__name__} has no docstring"
    for name in public_names(module):
        value = getattr(module, name)
        own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        assert own and len(own) > 30, f"{module.__name__}.{name} has no docstring"
        assert own.strip().split("\n\n")[0].endswith("."), f"{name}: the docstring starts with no sentence"
        if "Args:" in own or not inspect.isclass(value):
            check_arguments(name, value)


def own_methods(value):
    """Public methods of a class and its bases in this library, where first defined: no overrides of Keras's."""
    owners = inspect.getmro(value)
    for place, owner in enumerate(owners):
        for name, member in vars(owner).items():
            first = not any(name in vars(base) for base in owners[place + 1 :])
            method = getattr(member, "__func__", member)  # of a class method
            ours = owner.__module__.startswith("keras_headattn.")
            if ours and first and inspect.isfunction(method) and not name.startswith("_"):
                yield f"{owner.__name__}.{name}", getattr(owner, name)


@pytest.mark.parametrize("module", PUBLIC)
def test_public_methods_are_documented(module):
    module = load(module)
    for value in filter(inspect.isclass, (getattr(module, name) for name in public_names(module))):
        for name, method in own_methods(value):
            assert method.__doc__, f"{name} has no docstring"
            if set(inspect.signature(method).parameters) - {"self"}:
                assert "Args:" in method.__doc__, f"{name}: the docstring has no 'Args:'"
                check_arguments(name, method)


def test_methods_that_are_looked_at():
    """Class methods and inherited ones of this library, but no overrides."""
    layers, models = load("keras_headattn.layers"), load("keras_headattn.models")
    names = {name for cls in (layers.LuongAttention, models.Transformer) for name, _ in own_methods(cls)}
    assert {"CachedDecoding.init_cache", "Attention.score", "Transformer.from_size"} <= names
    assert not any(name.endswith((".call", ".build", ".get_config")) or name.startswith("Luong") for name in names)


def check_arguments(name, value):
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = [p.name for p in inspect.signature(value).parameters.values() if p.kind not in kinds]
    parameters = [p for p in parameters if p != "self"]
    text = documented(value)
    missing = [p for p in parameters if p not in KERAS_ARGUMENTS and not re.search(rf"\b{p}\b", text)]
    assert not missing, f"{name}: the docstring does not name {missing}"


def test_a_wrong_example_fails():
    """The runner above, on a docstring that is wrong."""
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    with pytest.raises(pytest.fail.Exception, match="expected: 3\ngot: 2"):
        run(doctest.DebugRunner(), test)

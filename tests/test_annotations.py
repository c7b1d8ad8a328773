"""Every public signature is annotated, so that editors and type checkers know it. `make lint` checks the types."""

import importlib
import inspect

import keras_headattn

OURS = ("keras_headattn.",)
MODULES = [f"keras_headattn.{name}" for name in keras_headattn.__all__]


def is_ours(value):
    return (getattr(value, "__module__", None) or "").startswith(OURS)


def members(module):
    """`(name, value)` of public names, and of constructors, public methods and properties of public classes."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
        value = getattr(module, name)
        yield name, value
        for owner in filter(is_ours, inspect.getmro(value) if inspect.isclass(value) else ()):
            for key, member in vars(owner).items():
                if key in ("__init__", "__call__") or not key.startswith("_"):
                    yield f"{owner.__name__}.{key}", member


def faults(module):
    for name, member in members(module):
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        function = inspect.unwrap(function) if inspect.isfunction(function) else None
        if not is_ours(function):
            continue
        signature = inspect.signature(function)
        bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        bare = [argument for argument in bare if argument not in ("self", "cls")]
        if signature.return_annotation is signature.empty and function.__name__ != "__init__":
            bare.append("return")
        if bare:
            yield f"{module.__name__}: {name} lacks annotations of {', '.join(bare)}"


def test_public_signatures_are_annotated():
    modules = [importlib.import_module(name) for name in MODULES]
    assert sum(len(list(members(module))) for module in modules) > 1000
    assert [fault for module in modules for fault in faults(module)] == []

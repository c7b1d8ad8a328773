"""Attention layers and their arguments, read from their source: importing them would import TensorFlow."""

import ast
import difflib
import functools
import importlib.util
import pathlib

REQUIRED = object()  # the default of an argument that has none


def _parse(module):
    """The syntax tree of a module of keras_headattn, such as `"layers._attention"`."""
    (folder,) = importlib.util.find_spec("keras_headattn").submodule_search_locations
    path = pathlib.Path(folder, *module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _table(tree, name):
    """The dictionary that a module assigns to a name, each value as its source."""
    (found,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == name)
    return {ast.literal_eval(key): ast.unparse(value) for key, value in zip(found.keys, found.values, strict=True)}


_LAYERS = _parse("layers")
_MODULES = {
    alias.name: node.module.removeprefix("keras_headattn.")
    for node in (*_LAYERS.body, *_parse("models").body)
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
ATTENTIONS = _table(_LAYERS, "ATTENTIONS")  # name to name of the class
SIZES = {name: ast.literal_eval(size) for name, size in _table(_parse(_MODULES["SIZES"]), "SIZES").items()}


@functools.cache
def arguments_of(name):
    """The arguments of an attention's constructor and of those of the classes above it, its own first.

    Args:
        name: str, as in `layers.ATTENTIONS`.

    Returns:
        Dictionary of name to default. One that has none, or is no literal, is `REQUIRED`.

    >>> list(arguments_of("interacting"))[:4], arguments_of("luong")["num_heads"]
    (['num_heads', 'key_dim', 'value_dim', 'interaction'], 1)
    """
    found = {}
    for arguments in _constructors(ATTENTIONS[name]):
        positional = arguments.args[1:]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
        for argument, default in zip(positional + arguments.kwonlyargs, defaults + arguments.kw_defaults, strict=True):
            found.setdefault(argument.arg, _value(default))
    return found


def suggestion(name, names):
    """`" (did you mean alpha?)"` for `alhpa`; nothing where no name is near.

    >>> suggestion("alhpa", ["alpha", "beta"])
    ' (did you mean alpha?)'
    """
    near = difflib.get_close_matches(name, names, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _constructors(name):
    """The `ast.arguments` of the constructors of a class and of the attentions above it."""
    if name not in (*ATTENTIONS.values(), "Attention"):
        return []
    (cls,) = (node for node in _parse(_MODULES[name]).body if isinstance(node, ast.ClassDef) and node.name == name)
    own = [node.args for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return own + [each for base in cls.bases for each in _constructors(ast.unparse(base).rpartition(".")[2])]


def _value(default):
    try:
        return ast.literal_eval(default)
    except (TypeError, ValueError):
        return REQUIRED

"""The arguments of attention layers, read from their source: importing them would import Keras and TensorFlow."""

import ast
import difflib
import functools
import pathlib
import re

from keras_headattn import layers

REQUIRED = object()  # the default of an argument that has none


@functools.cache
def arguments_of(name):
    """The arguments of an attention's constructor and of those of the classes above it, its own first.

    Args:
        name: str, as in `layers.ATTENTIONS`.

    Returns:
        Dictionary of name to default. One that has none, or is no literal, is `REQUIRED`.

    >>> list(arguments_of("interacting"))[:3], arguments_of("luong")["num_heads"]
    (['num_heads', 'key_dim', 'interaction'], 1)
    """
    found = {}
    for arguments in _constructors(layers.ATTENTIONS[name]):
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
    if name not in (*layers.ATTENTIONS.values(), "Attention"):
        return []
    module = re.sub("(?=[A-Z])", "_", name).lower()
    path = pathlib.Path(layers.__file__).parent / f"{module}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    own = [node.args for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return own + [each for base in cls.bases for each in _constructors(ast.unparse(base).rpartition(".")[2])]


def _value(default):
    try:
        return ast.literal_eval(default)
    except (TypeError, ValueError):
        return REQUIRED

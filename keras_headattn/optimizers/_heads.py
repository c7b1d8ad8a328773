"""Which weights of a model belong to attention heads."""

import collections
import dataclasses
import re

import keras

from keras_headattn._heads import ROLES, Heads, mark_heads

__all__ = ["head_axis", "mark_heads"]

PROJECTIONS = ("query", "key", "value")
LAYERS = ("all", "first", "last")
# The axis of the heads, by the layer that holds the kernel: stock Keras and KerasHub name theirs as this library does.
_HEAD_AXES = {"query": 1, "key": 1, "value": 1, "attention_output": 0}


def head_axis(variable: keras.Variable) -> int | None:
    """The axis of a weight along which lie the attention heads, or `None`.

    It is the axis that the layer has marked by `mark_heads`. Of a weight without a mark, it is the axis that
    `keras.layers.MultiHeadAttention` has for a kernel of this name.

    Args:
        variable: `keras.Variable`.

    >>> attention = keras.layers.MultiHeadAttention(num_heads=4, key_dim=2)
    >>> attention.build((None, 5, 8), (None, 5, 8))
    >>> {variable.path.split("/")[-2]: head_axis(variable) for variable in attention.weights if variable.ndim == 3}
    {'query': 1, 'key': 1, 'value': 1, 'attention_output': 0}
    """
    heads = _mark(variable)
    return _HEAD_AXES.get(_stock_projection(variable)) if heads is None else heads.axis


def _mark(variable):
    return getattr(variable, "heads", None)


def _stock_projection(variable):
    """`"query"`, `"key"`, `"value"` or `"attention_output"` if this is such a kernel by its path, else `None`."""
    projection, _, kind = variable.path.rpartition("/")
    name = projection.rpartition("/")[2]
    return name if kind == "kernel" and name in _HEAD_AXES and len(variable.shape) > 2 else None


@dataclasses.dataclass
class HeadKernel:
    """A weight with a part for each head.

    Attributes:
        variable: `keras.Variable`.
        axis: of the heads.
        layer: path of the attention layer.
        number: how many layers of the same path come before it, as nested models can have them.
        projection: `"query"`, `"key"`, `"value"`, `"attention_output"`, or the kind that a layer has marked.
        role: of the layer: `"encoder"`, `"decoder"` or `"cross"`. Its path says so, if the mark does not.
    """

    variable: object
    axis: int
    layer: str
    number: int
    projection: str
    role: str


def head_kernels(variables):
    """Lists the weights with heads among some, as `HeadKernel`s in their order.

    Where a layer has marked weights, these are the ones. In all other layers the paths and shapes of kernels say where
    heads are, as in stock Keras and KerasHub.
    """
    variables = list(variables)
    layers = _layers(variables)
    marked = {layer for variable, layer in zip(variables, layers, strict=True) if _mark(variable)}
    shapes = collections.defaultdict(dict)
    for variable, layer in zip(variables, layers, strict=True):
        if layer not in marked and _stock_projection(variable):
            shapes[layer][_stock_projection(variable)] = variable.shape
    found = []
    for variable, layer in zip(variables, layers, strict=True):
        heads = _mark(variable) or _guess(_stock_projection(variable), shapes[layer])
        if heads is not None:
            role = heads.role or _role(layer[0])
            found.append(HeadKernel(variable, heads.axis, *layer, heads.kind, role))
    return found


def _layers(variables):
    """Of each variable, the path of its layer, and how many layers of the same path come before.

    Variables of one layer have different paths: where one comes again, another layer begins.
    """
    layers, paths, numbers = [], collections.defaultdict(set), collections.Counter()
    for variable in variables:
        layer = variable.path.removesuffix("/kernel").rpartition("/")[0]
        if variable.path in paths[layer]:
            paths[layer].clear()
            numbers[layer] += 1
        paths[layer].add(variable.path)
        layers.append((layer, numbers[layer]))
    return layers


def _guess(projection, shapes):
    """The heads of a kernel without a mark, or `None`.

    KerasHub's Gemma has the heads before the input's width, not after it. Where a layer has a kernel of its output,
    `(num_heads, ...)`, its query's kernel must have as many heads on one of these two axes; else it has no heads.
    """
    if projection not in shapes:
        return None
    axis, output = _HEAD_AXES[projection], shapes.get("attention_output")
    if axis == 1 and output is not None:
        query = shapes.get("query", shapes[projection])
        axis = {query[0]: 0, query[1]: 1}.get(output[0])
    return None if axis is None else Heads(axis, projection)


def select_heads(variables, projections=None, roles=ROLES, layers="all", select=None):
    """The weights of attention heads that `Repulsive` acts on."""
    there = [kernel for kernel in head_kernels(variables) if kernel.projection != "attention_output"]
    matches = re.compile(select).search if isinstance(select, str) else select or (lambda path: True)
    chosen = [kernel for kernel in there if kernel.role in roles and matches(kernel.variable.path)]
    names = {*PROJECTIONS, *(kernel.projection for kernel in there)}
    if projections is not None and not names.issuperset(projections):
        raise ValueError(f"`projections` must be among {', '.join(sorted(names))}. Received: {projections}")
    chosen = [kernel for kernel in chosen if projections is None or kernel.projection in projections]
    if layers != "all":
        end = {}
        for kernel in chosen if layers == "last" else reversed(chosen):
            end[kernel.role] = kernel.layer, kernel.number
        chosen = [kernel for kernel in chosen if end[kernel.role] == (kernel.layer, kernel.number)]
    if not chosen:
        raise ValueError(
            "There is no weight of attention heads in the selection. "
            f"Received: projections={projections}, roles={roles}, layers={layers!r}, select={select!r}, "
            f"and a model with {', '.join(kernel.variable.path for kernel in there) or 'no such weight at all'}"
        )
    return chosen


def describe(kernels):
    """One line on what is in a selection."""
    roles = collections.Counter(role for *_, role in {(kernel.layer, kernel.number, kernel.role) for kernel in kernels})
    layers = ", ".join(f"{roles[role]} {role}" for role in ROLES if roles[role])
    projections = "/".join(dict.fromkeys(kernel.projection for kernel in kernels))
    heads = "/".join(map(str, sorted({kernel.variable.shape[kernel.axis] for kernel in kernels})))
    number = f"{len(kernels)} kernel{'s' if len(kernels) > 1 else ''}"
    return f"{number} ({projections}) of {heads} heads, in attention layers: {layers}"


def _role(path):
    *outer, own = path.split("/")
    if "cross" in own or "encoder_decoder" in own:
        return "cross"
    for name in (own, *reversed(outer)):  # the innermost that says which
        for role in ("decoder", "encoder"):
            if role in name.lower():
                return role
    return "encoder"

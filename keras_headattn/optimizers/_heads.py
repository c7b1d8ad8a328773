"""Weights of attention heads in a model."""

import collections
import dataclasses
import re

import keras

from keras_headattn._heads import ROLES, Heads, mark_heads

__all__ = ["head_axis", "mark_heads"]

PROJECTIONS = ("query", "key", "value")
LAYERS = ("all", "first", "last")
# Axis of the heads by the layer with the kernel; stock Keras and KerasHub use the same names.
_HEAD_AXES = {"query": 1, "key": 1, "value": 1, "attention_output": 0}


def head_axis(variable: keras.Variable) -> int | None:
    """Returns the axis of a weight along which attention heads lie, or `None`.

    It is the axis marked by `mark_heads`, or that of a stock `keras.layers.MultiHeadAttention` kernel of this name.

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
    """Returns `"query"`, `"key"`, `"value"` or `"attention_output"` for such a kernel by its path, else `None`."""
    projection, _, kind = variable.path.rpartition("/")
    name = projection.rpartition("/")[2]
    return name if kind == "kernel" and name in _HEAD_AXES and len(variable.shape) > 2 else None


@dataclasses.dataclass
class HeadKernel:
    """Weight with a part for each head.

    Attributes:
        variable: `keras.Variable`.
        axis: axis of the heads.
        layer: path of the attention layer.
        number: number of earlier layers with the same path, as in nested models.
        projection: `"query"`, `"key"`, `"value"`, `"attention_output"`, or the kind that a layer has marked.
        role: `"encoder"`, `"decoder"` or `"cross"`, by the mark or else the layer's path.
    """

    variable: object
    axis: int
    layer: str
    number: int
    projection: str
    role: str


def head_kernels(variables):
    """Returns the weights with heads as `HeadKernel`s.

    In layers without marks, the paths and shapes of kernels decide, as in stock Keras and KerasHub.
    """
    variables = list(variables)
    layers = _layers(variables)
    marked = {layer for variable, layer in zip(variables, layers, strict=True) if _mark(variable)}
    shapes = collections.defaultdict(dict)
    for variable, layer in zip(variables, layers, strict=True):
        if layer not in marked and _stock_projection(variable):
            shapes[layer][_stock_projection(variable)] = variable.shape
    kernels = []
    for variable, layer in zip(variables, layers, strict=True):
        heads = _mark(variable) or _guess(_stock_projection(variable), shapes[layer])
        if heads is not None:
            role = heads.role or _role(layer[0])
            kernels.append(HeadKernel(variable, heads.axis, *layer, heads.kind, role))
    return kernels


def _layers(variables):
    """Returns `(path of the layer, number of earlier layers with this path)` for each variable.

    Paths within a layer differ: a repeated one begins another layer.
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
    """Returns the heads of an unmarked kernel, or `None`.

    KerasHub's Gemma has the heads before the input's width. If the layer has an output kernel `(num_heads, ...)`, its
    query kernel must have as many heads on one of these two axes.
    """
    if projection not in shapes:
        return None
    axis, output = _HEAD_AXES[projection], shapes.get("attention_output")
    if axis == 1 and output is not None:
        query = shapes.get("query", shapes[projection])
        axis = {query[0]: 0, query[1]: 1}.get(output[0])
    return None if axis is None else Heads(axis, projection)


def select_heads(variables, projections=None, roles=ROLES, layers="all", select=None):
    """Returns the weights of attention heads that `Repulsive` acts on."""
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
        frozen = any(variable.name.startswith("lora_") for variable in variables)
        raise ValueError(
            f"The selection must have weights of attention heads{', which LoRA freezes' if frozen else ''}. "
            f"Received: projections={projections}, roles={roles}, layers={layers!r}, select={select!r}, "
            f"and a model with {', '.join(kernel.variable.path for kernel in there) or 'no such weight at all'}"
        )
    return chosen


def describe(kernels):
    """Returns a one-line summary of the selected kernels."""
    roles = collections.Counter(role for *_, role in {(kernel.layer, kernel.number, kernel.role) for kernel in kernels})
    layers = ", ".join(f"{roles[role]} {role}" for role in ROLES if roles[role])
    projections = "/".join(dict.fromkeys(kernel.projection for kernel in kernels))
    heads = "/".join(map(str, sorted({kernel.variable.shape[kernel.axis] for kernel in kernels})))
    count = f"{len(kernels)} kernel{'s' if len(kernels) > 1 else ''}"
    return f"{count} ({projections}) of {heads} heads, in attention layers: {layers}"


def _role(path):
    *outer, last = path.split("/")
    if "cross" in last or "encoder_decoder" in last:
        return "cross"
    for name in (last, *reversed(outer)):  # the innermost that says which
        for role in ("decoder", "encoder"):
            if role in name.lower():
                return role
    return "encoder"

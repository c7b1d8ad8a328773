"""Which weights of a model belong to attention heads."""

import collections
import dataclasses
import re

PROJECTIONS = ("query", "key", "value")
ROLES = ("encoder", "decoder", "cross")
LAYERS = ("all", "first", "last")
# The axis of the heads, by the layer that holds the kernel: stock Keras and KerasHub name theirs as this library does.
_HEAD_AXES = {"query": 1, "key": 1, "value": 1, "attention_output": 0}


def head_axis(variable):
    """The axis of a weight along which lie the attention heads, or `None`.

    A layer whose kernel has another name than those of `keras.layers.MultiHeadAttention` marks it by an attribute:
    `variable.head_axis = 1`.

    Args:
        variable: `keras.Variable`.

    >>> attention = keras.layers.MultiHeadAttention(num_heads=4, key_dim=2)
    >>> attention.build((None, 5, 8), (None, 5, 8))
    >>> {variable.path.split("/")[-2]: head_axis(variable) for variable in attention.weights if variable.ndim == 3}
    {'query': 1, 'key': 1, 'value': 1, 'attention_output': 0}
    """
    marked = getattr(variable, "head_axis", None)
    return marked if marked is not None else _HEAD_AXES.get(_stock_projection(variable))


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
        projection: `"query"`, `"key"`, `"value"`, `"attention_output"`, or the name of a kernel that is marked.
        role: of the layer, by its path: `"encoder"`, `"decoder"` or `"cross"`.
    """

    variable: object
    axis: int
    layer: str
    projection: str
    role: str


def head_kernels(variables):
    """All weights with heads among some, as a list of `HeadKernel`, in their order.

    KerasHub's Gemma has the heads before the input's width, not after it. Where a layer has a kernel of its output,
    `(num_heads, ...)` or, of heads that interact in pairs, `(num_heads^2, ...)`, its query's kernel must have as many
    heads on one of these two axes; else it has no heads.

    Args:
        variables: `keras.Variable`s, such as `model.trainable_variables`.
    """
    variables, found = list(variables), []
    shapes = {variable.path: variable.shape for variable in variables if _stock_projection(variable)}
    for variable in variables:
        axis = head_axis(variable)
        path, _, projection = variable.path.removesuffix("/kernel").rpartition("/")
        output = shapes.get(f"{path}/attention_output/kernel")
        if axis == 1 and variable.path in shapes and output is not None:
            query = shapes.get(f"{path}/query/kernel", variable.shape)
            axis = {query[0]: 0, query[1] ** 2: 1, query[1]: 1}.get(output[0])
        if axis is not None:
            found.append(HeadKernel(variable, axis, path, projection, _role(path)))
    return found


def select_heads(variables, projections=None, roles=ROLES, layers="all", select=None):
    """The weights of attention heads that `Repulsive` acts on.

    Args:
        variables: `keras.Variable`s.
        projections: which kernels of a layer, by name. Default: queries, keys and values, and those that are marked.
        roles: which layers, by what they are in a Transformer.
        layers: `"all"`, or `"first"` or `"last"`: of each role, the one layer that was made first or last.
        select: a regular expression to be found in the path of a weight, or a function of the path. Default: every
            path.

    Returns:
        A list of `HeadKernel`.

    Raises:
        ValueError: for a projection that no layer has, or if none is left; it names the ones there are.
    """
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
            end[kernel.role] = kernel.layer
        chosen = [kernel for kernel in chosen if end[kernel.role] == kernel.layer]
    if not chosen:
        raise ValueError(
            "There is no weight of attention heads in the selection. "
            f"Received: projections={projections}, roles={roles}, layers={layers!r}, select={select!r}, "
            f"and a model with {', '.join(kernel.variable.path for kernel in there) or 'no such weight at all'}"
        )
    return chosen


def describe(kernels):
    """One line on what is in a selection."""
    roles = collections.Counter(role for _, role in {(kernel.layer, kernel.role) for kernel in kernels})
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

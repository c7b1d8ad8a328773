"""Captures intermediate tensors of layers."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

from keras import ops

from keras_headattn._paths import numbered
from keras_headattn._types import Tensor

_active = threading.local()


@contextlib.contextmanager
def capture_intermediates() -> Iterator[dict[str, dict[str, Tensor]]]:
    """Collects intermediate tensors of attention layers while it is open.

    Each layer called within it adds `"queries"`, `"logits"`, `"weights"`, and others that it documents. This works in
    eager mode and inside one traced function; a function compiled before adds nothing.

    Returns:
        Context manager of a dictionary from layer path, such as `"encoder_0/attention"`, to the tensors of the layer's
            last call by name. Repeated paths end in `_1`, `_2`, ...

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(num_heads=4, key_dim=4, name="attention")
    >>> with capture_intermediates() as intermediates:
    ...     y = layer(keras.ops.ones((2, 5, 16)), keras.ops.ones((2, 5, 16)))
    >>> tuple(intermediates["attention"]["weights"].shape)
    (2, 4, 5, 5)
    """
    with capture_by_layer() as by_layer:
        yield by_layer.tensors


@dataclasses.dataclass(eq=False)
class Intermediates:
    """Tensors by name, by path, and the layers by the same paths."""

    tensors: dict
    layers: dict


@contextlib.contextmanager
def capture_by_layer():
    """Collects intermediate tensors and their layers while it is open."""
    stack, intermediates = _stack(), Intermediates({}, {})
    stack.append(intermediates)
    try:
        yield intermediates
    finally:
        stack.remove(intermediates)


def with_intermediates(layers, call, *args):
    """Calls a function; returns its result and the intermediates, by the names in `layers` instead of paths."""
    with capture_intermediates() as intermediates:
        result = call(*args)
    return result, {_name(path, layers): tensors for path, tensors in intermediates.items()}


def _name(path, layers):
    for name, layer in layers.items():
        if f"{path}/".startswith(f"{layer.path}/"):
            return name + path.removeprefix(layer.path)
    return path


def is_capturing():
    """Returns True while intermediates are being collected."""
    return bool(_stack())


def record(layer, **tensors):
    """Adds tensors of a layer to all open collections; a function is applied to the tensor of that name."""
    for intermediates in _stack():
        name = next(name for name in numbered(layer.path) if intermediates.layers.setdefault(name, layer) is layer)
        recorded = intermediates.tensors.setdefault(name, {})
        recorded.update({name: x(recorded[name]) if callable(x) else x for name, x in tensors.items()})


def record_by_token(layer, attended, shape, **tensors):
    """Sums the weights of `Attended` over several keys of a token, axis 3 of `shape`, and records them."""
    if attended.weights is None:
        return attended
    weights = ops.sum(ops.reshape(attended.weights, shape), axis=3)
    record(layer, logits=lambda x: ops.logsumexp(ops.reshape(x, shape), axis=3), weights=weights, **tensors)
    return dataclasses.replace(attended, weights=weights)


def _stack():
    if not hasattr(_active, "stack"):
        _active.stack = []
    return _active.stack

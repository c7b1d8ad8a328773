"""Intermediate tensors of layers, by name."""

import contextlib
import threading
from collections.abc import Iterator

from keras_headattn._types import Tensor

_active = threading.local()


@contextlib.contextmanager
def capture_intermediates() -> Iterator[dict[str, dict[str, Tensor]]]:
    """Collects intermediate tensors of attention layers while it is open.

    Each layer that is called within it adds its tensors to the dictionary: `"queries"`, `"logits"`, `"weights"`, and
    others that a layer documents. It works in eager mode and inside one traced function. A function that was compiled
    before is not run again by Python, and adds nothing.

    Returns:
        Context manager of a dictionary: the path of a layer, such as `"encoder_0/attention"`, to a dictionary of
        name to tensor. A layer that is called more than once has its last.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(num_heads=4, key_dim=4, name="attention")
    >>> with capture_intermediates() as found:
    ...     y = layer(keras.ops.ones((2, 5, 16)), keras.ops.ones((2, 5, 16)))
    >>> tuple(found["attention"]["weights"].shape)
    (2, 4, 5, 5)
    """
    stack = _stack()
    found = {}
    stack.append(found)
    try:
        yield found
    finally:
        stack[:] = [other for other in stack if other is not found]


def with_intermediates(layers, call, *args):
    """Calls a function. Returns its result, and the intermediates by names of layers in place of paths.

    The names of layers inside a named one begin with its name.
    """
    with capture_intermediates() as found:
        result = call(*args)
    return result, {_name(path, layers): tensors for path, tensors in found.items()}


def _name(path, layers):
    for name, layer in layers.items():
        if f"{path}/".startswith(f"{layer.path}/"):
            return name + path.removeprefix(layer.path)
    return path


def is_capturing():
    """Whether intermediates are being collected."""
    return bool(_stack())


def record(layer, **tensors):
    """Adds tensors of a layer to all open collections.

    A function is applied to the tensor that the layer has added under its name.
    """
    for found in _stack():
        own = found.setdefault(layer.path, {})
        own.update({name: x(own[name]) if callable(x) else x for name, x in tensors.items()})


def _stack():
    if not hasattr(_active, "stack"):
        _active.stack = []
    return _active.stack

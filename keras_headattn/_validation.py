"""Checks of arguments."""

import math
import numbers
import operator

import numpy as np
from keras import ops

MOST = 2**31 - 1  # of a size: TensorFlow's shapes are of 32 bits in places


def known_values(tensor):
    """Returns the values of a tensor as an array, or `None` in a graph."""
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except Exception:  # a symbolic tensor: the exception depends on the backend
        return None


def as_python(value):
    """Returns a number or boolean of NumPy as one of Python, which JSON can hold; all else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def check_positive(name, value):
    value = as_python(value)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")
    return _below(name, value)


def _below(name, value):
    if value > MOST:
        raise ValueError(f"`{name}` must be below 2**31. Received: {name}={value}")
    return value


def check_lists(**lists):
    """Checks that arguments are lists of str, not one str, and equally long."""
    names = " and ".join(f"`{name}`" for name in lists)
    for value in lists.values():
        if isinstance(value, (str, bytes)):
            raise ValueError(f"{names} must be lists of str. Received: the {type(value).__name__} {value[:60]!r}")
    if len({len(value) for value in lists.values()}) > 1:
        sizes = " and ".join(f"{len(value)} {name}" for name, value in lists.items())
        raise ValueError(f"{names} must be equally long. Received: {sizes}")


def check_boolean(name, value):
    value = as_python(value)
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}")
    return value


def check_group(name, value, num_heads):
    """Returns a number of heads that divides all heads."""
    value = check_positive(name, value)
    if num_heads % value:
        raise ValueError(f"`{name}` must divide `num_heads`. Received: {name}={value}, num_heads={num_heads}")
    return value


def check_switch(name, value, word):
    """Returns a boolean, or the word for a further form of what it switches on."""
    value = as_python(value)
    if not isinstance(value, bool) and value != word:
        raise ValueError(f"`{name}` must be True, False or {word!r}. Received: {name}={value!r}")
    return value


def check_epsilon(name, value):
    """Returns a boolean, or the epsilon of the norm that it switches on."""
    value = as_python(value)
    if not isinstance(value, bool) and not (isinstance(value, float) and 0 < value < math.inf):
        raise ValueError(f"`{name}` must be True, False or a positive epsilon, a float. Received: {name}={value!r}")
    return value


def check_index(name, value):
    value = as_python(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"`{name}` must be an integer, at least 0. Received: {name}={value!r}")
    return _below(name, value)


def check_number(name, value, least=None, above=None, most=None, below=None):
    """Returns a finite number within bounds: `least` and `most` are allowed, `above` and `below` are not."""
    value = as_python(value)
    bounds = ("at least", least, operator.ge), ("above", above, operator.gt)
    bounds += ("at most", most, operator.le), ("below", below, operator.lt)
    bounds = [bound for bound in bounds if bound[1] is not None]
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not all(holds(value, bound) for _, bound, holds in bounds):
        words = " and ".join(f"{words} {bound}" for words, bound, _ in bounds)
        range_ = (
            f" from {least} to {most}" if words == f"at least {least} and at most {most}" else words and f", {words}"
        )
        raise ValueError(f"`{name}` must be a finite number{range_}. Received: {name}={value!r}")
    return value


def check_probability(name, value):
    value = as_python(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={value}")
    return value


def as_shape(output_shape):
    if output_shape is None:
        return None
    shape = tuple(output_shape) if isinstance(output_shape, (tuple, list)) else (output_shape,)
    return tuple(check_positive("output_shape", size) for size in shape)


def as_kernel_size(name, size):
    """Returns the size of a kernel over queries and keys as a tuple, or `None`."""
    if size is None:
        return None
    size = tuple(map(as_python, size)) if isinstance(size, (tuple, list)) else size
    is_pair = isinstance(size, tuple) and len(size) == 2
    if not is_pair or not all(type(x) is int and 0 < x <= MOST for x in size) or size[1] % 2 == 0:
        raise ValueError(f"`{name}` must be two positive integers, the second odd, or None. Received: {name}={size!r}")
    return size


def as_axes(axes):
    if axes is None:
        return None
    as_tuple = tuple(map(as_python, axes if isinstance(axes, (tuple, list)) else (axes,)))
    if not all(isinstance(axis, int) for axis in as_tuple):
        raise ValueError(f"`attention_axes` must be an integer or a tuple of integers. Received: attention_axes={axes}")
    return as_tuple


def chains(previous_logits_shape, logits_shape):
    """Returns True if a map of the first shape, or `None`, continues in one of the second; an unknown size fits any."""
    if previous_logits_shape is None:
        return False
    (heads, own_heads), *lengths = zip(previous_logits_shape[1:], logits_shape[1:], strict=True)
    return (heads == own_heads or None in (heads, own_heads)) and not any(differ(*pair) for pair in lengths)


def differ(size, other):
    """Returns True if two sizes are known and differ. In a graph, an unknown size is `None` or a tensor."""
    return isinstance(size, int) and isinstance(other, int) and size != other

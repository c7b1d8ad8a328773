"""Checks of what attention layers are given."""

import math


def positive(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")
    return value


def number(name, value, least=None, above=None, most=None, below=None):
    """A number within bounds; `True`, NaN and infinity are none."""
    bounds = {"at least": least, "above": above, "at most": most, "below": below}
    fits = not isinstance(value, bool) and isinstance(value, (int, float)) and math.isfinite(value)
    fits = fits and (least is None or value >= least) and (above is None or value > above)
    fits = fits and (most is None or value <= most) and (below is None or value < below)
    if not fits:
        wanted = " and ".join(f"{word} {bound}" for word, bound in bounds.items() if bound is not None)
        raise ValueError(f"`{name}` must be a finite number{' ' * bool(wanted)}{wanted}. Received: {name}={value!r}")
    return value


def rate(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={value}")
    return value


def as_shape(output_shape):
    if output_shape is None:
        return None
    shape = tuple(output_shape) if isinstance(output_shape, (tuple, list)) else (output_shape,)
    return tuple(positive("output_shape", size) for size in shape)


def as_axes(axes):
    if axes is None:
        return None
    as_tuple = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    if not all(isinstance(axis, int) for axis in as_tuple):
        raise ValueError(f"`attention_axes` must be an integer or a tuple of integers. Received: attention_axes={axes}")
    return as_tuple


def chains(previous_map_shape, map_shape):
    """Whether a map of the first shape, or `None`, is carried on in one of the second; a size of `None` fits any."""
    if previous_map_shape is None:
        return False
    return all(
        None in sizes or sizes[0] == sizes[1] for sizes in zip(previous_map_shape[1:], map_shape[1:], strict=True)
    )

"""Figures of matplotlib, which is imported when one is made."""

import numpy as np

from keras_headattn._optional import optional_import


def new_figure(width, height):
    """An empty figure.

    Args:
        width, height: in inches.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ImportError: if matplotlib is not installed, with what to install.

    >>> len(new_figure(4, 3).axes)
    0
    """
    return optional_import("matplotlib.figure", "recipes").Figure((width, height), layout="constrained")


def weight_colors(weights, cmap="Blues", largest=None):
    """Colours of attention weights, from 0 up; where some are below 0, as talking heads' may be, these are red.

    Args:
        weights: array; NaN is not drawn.
        cmap: name of a matplotlib colour map, for weights of which none is below 0.
        largest: weight of its last colour. Default `None`: the largest there is.

    Returns:
        Dictionary of arguments of `imshow`.

    >>> weight_colors(np.array([[0.5, -0.25]]))
    {'cmap': 'RdBu', 'vmin': -0.5, 'vmax': 0.5}
    """
    if np.nanmin(weights) < 0:
        end = float(np.nanmax(np.abs(weights)))
        return dict(cmap="RdBu", vmin=-end, vmax=end)
    return dict(cmap=cmap, vmin=0, vmax=largest or max(float(np.nanmax(weights)), 1e-9))

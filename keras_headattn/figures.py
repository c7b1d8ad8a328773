"""Figures of matplotlib, which only those who draw need."""


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
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Install matplotlib: pip install "keras_headattn[recipes]"') from error
    return Figure((width, height), layout="constrained")

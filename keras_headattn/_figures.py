"""Figures of matplotlib, which is imported when one is made."""

import textwrap
import unicodedata

import numpy as np

from headattn_io.optional import optional_import

TITLE_SIZE = 10  # points
CHARACTER, LINE = 0.085, 0.18  # inches of a title


def new_figure(width, height, title=None):
    """An empty figure, in which texts may be of any script that an installed font has.

    Args:
        width, height: in inches, without the title.
        title: str, broken into as many lines as it needs. Default `None`: no title.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ImportError: if matplotlib is not installed, with what to install.

    >>> new_figure(2, 3, "a title that is longer than two inches").get_suptitle()
    'a title that is longer\\nthan two inches'
    """
    optional_import("matplotlib.figure", "recipes")
    from keras_headattn._fonts import Figure

    lines = _lines(title or "", int(width / CHARACTER))
    figure = Figure((width, height + LINE * len(lines)), layout="constrained")
    if lines:
        figure.suptitle("\n".join(lines), fontsize=TITLE_SIZE, parse_math=False)
    return figure


def _lines(title, columns):
    """Breaks a title after its commas, and elsewhere only where a phrase is longer than a line."""
    lines = []
    for phrase in title.split(", "):
        if lines and len(f"{lines[-1]}, {phrase}") <= columns:
            lines[-1] += f", {phrase}"
            continue
        if lines:
            lines[-1] += ","
        lines += textwrap.wrap(phrase, columns)
    return lines


def shown(token):
    """A token with an open box for the mark of SentencePiece's spaces, which fonts draw as a black bar.

    >>> shown("▁the")
    '␣the'
    """
    return token.replace("\N{LOWER ONE EIGHTH BLOCK}", "\N{OPEN BOX}")


def columns_of(text):
    """How many characters of a font of one width a text takes: Chinese, Japanese and Korean ones take two.

    >>> columns_of("Oslo"), columns_of("東京")
    (4, 4)
    """
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def is_right_to_left(text):
    """Whether a text runs from right to left, by its first letter.

    >>> is_right_to_left("1: سلام"), is_right_to_left("Oslo")
    (True, False)
    """
    kinds = map(unicodedata.bidirectional, text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def as_image(figure, dpi=100):
    """A figure as pixels.

    Args:
        figure: `matplotlib.figure.Figure`.
        dpi: pixels an inch. Default 100.

    Returns:
        Array `(height, width, 4)` of bytes: red, green, blue and opacity.

    >>> as_image(new_figure(0.5, 0.25)).shape
    (25, 50, 4)
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())


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


def not_below_zero(axes, values):
    """Ends the vertical axis at 0 where no value is below it.

    Args:
        axes: `matplotlib.axes.Axes` with the values drawn.
        values: iterable of numbers.
    """
    values = list(values)
    if values and min(values) >= 0:
        axes.set_ylim(bottom=max(0, axes.get_ylim()[0]))
        if max(values) == 0:
            axes.set_ylim(0, 1)


def mark_parts(axes, sizes, names, both=True):
    """Draws lines between parts of a row of places, and names the parts, and of up to 40 places their numbers in them.

    Args:
        axes: `matplotlib.axes.Axes`, whose places are at 0, 1, 2 and so on.
        sizes: list of int, the number of places of each part.
        names: list of str, of the parts.
        both: whether the vertical axis has the same parts. Default `True`.
    """
    ends = np.cumsum(sizes)
    middles = [end - size / 2 - 0.5 for end, size in zip(ends, sizes, strict=True)]
    for end in ends[:-1]:
        axes.axvline(end - 0.5, color="gray", linewidth=0.8)
        if both:
            axes.axhline(end - 0.5, color="gray", linewidth=0.8)
    names = [name.replace("/", "/\n") for name in names]  # paths of layers
    longest = max(len(line) for name in names for line in name.split("\n"))
    axes.set_xticks(middles, names, rotation=90 if len(names) > 3 or longest > 12 else 0, fontsize=8)
    if both:
        axes.set_yticks(middles, names, fontsize=8)
    for axis in (axes.xaxis, axes.yaxis) if both else (axes.xaxis,):
        axis.set_tick_params(length=0)
        if ends[-1] <= 40:
            numbers = [str(number) for size in sizes for number in range(1, size + 1)]
            axis.set_ticks(range(len(numbers)), numbers, minor=True, fontsize=6)
            axis.set_tick_params(length=2, which="minor", pad=1)
            axis.set_tick_params(pad=10)
            axis.remove_overlapping_locs = False  # a part's name and the number in its middle

"""Matplotlib figures; matplotlib is imported on first use."""

import contextlib
import functools
import io
import pathlib
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._files import write_atomically
from keras_headattn._optional import optional_import

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = "matplotlib.figure.Figure"

TITLE_SIZE = 10  # points
CARD = 3.5  # inches, at 100 dots each: a card of TensorBoard's, which shrinks wider pictures beyond reading
CHARACTER, LINE = 0.085, 0.18  # inches of a title
# Fonts whose characters are boxes, or signs of formulas in the places of others.
NOT_OF_TEXT = re.compile(r"\.?Last ?Resort|cm[a-z]+10$|STIXSize|STIXNonUnicode")


def new_figure(width: float, height: float, title: str | None = None, layout: str | None = "constrained") -> Any:
    """Makes an empty `matplotlib.figure.Figure` that shows text of any script with an installed font.

    Args:
        width, height: in inches, without the title.
        title: title, broken into lines. Default `None`: no title.
        layout: matplotlib's layout engine; `None` if the places of all axes are given.

    Raises:
        ImportError: if matplotlib is not installed.

    >>> new_figure(2, 3, "a title that is longer than two inches").get_suptitle()
    'a title that is longer\\nthan two inches'
    """
    optional_import("matplotlib.figure", "recipes")
    lines = _lines(title or "", int(width / CHARACTER))
    height += LINE * len(lines)
    figure = _figure_class()((width, height), layout=layout)
    if lines:
        position = {} if layout else {"y": 1 - 0.05 / height}
        figure.suptitle("\n".join(lines), fontsize=TITLE_SIZE, parse_math=False, **position)
    return figure


@functools.cache
def _figure_class():
    """Returns the class of figures that look for fonts when drawn."""
    from matplotlib import figure, text

    class Figure(figure.Figure):
        def draw(self, renderer):
            for axes in self.axes:  # ticks get their texts now, rather than when they are drawn
                axes.get_xticklabels()
                axes.get_yticklabels()
            texts = self.findobj(text.Text)
            families = families_with(frozenset("".join(item.get_text() for item in texts)))
            for item in texts:
                item.set_fontfamily([*dict.fromkeys([*item.get_fontfamily(), *families])])
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph .* missing from font")
                super().draw(renderer)

    return Figure


@functools.lru_cache(1024)
def families_with(characters):
    """Returns the fewest fonts that show the characters the default font lacks, and warns of those without any font."""
    from matplotlib import font_manager

    default = font_manager.FontEntry(fname=font_manager.findfont(font_manager.FontProperties()))
    visible = {character for character in characters if character.isprintable() and not character.isspace()}
    families, left = [], visible - _known(default, visible)
    for entry in _fonts():
        if not left:
            return families
        if known := _known(entry, left):
            families.append(entry.name)
            left -= known
    if left:
        warnings.warn(
            f"No installed font has characters that pictures show as boxes: {''.join(sorted(left)[:10])}. "
            "Install fonts such as those of the packages fonts-noto-core and fonts-noto-cjk.",
            stacklevel=2,
        )
    return families


def _fonts():
    """Yields matplotlib's known fonts, then those installed since its list was made."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    known = [*manager.ttflist]
    yield from (entry for entry in known if not NOT_OF_TEXT.match(entry.name))
    for path in sorted({*font_manager.findSystemFonts()} - {entry.fname for entry in known}):
        with contextlib.suppress(OSError, RuntimeError, NotImplementedError):  # no font, or one of pictures
            manager.addfont(path)
    yield from (entry for entry in manager.ttflist[len(known) :] if not NOT_OF_TEXT.match(entry.name))


def _known(entry, characters):
    """Returns the characters that a font has."""
    from matplotlib import font_manager

    with contextlib.suppress(OSError, RuntimeError):  # the file is gone
        font = font_manager.get_font(entry.fname)
        return {character for character in characters if font.get_char_index(ord(character))}
    return set()


def _lines(title, columns):
    """Breaks a title after commas, and elsewhere only in phrases longer than a line."""
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
    """Replaces SentencePiece's mark of spaces, which fonts draw as a black bar, by an open box.

    >>> shown("▁the")
    '␣the'
    """
    return token.replace("\N{LOWER ONE EIGHTH BLOCK}", "\N{OPEN BOX}")


def is_right_to_left(text):
    """Returns True if a text's first letter is of a right-to-left script.

    >>> is_right_to_left("1: سلام"), is_right_to_left("Oslo")
    (True, False)
    """
    kinds = map(unicodedata.bidirectional, text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def write_figure(path, figure, dpi=110):
    """Writes a figure, in full or not at all, in the format of the path's suffix."""
    picture, path = io.BytesIO(), pathlib.Path(path)
    figure.savefig(picture, dpi=dpi, format=path.suffix[1:] or "png")
    write_atomically(path, picture.getvalue())


def as_image(figure, dpi=100):
    """Returns a figure's pixels, bytes `(height, width, 4)`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())


def weight_colors(weights: ArrayLike, cmap: str = "Blues", largest: float | None = None) -> dict[str, Any]:
    """Returns `imshow` colours for attention weights from 0 up; negative weights, as in talking heads, are red.

    Args:
        weights: array; NaN is not drawn.
        cmap: matplotlib colour map for weights without negative ones.
        largest: weight of its last colour. Default `None`: the largest weight.

    >>> weight_colors(np.array([[0.5, -0.25]]))
    {'cmap': 'RdBu', 'vmin': -0.5, 'vmax': 0.5}
    """
    if np.nanmin(weights) < 0:
        end = float(np.nanmax(np.abs(weights)))
        return dict(cmap="RdBu", vmin=-end, vmax=end)
    return dict(cmap=cmap, vmin=0, vmax=largest or max(float(np.nanmax(weights)), 1e-9))


def not_below_zero(axes: Any, values: Iterable[float]) -> None:
    """Keeps the vertical axis at 0 or above unless a value is negative.

    Args:
        axes: `matplotlib.axes.Axes` with the values drawn.
        values: iterable of numbers.
    """
    values = list(values)
    if values and min(values) >= 0:
        axes.set_ylim(bottom=max(0, axes.get_ylim()[0]))
        if max(values) == 0:
            axes.set_ylim(0, 1)


def short_names(paths):
    """Returns the parts of the paths of layers that tell them apart.

    >>> short_names(["bert/block_0/attention", "bert/block_1/attention"]), short_names(["bert/attention"])
    (['block_0', 'block_1'], ['attention'])
    """
    parts = [path.split("/") for path in paths]
    while all(len(part) > 1 for part in parts) and len({part[0] for part in parts}) == 1:
        parts = [part[1:] for part in parts]
    while all(len(part) > 1 for part in parts) and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    return ["/".join(part) for part in parts]


def mark_parts(axes, sizes, names, both=True):
    """Draws lines between parts of an axis, names the parts, and numbers up to 40 places."""
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

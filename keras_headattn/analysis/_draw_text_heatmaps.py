"""Heat maps of heads over a text, as a figure."""

from keras_headattn._figures import new_figure
from keras_headattn.analysis._text_heatmaps import heatmap_rows, shades

COLUMNS = 64  # characters a line
WIDTH, HEIGHT = 0.068, 0.19  # inches of a character and of a line


def draw_text_heatmaps(tokens, maps, heads=None):
    """Draws a text once for each head and once for the sum of all, words redder the more they are attended to.

    Every row is drawn on its own scale, whose end, the largest weight, is in its label. There is a column for each
    title.

    As figures 1 and 6 to 10 of An et al. 2020, "Repulsive attention".

    Args:
        tokens: list of `n` strings.
        maps: dictionary of the title of a column, such as the name of a model, to the weights `(h, n)` that each head
            gives to each token, such as `SelfAttentivePooling` returns of one text. There may be more weights than
            tokens: the rest is padding.
        heads: list of heads to draw. Defaults to all, `[]` are none: the sum alone.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> maps = {"standard": [[0.1, 0.1, 0.8]] * 2, "repulsive": [[0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]}
    >>> figure = draw_text_heatmaps(["it", "was", "amazing"], maps)
    >>> len(figure.axes)  # two heads and their sum, of two models
    6
    """
    rows = heatmap_rows(tokens, maps, heads)
    places = _places(tokens)
    lines = places[-1][0] + 1
    figure = new_figure(WIDTH * COLUMNS * len(maps), HEIGHT * (lines + 1.5) * len(rows) + 0.3)
    grid = figure.subplots(len(rows), len(maps), squeeze=False)
    for axes, title in zip(grid[0], maps, strict=True):
        axes.set_title(title, fontsize=9, fontweight="bold")
    for row, (label, by_title) in zip(grid, rows, strict=True):
        for axes, weights in zip(row, by_title.values(), strict=True):
            axes.set(xlim=(0, COLUMNS), ylim=(lines, -1.2))
            axes.set_axis_off()
            axes.text(0, -0.6, f"{label}, at most {weights.max():.2g}", fontsize=7, color="gray", va="center")
            for token, (line, column), shade in zip(tokens, places, shades(weights), strict=True):
                style = dict(facecolor=(0.9, 0.25, 0.15, 0.75 * shade), edgecolor="none", pad=1)
                place = dict(fontsize=7.5, family="monospace", va="center", parse_math=False)
                axes.text(column, line + 0.4, token, bbox=style, **place)
    return figure


def _places(tokens):
    """Line and column of each token."""
    places, line, column = [], 0, 0
    for token in tokens:
        if column and column + len(token) > COLUMNS:
            line, column = line + 1, 0
        places.append((line, column))
        column += len(token) + 1
    return places

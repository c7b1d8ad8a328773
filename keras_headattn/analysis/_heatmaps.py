"""Heat maps of attention over texts, as figures and HTML."""

import html
import textwrap
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._figures import Figure, is_right_to_left, new_figure, shown
from keras_headattn._files import Path, write_atomically
from keras_headattn._terminal import columns_of
from keras_headattn.analysis._validation import check_named

TITLE = "What the heads attend to"
CAPTION = "The redder a word, the larger its weight. Every row has its own scale; its label has the largest weight."
COLUMNS = 64  # characters a line
WIDTH, HEIGHT = 0.068, 0.19  # inches of a character and of a line
PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
h1 {{ font-size: 1.4em; }}
h2 {{ font-size: 1.15em; }}
h3 {{ font-size: 1em; }}
body {{ background: Canvas; color: CanvasText; font: 15px/1.7 system-ui, sans-serif; margin: 2em; }}
section {{ border-top: 1px solid GrayText; padding: 1em 0; }}
.row {{ display: flex; gap: 2em; }}
.row > * {{ flex: 1; min-width: 0; margin: 0 0 .6em; overflow-wrap: break-word; }}
small {{ display: block; opacity: .7; }}
span {{ background: rgb(230 65 40 / calc(var(--shade) * 65%)); border-radius: 3px; padding: .1em .15em; }}
.against {{ background: rgb(40 110 235 / calc(var(--shade) * 65%)); }}
.true {{ text-decoration: underline 2px; text-underline-offset: .25em; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{caption}</p>
{sections}
</body>
</html>
"""


def draw_text_heatmaps(
    tokens: Sequence[str], maps: Mapping[str, ArrayLike], heads: Sequence[int] | None = None, title: str = TITLE
) -> Figure:
    """Draws a text once for each head and once for the sum of all heads; words with more attention are redder.

    Each row has its own scale, with the largest weight in its label. Heads are counted from 1. Like figures 1 and 6 to
    10 of An et al. 2020, "Repulsive attention". Needs matplotlib.

    Args:
        tokens: the `n` tokens.
        maps: dictionary from column title, such as a model's name, to weights `(h, n)` of each head for each token,
            such as from `SelfAttentivePooling`. Further weights are padding and not drawn.
        heads: indices from 0 of the heads to draw, `[]` for the sum alone. Default `None`: all.
        title: title of the figure.

    >>> maps = {"standard": [[0.1, 0.1, 0.8]] * 2, "repulsive": [[0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]}
    >>> figure = draw_text_heatmaps(["it", "was", "amazing"], maps)
    >>> len(figure.axes)  # two heads and their sum, of two models
    6
    """
    rows = _rows(tokens, maps, heads)
    lines = places_of(tokens)[-1][0] + 1
    figure = new_figure(WIDTH * COLUMNS * len(maps), HEIGHT * (lines + 1.5) * len(rows) + 0.8, title)
    figure.supxlabel(textwrap.fill(CAPTION, COLUMNS * len(maps)), fontsize=7, color="gray")
    grid = figure.subplots(len(rows), len(maps), squeeze=False)
    for axes, name in zip(grid[0], maps, strict=True):
        axes.set_title(name, fontsize=9, fontweight="bold")
    for row, (label, by_title) in zip(grid, rows, strict=True):
        for axes, weights in zip(row, by_title.values(), strict=True):
            axes.set(xlim=(0, COLUMNS), ylim=(lines, -1.2))
            axes.set_axis_off()
            colors = [(0.9, 0.25, 0.15, 0.75 * shade) for shade in _shades(weights)]
            draw_words(axes, f"{label}, at most {weights.max():.2g}", list(map(shown, tokens)), colors)
    return figure


def write_text_heatmaps(
    path: Path,
    texts: Sequence[tuple[Sequence[str], Mapping[str, ArrayLike]]],
    heads: Sequence[int] | None = None,
    title: str = TITLE,
) -> None:
    """Writes a page with heat maps of texts, see `draw_text_heatmaps`.

    Pointing at a word shows its weight. The page is one file, with a dark mode.

    Args:
        path, title: path of the file, title of the page.
        texts: list of `(tokens, maps)`, see `draw_text_heatmaps`.
        heads: see `draw_text_heatmaps`.

    >>> write_text_heatmaps("heads.html", [(["not", "bad"], {"standard": [[0.5, 0.5], [0.1, 0.9]]})])
    """
    if not len(texts):
        raise ValueError(f"`texts` must be a list of at least one pair of tokens and maps. Received: texts={texts}")
    sections = [_section(tokens, maps, heads) for tokens, maps in texts]
    write_page(path, title, CAPTION, sections)


def _rows(tokens, maps, heads=None):
    """Returns the rows of a heat map, heads and their sum, as `[(label, {title: weights (n,)})]`.

    >>> rows = _rows(["not", "bad"], {"standard": np.array([[0.5, 0.5], [0.1, 0.9]])}, heads=[1])
    >>> [(label, weights["standard"].round(1).tolist()) for label, weights in rows]
    [('head 2', [0.1, 0.9]), ('sum of 2 heads', [0.6, 1.4])]
    """
    if isinstance(tokens, str) or not len(tokens):
        raise ValueError(f"`tokens` must be a list of at least one string. Received: tokens={tokens!r}")
    check_named("maps", maps)
    maps = {title: _as_weights(title, weights, len(tokens)) for title, weights in maps.items()}
    fewest, most = (choose(map(len, maps.values())) for choose in (min, max))
    heads = range(fewest) if heads is None else heads
    if not all(0 <= head < fewest for head in heads):
        raise ValueError(f"`heads` must be from 0 to {fewest - 1}. Received: heads={heads}")
    rows = [(f"head {head + 1}", {title: weights[head] for title, weights in maps.items()}) for head in heads]
    counted = str(most) if most == fewest else "all"
    return [*rows, (f"sum of {counted} heads", {title: weights.sum(0) for title, weights in maps.items()})]


def _as_weights(title, weights, length):
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if weights.ndim != 2 or not len(weights) or weights.shape[1] < length:
        raise ValueError(
            f"`maps` must be (heads, {length}), a weight for each of {length} tokens; of a square map choose a row. "
            f"Received: {title!r} of shape {weights.shape}"
        )
    return weights[:, :length]


def _shades(weights):
    """Scales weights `(n,)` to [0, 1]."""
    return np.clip(weights / max(weights.max(), 1e-9), 0, 1)


def places_of(tokens):
    """Returns the line and column of each token; right-to-left text starts on the right."""
    places, line, column = [], 0, 0
    is_right = is_right_to_left("".join(tokens))
    for token in tokens:
        width = columns_of(token)
        if column and column + width > COLUMNS:
            line, column = line + 1, 0
        places.append((line, max(0, COLUMNS - column - width) if is_right else column))
        column += width + 1
    return places


def draw_words(axes, label, words, colors):
    """Writes a label and, below it, words on coloured ground."""
    axes.text(0, -0.6, label, fontsize=7, color="gray", va="center", parse_math=False)
    font = dict(fontsize=7.5, family="monospace", va="center", parse_math=False)
    for word, (line, column), color in zip(words, places_of(words), colors, strict=True):
        axes.text(column, line + 0.4, word, bbox=dict(facecolor=color, edgecolor="none", pad=1), **font)


def write_page(path, title, caption, sections):
    sections = "\n".join(f"<section>\n{section}\n</section>" for section in sections)
    write_atomically(path, PAGE.format(title=html.escape(title), caption=caption, sections=sections).encode("utf-8"))


def paragraph(label, words, values, shades, kinds):
    """Returns HTML of a label and words on coloured ground; `kinds` are the words' CSS classes."""
    spans = []
    for word, value, shade, kind in zip(words, values, shades, kinds, strict=True):
        kind = f' class="{kind}"' if kind else ""
        spans.append(f'<span{kind} style="--shade: {shade:.3f}" title="{value:.3g}">{html.escape(word)}</span>')
    return f'<p dir="auto"><small>{html.escape(label)}</small>{" ".join(spans)}</p>'


def _section(tokens, maps, heads):
    titles = "".join(f"<h2>{html.escape(str(title))}</h2>" for title in maps)
    rows, words = [f'<div class="row">{titles}</div>'], list(map(shown, tokens))
    for label, by_title in _rows(tokens, maps, heads):
        cells = [
            paragraph(f"{label}, at most {weights.max():.2g}", words, weights, _shades(weights), [""] * len(words))
            for weights in by_title.values()
        ]
        rows.append('<div class="row">{}</div>'.format("".join(cells)))
    return "\n".join(rows)

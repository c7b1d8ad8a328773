"""Texts with words coloured by their scores, as figures and HTML."""

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._figures import Figure, is_right_to_left, new_figure, shown
from keras_headattn._files import Path, write_atomically
from keras_headattn._terminal import columns_of
from keras_headattn.analysis._validation import check_named

TITLE = "Which words decide"
CAPTION = (
    "The redder a word, the more it speaks for the class, or the larger its weight; the bluer, the more it speaks "
    "against. Every text has its own scale, whose end is beside the label; where that is below 0.01, all are pale."
)
UNDERLINED = " The words to be found are underlined."
LEAST = 0.01  # the least score in full colour
FOR, AGAINST = (0.9, 0.25, 0.15), (0.16, 0.43, 0.92)
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


def draw_word_scores(texts: Sequence[Mapping[str, Any]], title: str = TITLE) -> Figure:
    """Draws texts with words coloured by score: methods side by side, models one below the other. Needs matplotlib.

    Args:
        texts: list of dictionaries, each of one text:

            - `"words"`: the `n` words;
            - `"scores"`: dictionary from model name to a dictionary from method name to scores `(n,)`, such as from
              `lime` or `serving.WordScores`; see `head_scores` for those of heads;
            - optional `"answers"`: dictionary from model name to its answer;
            - optional `"truth"`: booleans `(n,)`, True to underline a word that should be found.
        title: title of the figure.

    >>> scores = {"lime": [0, 0.4, 0.1], "leave one out": [0, 0.5, -0.1]}
    >>> figure = draw_word_scores([{"words": ["a", "bad", "film"], "scores": {"plain": scores}}])
    >>> len(figure.axes)
    2
    """
    rows = [row for text in _checked(texts) for row in _rows(text)]
    columns = max(len(scores) for _, _, _, scores in rows)
    lines = [_places_of(words)[-1][0] + 1 if words else 1 for words, *_ in rows]
    heights = [2.5 + count for count in lines]
    figure = new_figure(WIDTH * COLUMNS * columns, HEIGHT * sum(heights) + 0.8, title)
    figure.supxlabel(textwrap.fill(_caption(texts), COLUMNS * columns), fontsize=7, color="gray")
    grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    for axes_of_row, (words, truth, label, scores), count in zip(grid, rows, lines, strict=True):
        axes_of_row[0].text(0, -1.7, label, fontsize=7.5, fontweight="bold", va="center", parse_math=False)
        for axes in axes_of_row:
            axes.set(xlim=(0, COLUMNS), ylim=(count, -2.4))
            axes.set_axis_off()
        for axes, (method, values) in zip(axes_of_row, scores.items(), strict=False):
            _draw(axes, words, truth, method, values)
    return figure


def _draw(axes, words, truth, method, values):
    axes.text(0, -0.6, _label(method, values), fontsize=7, color="gray", va="center", parse_math=False)
    font = dict(fontsize=7.5, family="monospace", va="center", parse_math=False)
    for word, (line, column), shade, is_true in zip(words, _places_of(words), _shades(values), truth, strict=True):
        color = (*(FOR if shade > 0 else AGAINST), 0.75 * abs(shade))
        axes.text(column, line + 0.4, word, bbox=dict(facecolor=color, edgecolor="none", pad=1), **font)
        if is_true:
            axes.plot([column, column + len(word)], [line + 0.85] * 2, color="black", linewidth=0.9)


def write_word_scores(path: Path, texts: Sequence[Mapping[str, Any]], title: str = TITLE) -> None:
    """Writes a page of texts with words coloured by their scores, see `draw_word_scores`.

    Pointing at a word shows its score. The page is one file, with a dark mode.

    Args:
        path, title: path of the file, title of the page.
        texts: see `draw_word_scores`; an optional `"name"` is the text's heading. Default: its number.

    >>> scores = {"lime": [0, 0.4, 0.1], "leave one out": [0, 0.5, -0.1]}
    >>> write_word_scores("words.html", [{"words": ["a", "bad", "film"], "scores": {"plain": scores}}])
    """
    sections = []
    for number, text in enumerate(_checked(texts), 1):
        parts = [f"<h2>{html.escape(str(text.get('name', f'Text {number}')))}</h2>"]
        for words, truth, label, scores in _rows(text):
            cells = [_paragraph(words, truth, method, values) for method, values in scores.items()]
            heading = f"<h3>{html.escape(label)}</h3>" if label else ""
            parts.append('{}\n<div class="row">{}</div>'.format(heading, "".join(cells)))
        sections.append("\n".join(parts))
    sections = "\n".join(f"<section>\n{section}\n</section>" for section in sections)
    page = PAGE.format(title=html.escape(title), caption=_caption(texts), sections=sections)
    write_atomically(path, page.encode("utf-8"))


def _caption(texts):
    return CAPTION + (UNDERLINED if any("truth" in text for text in texts) else "")


def _checked(texts):
    if not len(texts):
        raise ValueError(f"`texts` must be a list of at least one dictionary. Received: texts={texts}")
    for index, text in enumerate(texts):
        if not {"words", "scores"} <= text.keys() <= {"words", "scores", "answers", "truth", "name"}:
            raise ValueError(
                "A text must have `words` and `scores`; it may have `answers`, `truth` and `name`. "
                f"Received: text {index} with {sorted(text)}"
            )
        check_named("scores", text["scores"])
    return texts


def _rows(text):
    """Returns `(words, truth, label, scores by method)` of each model."""
    words = [shown(str(word)) for word in text["words"]]
    truth = [bool(flag) for flag in text.get("truth", [False] * len(words))]
    answers, rows = text.get("answers", {}), []
    for model, by_method in text["scores"].items():
        check_named(f"scores[{model!r}]", by_method)
        scores = {}
        for method, values in by_method.items():
            values = np.asarray(keras.ops.convert_to_numpy(values), "float64")
            if values.shape != (len(words),) or len(truth) != len(words) or not np.isfinite(values).all():
                raise ValueError(
                    f"`scores` and `truth` must have a finite number for each of {len(words)} words. Received: "
                    f"{model!r}, {method!r} of shape {values.shape}, truth of {len(truth)}"
                )
            scores[str(method)] = values
        rows.append((words, truth, ": ".join(map(str, filter(None, (model, answers.get(model))))), scores))
    return rows


def head_scores(
    tokens: Sequence[str], maps: Mapping[str, ArrayLike], heads: Sequence[int] | None = None
) -> dict[str, Any]:
    """Returns a text for `draw_word_scores`, whose scores are the weights of each head and the sum of all heads.

    Heads are counted from 1. Figures 1 and 6 to 10 of An et al. 2020, "Repulsive attention", are like that.

    Args:
        tokens: the `n` tokens.
        maps: dictionary from column title, such as a model's name, to weights `(h, n)` of each head for each token,
            such as from `SelfAttentivePooling`. Further weights are padding and left out.
        heads: indices from 0 of the heads, `[]` for the sum alone. Default `None`: all.

    >>> maps = {"standard": [[0.5, 0.5], [0.1, 0.9]]}
    >>> text = head_scores(["not", "bad"], maps, heads=[1])
    >>> [(label, scores["standard"].round(1).tolist()) for label, scores in text["scores"].items()]
    [('head 2', [0.1, 0.9]), ('sum of 2 heads', [0.6, 1.4])]
    >>> figure = draw_word_scores([text], title="What the heads attend to")
    """
    if isinstance(tokens, str) or not len(tokens):
        raise ValueError(f"`tokens` must be a list of at least one string. Received: tokens={tokens!r}")
    check_named("maps", maps)
    weights = {title: _as_weights(title, head_weights, len(tokens)) for title, head_weights in maps.items()}
    fewest, most = (choose(map(len, weights.values())) for choose in (min, max))
    heads = range(fewest) if heads is None else heads
    if not all(0 <= head < fewest for head in heads):
        raise ValueError(f"`heads` must be from 0 to {fewest - 1}. Received: heads={heads}")
    scores = {
        f"head {head + 1}": {title: head_weights[head] for title, head_weights in weights.items()} for head in heads
    }
    counted = str(most) if most == fewest else "all"
    scores[f"sum of {counted} heads"] = {title: head_weights.sum(0) for title, head_weights in weights.items()}
    return {"words": list(tokens), "scores": scores}


def _as_weights(title, weights, length):
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if weights.ndim != 2 or not len(weights) or weights.shape[1] < length:
        raise ValueError(
            f"`maps` must be (heads, {length}), a weight for each of {length} tokens; of a square map choose a row. "
            f"Received: {title!r} of shape {weights.shape}"
        )
    return weights[:, :length]


def _shades(values):
    """Scales scores to [-1, 1]; very small ones by `LEAST`."""
    return values / max(np.abs(values).max(initial=0), LEAST)


def _label(method, values):
    return f"{method}, at most {np.abs(values).max(initial=0):.2g}"


def _places_of(tokens):
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


def _paragraph(words, truth, method, values):
    spans = []
    for word, value, shade, is_true in zip(words, values, _shades(values), truth, strict=True):
        kind = " ".join(["against"] * int(shade < 0) + ["true"] * is_true)
        kind = f' class="{kind}"' if kind else ""
        spans.append(f'<span{kind} style="--shade: {abs(shade):.3f}" title="{value:.3g}">{html.escape(word)}</span>')
    return f'<p dir="auto"><small>{html.escape(_label(method, values))}</small>{" ".join(spans)}</p>'

"""Texts with words coloured by their scores, as figures and HTML."""

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_headattn._figures import Figure, new_figure
from keras_headattn._files import Path
from keras_headattn.analysis._heatmaps import COLUMNS, HEIGHT, WIDTH, draw_words, paragraph, places_of, write_page
from keras_headattn.analysis._validation import check_named

TITLE = "Which words decide"
CAPTION = (
    "The redder a word, the more it speaks for the class; the bluer, the more against it. Every text has its own "
    "scale, whose end is beside the name of the method; where that is below 0.01, no word decides much; all are pale."
)
UNDERLINED = " The words to be found are underlined."
LEAST = 0.01  # the least score in full colour
FOR, AGAINST = (0.9, 0.25, 0.15), (0.16, 0.43, 0.92)


def draw_word_scores(texts: Sequence[Mapping[str, Any]], title: str = TITLE) -> Figure:
    """Draws texts with words coloured by score: methods side by side, models one below the other. Needs matplotlib.

    Args:
        texts: list of dictionaries, each of one text:

            - `"words"`: the `n` words;
            - `"scores"`: dictionary from model name to a dictionary from method name to scores `(n,)`, such as from
              `lime` or `serving.WordScores`;
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
    lines = [places_of(words)[-1][0] + 1 if words else 1 for words, *_ in rows]
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
    colors = [(*(FOR if shade > 0 else AGAINST), 0.75 * abs(shade)) for shade in _shades(values)]
    draw_words(axes, _label(method, values), words, colors)
    for word, (line, column), is_true in zip(words, places_of(words), truth, strict=True):
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
    write_page(path, title, _caption(texts), sections)


def _caption(texts):
    return CAPTION + (UNDERLINED if any("truth" in text for text in texts) else "")


def _checked(texts):
    if not len(texts):
        raise ValueError(f"`texts` must be a list of at least one dictionary. Received: texts={texts}")
    for number, text in enumerate(texts):
        if not {"words", "scores"} <= text.keys() <= {"words", "scores", "answers", "truth", "name"}:
            raise ValueError(
                "A text must have `words` and `scores`; it may have `answers`, `truth` and `name`. "
                f"Received: text {number} with {sorted(text)}"
            )
        check_named("scores", text["scores"])
    return texts


def _rows(text):
    """Returns `(words, truth, label, scores by method)` of each model."""
    words = list(text["words"])
    truth = [bool(each) for each in text.get("truth", [False] * len(words))]
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


def _shades(values):
    """Scales scores to [-1, 1]; very small ones by `LEAST`."""
    return values / max(np.abs(values).max(initial=0), LEAST)


def _label(method, values):
    return f"{method}, at most {np.abs(values).max(initial=0):.2g}"


def _paragraph(words, truth, method, values):
    shades = _shades(values)
    kinds = [
        " ".join(["against"] * int(shade < 0) + ["true"] * is_true)
        for shade, is_true in zip(shades, truth, strict=True)
    ]
    return paragraph(_label(method, values), words, values, np.abs(shades), kinds)

"""Texts coloured by scores of words: what is drawn, what stands on the page, and how it looks in a browser."""

import numpy as np
import pytest

from keras_headattn.analysis import draw_word_scores, write_word_scores
from tests.chromium import chromium
from tests.refusals import refused

SCORES = {"lime": [0, 0.4, -0.2], "random": [0.1, 0.2, 0.3]}
TEXT = {"words": ["a", "<bad>", "film"], "scores": {"plain": SCORES, "evolving": SCORES}}
TEXT |= {"answers": {"plain": "negative 0.9"}, "truth": [False, True, False]}
EMPTY = {"words": [], "scores": {"plain": {"lime": []}}}


def test_figure():
    figure = draw_word_scores([TEXT, EMPTY])
    assert len(figure.axes) == 6
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert "plain: negative 0.9" in texts and "evolving" in texts and "lime, at most 0.4" in texts
    colors = {text.get_text(): text.get_bbox_patch().get_facecolor() for text in figure.axes[0].texts[2:]}
    assert colors["<bad>"][0] > colors["<bad>"][2] and colors["film"][0] < colors["film"][2]
    assert colors["<bad>"][3] == pytest.approx(0.75) and colors["film"][3] == pytest.approx(0.375)
    assert len(figure.axes[0].lines) == 1 and "underlined" in figure.get_supxlabel()


def test_scores_that_decide_nothing_are_pale():
    figure = draw_word_scores([{"words": ["a", "b"], "scores": {"plain": {"lime": [0.001, 0.0005]}}}])
    opacities = [text.get_bbox_patch().get_facecolor()[3] for text in figure.axes[0].texts[2:]]
    assert opacities == pytest.approx([0.075, 0.0375])


def test_page(tmp_path):
    write_word_scores(tmp_path / "page.html", [TEXT, EMPTY])
    with chromium((tmp_path / "page.html").as_uri()) as page:
        page.media("dark")
        assert page.js("document.querySelectorAll('section').length") == 2
        spans = "[...document.querySelectorAll('span')]"
        assert page.js(f"{spans}.map(word => word.textContent)") == TEXT["words"] * 4
        assert page.js(f"{spans}.map(word => word.title)")[:3] == ["0", "0.4", "-0.2"]
        styles = page.js(f"{spans}.map(getComputedStyle).map(s => [s.backgroundColor, s.textDecorationLine])")
        (_, plain), (red, line), (blue, _) = styles[:3]
        assert red.startswith("rgba(230") and blue.startswith("rgba(40") and (plain, line) == ("none", "underline")
        assert not page.console


@pytest.mark.parametrize(
    "texts, name, received",
    [
        ([], "`texts`", "[]"),
        ([{"words": ["a"]}], "`scores`", "text 0 with ['words']"),
        ([{"words": ["a"], "scores": {}}], "`scores`", "{}"),
        ([{"words": ["a"], "scores": {"plain": {"lime": [1, 2]}}}], "`scores`", "'lime' of shape (2,)"),
        ([{"words": ["a"], "scores": {"plain": {"lime": [np.nan]}}}], "finite", "'lime'"),
    ],
)
def test_refusals(texts, name, received, tmp_path):
    with refused(name, received):
        write_word_scores(tmp_path / "page.html", texts)

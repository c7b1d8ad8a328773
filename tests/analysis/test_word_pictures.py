"""Texts coloured by scores of words: what is drawn, what stands on the page, and how it looks in a browser."""

import html.parser

import numpy as np
import pytest

from keras_headattn.analysis import draw_word_scores, head_scores, write_word_scores
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


# ------------------------------------------------------------------------------------------------- heads

TOKENS = ["it", "was", "<amazing>", "&", "$5$"]
MAPS = {
    "standard": np.array([[0.1, 0.1, 0.6, 0.1, 0.1, 9], [0.2, 0.2, 0.2, 0.2, 0.2, 9]]),  # the last is padding
    "repulsive": np.array([[0, 0, 0, 0, 1], [0.5, 0.5, 0, 0, 0]]),
}
PLAIN = {"standard": np.ones((1, 2))}


class Page(html.parser.HTMLParser):
    """The words of a page and how red they are, and its text."""

    def __init__(self, text):
        super().__init__()
        self.words, self.text, self.tags = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "span":
            self.words.append([float(dict(attributes)["style"].removeprefix("--shade: ")), dict(attributes)["title"]])

    def handle_data(self, data):
        self.text += data
        if self.tags[-1:] == ["span"] and len(self.words[-1]) == 2:
            self.words[-1].append(data)


def expected_shades(heads):
    """Of rows of heads, then of the sum; of each the titles."""
    rows = [[weights[head, :5] for weights in MAPS.values()] for head in heads]
    rows.append([weights[:, :5].sum(0) for weights in MAPS.values()])
    return [weights / weights.max() for row in rows for weights in row]


@pytest.mark.parametrize("heads", [None, [1], []])
def test_heads(heads, tmp_path):
    text, title = head_scores(TOKENS, MAPS, heads), "What the heads attend to"
    expected = expected_shades(range(2) if heads is None else heads)
    write_word_scores(tmp_path / "folder" / "heads.html", [text], title)
    page = Page(written := (tmp_path / "folder" / "heads.html").read_text(encoding="utf-8"))
    assert [word for *_, word in page.words] == TOKENS * len(expected)
    np.testing.assert_allclose([shade for shade, *_ in page.words], np.concatenate(expected), atol=1e-3)
    assert "amazing" not in page.tags and "<amazing>" in page.text and "sum of 2 heads" in page.text
    assert page.tags.count("h1") == 1 and title in page.text and "its own scale" in page.text
    assert "http" not in written and "color-scheme: light dark" in written  # self-contained
    figure = draw_word_scores([text], title)
    assert len(figure.axes) == len(expected) and figure.get_suptitle() == title
    for axes, shades in zip(figure.axes, expected, strict=True):
        *labels, _, _, _, _, _ = (word.get_text() for word in axes.texts)
        assert labels[-1].startswith(("standard, at most", "repulsive, at most"))
        drawn = [word.get_bbox_patch().get_facecolor()[3] for word in axes.texts[-5:]]
        np.testing.assert_allclose(drawn, 0.75 * shades, atol=1e-6)
    if heads == [1]:
        assert figure.axes[0].texts[0].get_text() == "head 2"  # counted from 1
    figure.savefig(tmp_path / "heads.png")  # "$5$" is no formula


def test_marks_of_spaces_and_texts_from_right_to_left(tmp_path):
    figure = draw_word_scores([head_scores(["▁the", "cat"], PLAIN)])
    assert [text.get_text() for text in figure.axes[0].texts[2:]] == ["␣the", "cat"]
    write_word_scores(tmp_path / "page.html", [head_scores(["▁the"], PLAIN)])
    assert "␣the" in (tmp_path / "page.html").read_text(encoding="utf-8")
    figure = draw_word_scores([head_scores(["كلب", "كبير"], PLAIN)])
    first, second = (text.get_position()[0] for text in figure.axes[0].texts[2:])
    assert first == 64 - 3 and second == 64 - 3 - 1 - 4  # characters


def test_lines_are_broken_between_words():
    figure = draw_word_scores([head_scores(["word"] * 30 + ["w" * 80, "end"], {"standard": np.ones((1, 32))})])
    _, _, *words = figure.axes[0].texts
    places = [word.get_position() for word in words]
    assert len({line for _, line in places}) == 5  # 13 + 13 + 4 words, a long one, and the last
    assert all(column + len(word.get_text()) <= 64 for word, (column, _) in zip(words[:30], places, strict=False))
    assert len(set(places)) == len(words)


def test_wide_characters_take_two_places():
    figure = draw_word_scores([head_scores(["漢字", "x"], PLAIN)])
    assert [word.get_position()[0] for word in figure.axes[0].texts[2:]] == [0, 5]


@pytest.mark.parametrize(
    "name, value, received",
    [
        ("tokens", [], "tokens=[]"),
        ("tokens", "it was", "tokens='it was'"),
        ("maps", {}, "maps={}"),
        ("maps", {"standard": np.ones((2, 4))}, "'standard' of shape (2, 4)"),
        ("maps", {"standard": np.ones((2, 5, 5))}, "'standard' of shape (2, 5, 5)"),
        ("maps", {"standard": np.ones((0, 5))}, "'standard' of shape (0, 5)"),
        ("heads", [2], "heads=[2]"),
        ("heads", [-1], "heads=[-1]"),
    ],
)
def test_refusals_of_heads(name, value, received):
    with refused(f"`{name}`", received):
        head_scores(**dict(tokens=TOKENS, maps=MAPS, heads=None) | {name: value})

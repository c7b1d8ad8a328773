"""Heat maps of heads over a text: what is red, what is escaped, and where words stand."""

import html.parser

import numpy as np
import pytest

from keras_headattn.analysis import draw_text_heatmaps, write_text_heatmaps
from tests.refusals import refused

TOKENS = ["it", "was", "<amazing>", "&", "$5$"]
MAPS = {
    "standard": np.array([[0.1, 0.1, 0.6, 0.1, 0.1, 9], [0.2, 0.2, 0.2, 0.2, 0.2, 9]]),  # the last is padding
    "repulsive": np.array([[0, 0, 0, 0, 1], [0.5, 0.5, 0, 0, 0]]),
}


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


def test_marks_of_spaces_and_texts_from_right_to_left(tmp_path):
    figure = draw_text_heatmaps(["▁the", "cat"], {"standard": np.ones((1, 2))})
    assert [text.get_text() for text in figure.axes[0].texts[1:]] == ["␣the", "cat"]
    write_text_heatmaps(tmp_path / "page.html", [(["▁the"], {"standard": np.ones((1, 1))})])
    assert "␣the" in (tmp_path / "page.html").read_text(encoding="utf-8")
    figure = draw_text_heatmaps(["كلب", "كبير"], {"standard": np.ones((1, 2))})
    first, second = (text.get_position()[0] for text in figure.axes[0].texts[1:])
    assert first == 64 - 3 and second == 64 - 3 - 1 - 4  # characters


def expected_shades(heads):
    """Of rows of heads, then of the sum; of each the titles."""
    rows = [[weights[head, :5] for weights in MAPS.values()] for head in heads]
    rows.append([weights[:, :5].sum(0) for weights in MAPS.values()])
    return [weights / weights.max() for row in rows for weights in row]


@pytest.mark.parametrize("heads", [None, [1], []])
def test_page(heads, tmp_path):
    path = tmp_path / "folder" / "heads.html"
    write_text_heatmaps(path, [(TOKENS, MAPS)], heads)
    text = path.read_text(encoding="utf-8")
    page, expected = Page(text), expected_shades(range(2) if heads is None else heads)
    assert [word for *_, word in page.words] == TOKENS * len(expected)
    np.testing.assert_allclose([shade for shade, *_ in page.words], np.concatenate(expected), atol=1e-3)
    assert "amazing" not in page.tags and "<amazing>" in page.text and "sum of 2 heads" in page.text
    assert page.tags.count("h1") == 1 and "heads attend to" in page.text and "its own scale" in page.text
    assert "http" not in text and "color-scheme: light dark" in text  # self-contained
    assert page.words[len(TOKENS) * (2 * len(heads or []) if heads is not None else 4)][1] == "0.3"  # 0.1 + 0.2


def test_several_texts_on_a_page(tmp_path):
    texts = [(["a"], {"<b>": np.ones((2, 1))}), (["c", "d"], {"<b>": np.ones((1, 2))})]
    write_text_heatmaps(tmp_path / "page.html", texts)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [word for *_, word in page.words] == ["a", "a", "a", "c", "d", "c", "d"]
    assert page.tags.count("section") == 2 and "b" not in page.tags


@pytest.mark.parametrize("heads", [None, [1], []])
def test_figure(heads, tmp_path):
    figure = draw_text_heatmaps(TOKENS, MAPS, heads)
    expected = expected_shades(range(2) if heads is None else heads)
    assert len(figure.axes) == len(expected)
    for axes, shades in zip(figure.axes, expected, strict=True):
        label, *words = axes.texts
        assert [word.get_text() for word in words] == TOKENS and "at most" in label.get_text()
        drawn = [word.get_bbox_patch().get_facecolor()[3] for word in words]
        np.testing.assert_allclose(drawn, 0.75 * shades, atol=1e-6)
    assert [axes.get_title() for axes in figure.axes[:2]] == ["standard", "repulsive"]
    assert figure.get_suptitle() == "What the heads attend to" and "own scale" in figure.get_supxlabel()
    if heads == [1]:
        assert figure.axes[0].texts[0].get_text().startswith("head 2,")  # counted from 1
    figure.savefig(tmp_path / "heads.png")  # "$5$" is no formula


def test_lines_are_broken_between_words():
    figure = draw_text_heatmaps(["word"] * 30 + ["w" * 80, "end"], {"standard": np.ones((1, 32))})
    _, *words = figure.axes[0].texts
    places = [word.get_position() for word in words]
    assert len({line for _, line in places}) == 5  # 13 + 13 + 4 words, a long one, and the last
    assert all(column + len(word.get_text()) <= 64 for word, (column, _) in zip(words[:30], places, strict=False))
    assert len(set(places)) == len(words)


def test_wide_characters_take_two_places():
    figure = draw_text_heatmaps(["漢字", "x"], {"standard": np.ones((1, 2))})
    assert [word.get_position()[0] for word in figure.axes[0].texts[1:]] == [0, 5]


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
def test_refusals(name, value, received, tmp_path):
    given = dict(tokens=TOKENS, maps=MAPS, heads=None) | {name: value}
    with refused(f"`{name}`", received):
        draw_text_heatmaps(**given)
    with refused(f"`{name}`", received):
        write_text_heatmaps(tmp_path / "page.html", [(given["tokens"], given["maps"])], given["heads"])
    with refused("`texts`", "texts=[]"):
        write_text_heatmaps(tmp_path / "page.html", [])
    assert not list(tmp_path.iterdir())


def test_no_weight_at_all_is_no_error(tmp_path):
    """A row with nothing to attend to is zeros."""
    figure = draw_text_heatmaps(["a", "b"], {"standard": np.zeros((2, 2))})
    for axes in figure.axes:
        _, *words = axes.texts
        assert [(word.get_text(), word.get_bbox_patch().get_facecolor()[3]) for word in words] == [("a", 0), ("b", 0)]
    write_text_heatmaps(tmp_path / "page.html", [(["a"], {"standard": np.zeros((2, 1))})])
    words = Page((tmp_path / "page.html").read_text(encoding="utf-8")).words
    assert {word for *_, word in words} == {"a"} and len(words) == len(figure.axes)

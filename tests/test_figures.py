"""Fonts for characters of any script, and what all figures share."""

import pathlib
import warnings

import numpy as np
import pytest
from matplotlib import font_manager

from keras_headattn._figures import as_image, families_with, mark_parts, new_figure, not_below_zero

LACKING = "ℊ"  # not in DejaVu Sans, and in a font that comes with matplotlib
# The order of the list differs between machines, and not every weight of a font has the character.
REGULAR = [entry for entry in font_manager.fontManager.ttflist if (entry.style, entry.weight) == ("normal", 400)]
ENTRIES = {entry.name: entry for entry in REGULAR}


@pytest.fixture(autouse=True)
def fonts(monkeypatch):
    """A function that leaves only the named fonts, and forgets what was found before."""

    def only(*names, installed=()):
        monkeypatch.setattr(font_manager.fontManager, "ttflist", [ENTRIES[name] for name in names])
        monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [ENTRIES[name].fname for name in installed])
        families_with.cache_clear()

    yield only
    families_with.cache_clear()


def labelled(*labels):
    figure = new_figure(3, 2)
    axes = figure.add_subplot()
    axes.set_xticks(range(len(labels)), labels)
    return figure, axes


def test_a_text_gets_a_font_that_has_its_characters(fonts):
    fonts("DejaVu Sans", "STIXGeneral")
    figure, axes = labelled("plain", LACKING)
    image = as_image(figure)
    assert [label.get_fontfamily()[-1] for label in axes.get_xticklabels()] == ["STIXGeneral"] * 2
    fonts("DejaVu Sans")
    with pytest.warns(UserWarning):
        boxes = as_image(labelled("plain", LACKING)[0])
    assert boxes.shape == image.shape and (boxes != image).any()


def test_a_font_that_was_installed_later_is_found(fonts):
    fonts("DejaVu Sans", installed=["DejaVu Sans", "STIXGeneral"])
    figure, axes = labelled(LACKING)
    as_image(figure)
    assert axes.get_xticklabels()[0].get_fontfamily()[-1] == "STIXGeneral"


def test_characters_without_a_font_are_named_once(fonts):
    fonts("DejaVu Sans", *{"Last Resort High-Efficiency"} & {*ENTRIES})  # whose characters are boxes
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            as_image(labelled("猫", "ねこ", "x")[0])
    (warning,) = [str(each.message) for each in caught]
    assert "boxes: こね猫. " in warning and "fonts-noto-cjk" in warning


def test_a_file_that_is_no_font_is_left_out(fonts, monkeypatch, tmp_path):
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    fonts("DejaVu Sans", installed=["STIXGeneral"])
    found = [str(tmp_path / "broken.ttf"), ENTRIES["STIXGeneral"].fname]
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: found)
    assert families_with(frozenset(LACKING)) == ["STIXGeneral"]


def test_titles_are_broken_after_commas():
    figure = new_figure(3, 2, "multi_head, self-attention of the encoder, head 1")
    assert figure.get_suptitle() == "multi_head,\nself-attention of the encoder,\nhead 1"


def test_long_titles_are_broken_and_make_the_figure_higher():
    short, long = new_figure(3, 2, "Queries"), new_figure(3, 2, "Queries of tokens by t-SNE, of many runs")
    assert short.get_suptitle() == "Queries" and long.get_suptitle().count("\n") == 1
    assert 2 < short.get_figheight() < long.get_figheight() and new_figure(3, 2).get_suptitle() == ""


@pytest.mark.parametrize("values, limits", [([0, 0], (0, 1)), ([0, 5], (0, None)), ([-1, 5], (None, None))])
def test_axes_of_scores_begin_at_zero(values, limits):
    axes = new_figure(3, 2).add_subplot()
    axes.plot(values)
    before = axes.get_ylim()
    not_below_zero(axes, values)
    assert before[0] < 0 and axes.get_ylim() == tuple(
        old if new is None else new for old, new in zip(before, limits, strict=True)
    )


def test_parts_are_named_and_their_places_counted_from_one():
    figure = new_figure(4, 4)
    axes = figure.add_subplot()
    axes.imshow(np.eye(5))
    mark_parts(axes, [2, 3], ["layer 1", "layer 2"])
    assert len(axes.lines) == 2 and axes.lines[0].get_xdata()[0] == 1.5
    for axis in (axes.xaxis, axes.yaxis):
        assert [text.get_text() for text in axis.get_majorticklabels()] == ["layer 1", "layer 2"]
        assert [text.get_text() for text in axis.get_minorticklabels()] == ["1", "2", "1", "2", "3"]
        assert axis.get_majorticklocs().tolist() == [0.5, 3]


def test_matplotlib_reads_figures_back(tmp_path):
    new_figure(2, 1, "title").savefig(tmp_path / "figure.svg")
    assert "title" in pathlib.Path(tmp_path / "figure.svg").read_text()


def test_long_names_of_parts_do_not_overlap():
    axes = new_figure(4, 3).subplots()
    mark_parts(axes, [4, 4], ["classifier/encoder/block_0/attention", "classifier/pooling"], both=False)
    axes.set_xlim(-0.5, 7.5)
    axes.figure.draw_without_rendering()
    first, second = (label.get_window_extent() for label in axes.get_xticklabels())
    assert first.x1 < second.x0

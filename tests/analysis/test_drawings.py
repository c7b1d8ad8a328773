"""Pictures: what is drawn where."""

import numpy as np
import pytest

from keras_headattn.analysis import (
    AttentionMaps,
    draw_error_by_heads,
    draw_image_maps,
    draw_text_maps,
)


def test_image_maps_show_the_row_of_the_pixel():
    """A pixel of a 6 x 8 image in a grid of 3 x 4; two layers, the second with one head."""
    weights = np.random.default_rng(0).random((2, 12, 12))
    maps = {"first": weights, "second": weights[:1]}
    figure = draw_image_maps(np.zeros((6, 8, 3)), maps, size=(3, 4), pixel=(3, 7))
    row = 1 * 4 + 3  # of the map: second row of the grid, last column
    drawn = [[np.asarray(picture.get_array()) for picture in axes.get_images()] for axes in figure.axes]
    np.testing.assert_array_equal(drawn[2][1], weights[1, row].reshape(3, 4))
    np.testing.assert_array_equal(drawn[4][1], weights[0, row].reshape(3, 4))
    assert [len(pictures) for pictures in drawn] == [1, 2, 2, 1, 2, 0, 0, 0]  # the last are colour bars
    first, second = (figure.axes[row].get_images()[1].get_clim() for row in (2, 4))
    assert first == second == (0, max(weights[:, row].max(), weights[0, row].max()))
    assert [axes.get_title() for axes in figure.axes[:3]] == ["image", "head 1", "head 2"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["first", "", "", "second", "", "", "weight", "weight"]
    assert "pixel" in figure.get_suptitle()
    assert len(draw_image_maps(np.zeros((6, 8, 3)), maps, {"first": (3, 4), "second": (2, 6)}, heads=[1]).axes) == 5


def test_grids_of_different_sizes_have_scales_of_their_own():
    maps = {"first": np.full((1, 12, 12), 0.25), "second": np.full((1, 6, 6), 0.5)}
    figure = draw_image_maps(np.zeros((6, 8, 3)), maps, {"first": (3, 4), "second": (2, 3)})
    assert [figure.axes[place].get_images()[1].get_clim() for place in (1, 3)] == [(0, 0.25), (0, 0.5)]


def test_text_maps_show_weights_and_their_parts():
    """Padding is left out; of a part the softmax is drawn."""
    logits = np.random.default_rng(0).normal(size=(1, 2, 4, 4))
    maps = {
        "plain": AttentionMaps(weights=np.full((1, 2, 4, 4), 0.25)),
        "evolving": AttentionMaps(np.full((1, 2, 4, 4), 0.25), logits, self_attention=logits, convolution=logits),
    }
    figure = draw_text_maps(maps, [["a", "b"], ["c", "d", "e"]], head=1)
    drawn = [axes.get_images() for axes in figure.axes]
    assert [len(pictures) for pictures in drawn] == [1, 0, 0, 1, 1, 1, 0]  # the last is the colour bar
    assert {picture.get_clim() for pictures in drawn for picture in pictures} == {(0, 1)}  # not each its own
    assert figure.get_suptitle() == "Attention of head 2" and figure.axes[-1].get_ylabel() == "weight"
    assert [axes.get_xlabel() for axes in figure.axes[3:6]] == ["key: is attended to"] * 3
    assert [axes.get_ylabel() for axes in figure.axes[:6:3]] == ["query: attends"] * 2
    exponents = np.exp(logits[0, 1, :2, :3])
    expected = exponents / exponents.sum(-1, keepdims=True)
    np.testing.assert_allclose(drawn[4][0].get_array(), expected)
    assert [label.get_text() for label in figure.axes[3].get_xticklabels()] == ["c", "d", "e"]


def test_text_maps_of_all_heads():
    """Rows of four; the names of queries stand before each, and the squares leave no gaps."""
    weights = np.random.default_rng(0).random((1, 6, 3, 4))
    figure = draw_text_maps({"first": AttentionMaps(weights)}, [["▁a", "b", "c"], ["d", "e", "f", "g"]])
    *maps, _ = figure.axes
    assert [axes.get_title() for axes in maps] == [f"first: head {head}" for head in range(1, 7)] + ["", ""]
    for axes, expected in zip(maps, weights[0], strict=False):
        np.testing.assert_array_equal(axes.get_images()[0].get_array(), expected)
    names = [[label.get_text() for label in axes.get_yticklabels()] for axes in maps[:5]]
    assert names == [["␣a", "b", "c"], *[[""] * 3] * 3, ["␣a", "b", "c"]]
    figure.draw_without_rendering()
    first, second = (axes.get_window_extent() for axes in maps[:2])
    assert second.x0 - first.x1 < first.width / 4


def test_text_maps_of_pairs_of_heads():
    weights = np.random.default_rng(0).random((1, 2, 2, 3, 3))
    figure = draw_text_maps({"pairs": AttentionMaps(weights)}, ["a", "b", "c"], head=3)
    np.testing.assert_array_equal(figure.axes[0].get_images()[0].get_array(), weights[0, 1, 1])


def test_weights_below_zero_are_red():
    weights = np.array([[[[0.2, -0.1], [-0.3, 0.1]]]])
    figure = draw_text_maps({"talking": AttentionMaps(weights=weights)}, ["a", "b"])
    (picture,) = figure.axes[0].get_images()
    assert picture.get_clim() == (-0.3, 0.3)
    (red, _, blue, _), (red_above, _, blue_above, _) = picture.to_rgba(np.array([-0.3, 0.2]))
    assert red > blue and blue_above > red_above


def test_error_by_heads_shows_mean_and_deviation():
    errors = {"standard": {8: [0.25], 1: [0.3, 0.5]}, "repulsive": {1: [0.2, 0.2, 0.2], 16: [0.1, 0.3]}}
    axes = draw_error_by_heads(errors, measure="test error").axes[0]
    lines = [bars.lines[0].get_xydata().tolist() for bars in axes.containers]
    assert lines == [[[1, 0.4], [8, 0.25]], [[1, pytest.approx(0.2)], [16, 0.2]]]
    spans = [[np.ptp(segment[:, 1]) for segment in bars.lines[2][0].get_segments()] for bars in axes.containers]
    assert spans == [pytest.approx([2 * np.std([0.3, 0.5], ddof=1), 0]), pytest.approx([0, 2 * np.sqrt(0.02)])]
    assert axes.get_xticks().tolist() == [1, 8, 16] and axes.get_ylabel() == "test error, mean ± deviation of seeds"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "8", "16"]
    assert axes.figure.get_suptitle() == "Error by the number of heads"


def test_axes_of_errors_do_not_begin_below_zero():
    axes = draw_error_by_heads({"standard": {1: [0.0, 0.1], 2: [0.2, 0.2]}}).axes[0]
    assert axes.get_ylim()[0] == 0

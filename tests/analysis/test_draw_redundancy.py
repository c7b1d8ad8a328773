"""Pictures of redundancy and of queries: what is drawn where."""

import sys

import numpy as np
import pytest

from keras_headattn.analysis import draw_head_redundancy, draw_queries


def test_matrices_have_one_scale():
    models = {
        "standard": np.full((3, 3), 0.8) + 0.2 * np.eye(3),
        "disentangled": np.full((2, 2), 0.5) + 0.5 * np.eye(2),
    }
    *grid, colorbar = draw_head_redundancy(models).axes
    pictures = [axes.get_images()[0] for axes in grid]
    for picture, matrix in zip(pictures, models.values(), strict=True):
        np.testing.assert_array_equal(picture.get_array(), matrix)
        assert picture.get_clim() == (0, 0.8)
    assert [axes.get_title() for axes in grid] == ["standard, HR 0.87", "disentangled, HR 0.75"]
    assert "divergence" in colorbar.get_ylabel()
    assert [text.get_text() for text in grid[0].get_xticklabels()] == ["1", "2", "3"]


def test_lines_are_drawn_between_layers():
    models = {"two": np.eye(5), "one": np.eye(2)}
    figure = draw_head_redundancy(models, {"two": [2, 3], "one": [2]}, "Heads of the encoder")
    two, one, _ = figure.axes
    assert [line.get_xdata()[0] for line in two.lines] == [1.5, 0] and not one.lines  # down, and across
    assert [text.get_text() for text in two.get_yticklabels()] == ["1", "2"]
    assert figure.get_suptitle() == "Heads of the encoder"


def test_a_model_of_equal_heads(tmp_path):
    figure = draw_head_redundancy({"standard": np.ones((2, 2))})
    figure.savefig(tmp_path / "equal.png")
    (picture,) = figure.axes[0].get_images()
    assert picture.get_array().tolist() == [[1, 1], [1, 1]] and picture.get_clim() == (0, 1)


def drawn(figure):
    """Of each model, where points are and which heads they are of."""
    dots = [axes.collections[0] for axes in figure.axes]
    return [(np.asarray(dot.get_offsets()), np.asarray(dot.get_array())) for dot in dots]


def test_queries_of_heads_that_differ_lie_apart():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 40, 6))
    models = {"same": noise, "apart": noise + 20 * np.eye(3, 6)[:, None], "two": noise[:2, :5]}
    figure = draw_queries(models, points=20)
    assert [axes.get_title() for axes in figure.axes] == [*models]
    assert [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes] == [
        ["1", "2", "3"],
        ["1", "2", "3"],
        ["1", "2"],
    ]
    assert all("t-SNE" in axes.get_xlabel() for axes in figure.axes) and "t-SNE" in figure.get_suptitle()
    gaps = []
    for (places, heads), count in zip(drawn(figure), (20, 20, 5), strict=True):
        assert np.bincount(heads.astype(int)).tolist() == [0] + [count] * len(np.unique(heads))
        distances = np.linalg.norm(places[:, None] - places, axis=-1) + np.where(np.eye(len(places)), np.inf, 0)
        gaps.append(np.mean(heads[distances.argmin(-1)] == heads))
    assert gaps[1] == 1 and gaps[0] < 0.8  # how often the nearest point is of the same head


def test_one_head_needs_no_legend():
    assert draw_queries({"sum": np.random.default_rng(0).normal(size=(1, 9, 4))}).axes[0].get_legend() is None


def test_a_seed_draws_one_picture():
    models = {"a": np.random.default_rng(0).normal(size=(2, 30, 4))}
    places = [drawn(draw_queries(models, points=10, seed=seed))[0][0] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(places[0], places[1])
    assert not np.allclose(places[0], places[2])


def test_many_heads_have_colors_of_their_own():
    (dots,) = draw_queries({"a": np.random.default_rng(0).normal(size=(12, 2, 4))}).axes[0].collections
    dots.update_scalarmappable()
    assert len(np.unique(dots.get_facecolors(), axis=0)) == 12


def test_scikit_learn_is_needed_for_queries(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(ImportError, match="Install scikit-learn: pip install"):
        draw_queries({"a": np.eye(6).reshape(2, 3, 6)})

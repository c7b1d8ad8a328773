"""Clusters of tokens: which tokens they are made of, and pictures of them."""

import collections
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from keras_headattn.analysis import cluster_tokens, draw_cluster_tokens, draw_clusters

TOKENS = ["▁The", "▁year", "▁of", ",", "time", "▁", "▁Year", "▁year", "2020", "..."]
POSTERIORS = np.linspace(0.05, 0.95, len(TOKENS))[:, None] * [1, -1] + [0, 1]


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.integers(1, 4), st.integers(1, 7))
def test_definition(tokens, clusters, top):
    posteriors = np.random.default_rng(len(tokens)).dirichlet(np.ones(clusters), size=len(tokens))
    ranked = cluster_tokens(posteriors, tokens, top, leave_out=["f"])
    assert len(ranked) == clusters
    for cluster, found in enumerate(ranked):
        sums = collections.Counter()
        for token, posterior in zip(tokens, posteriors[:, cluster], strict=True):
            if token != "f":
                sums[token] += posterior
        expected = dict(sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[:top])
        assert [*found] == [*expected]
        assert found == pytest.approx(expected)


def test_stop_words_and_punctuation_are_left_out():
    first, second = cluster_tokens(POSTERIORS, TOKENS)
    assert sorted(first) == sorted(second) == sorted(["▁year", "time", "▁Year", "2020"])
    assert [*first] == ["▁year", "2020", "▁Year", "time"]
    assert first["▁year"] == pytest.approx(POSTERIORS[[1, 7], 0].sum())
    assert [*cluster_tokens(POSTERIORS, TOKENS, leave_out=["YEAR", "▁time"])[0]] == ["2020", "▁of", "▁The"]
    assert cluster_tokens([[1.0]], ["!"]) == [{}]


def test_tokens_as_the_recipes_show_them():
    """With "_" for the beginning of a word, and marks of the vocabulary."""
    (found,) = cluster_tokens(np.ones((5, 1)), ["_the", "_year", "</s>", "_", "<unk>"])
    assert [*found] == ["_year"]


def test_equal_tokens_are_in_alphabetical_order():
    assert [*cluster_tokens(np.ones((3, 1)), ["c", "a", "b"], top=2, leave_out=[])[0]] == ["a", "b"]


def test_punctuation_as_entities_is_left_out():
    """As Moses writes it; with a word behind it, it is not."""
    tokens = ["▁&apos;", "▁&quot;", "&#93;", "▁&amp;c"]
    (found,) = cluster_tokens(np.ones((4, 1)), tokens, leave_out=[])
    assert list(found) == ["▁&amp;c"]
    assert cluster_tokens(np.ones((4, 1)), tokens, leave_out=["&c"]) == [{}]


def test_bars_of_a_cluster(tmp_path):
    tokens = {"▁year": 2.5, "$5$": 1.0}
    figure = draw_cluster_tokens(tokens, "cluster 1")
    figure.savefig(tmp_path / "bars.png")
    (axes,) = figure.axes
    assert [bar.get_height() for bar in axes.patches] == [2.5, 1]
    assert [label.get_text() for label in axes.get_xticklabels()] == [*tokens]
    assert figure.get_suptitle() == "cluster 1" and axes.get_xlabel() == "token"


def pictures(figure):
    return [np.asarray(axes.get_images()[0].get_array()) for axes in figure.axes[:2]]


def test_clusters_of_a_sentence(golden):
    """The mask is that of the golden vectors, where queries are the keys."""
    data = golden("dma.npz")
    posteriors = data["post_z_query"][0, 1]
    left, mask = pictures(draw_clusters(list("abcde"), posteriors))
    np.testing.assert_array_equal(left, posteriors.T)
    same = np.array([[sum(a * b) for b in posteriors] for a in posteriors])
    np.testing.assert_allclose(mask, same / same.sum(-1, keepdims=True), rtol=1e-12)


def test_padding_has_no_part_in_the_mask(tmp_path):
    tokens, posteriors = ["▁a", "$b$", "c"], np.random.default_rng(0).dirichlet(np.ones(4), size=5)
    posteriors[3:] = 9
    figure = draw_clusters(tokens, posteriors)
    figure.savefig(tmp_path / "clusters.png")
    expected = pictures(draw_clusters(tokens, posteriors[:3]))
    for picture, other in zip(pictures(figure), expected, strict=True):
        np.testing.assert_array_equal(picture, other)
    for axis in (figure.axes[0].xaxis, figure.axes[1].xaxis, figure.axes[1].yaxis):
        assert [label.get_text() for label in axis.get_ticklabels()] == tokens
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "cluster", "query: attends", "p(cluster | token)", "share of a row"
    ]  # fmt: skip
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["1", "2", "3", "4"]


def test_clusters_of_queries_and_keys(golden):
    """Of golden vectors, with more keys than queries."""
    data = golden("dma.npz")
    keys = list("abcdefg"), data["post_z_key"][1, 2]
    figure = draw_clusters(list("vwxyz"), data["post_z_query"][1, 2], keys)
    np.testing.assert_allclose(pictures(figure)[1], data["M"][1, 2], rtol=1e-6)
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == keys[0]


def test_scikit_learn_is_needed_for_its_stop_words_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(ImportError, match="Install scikit-learn: pip install"):
        cluster_tokens(POSTERIORS, TOKENS)
    assert "▁year" in cluster_tokens(POSTERIORS, TOKENS, leave_out=[])[0]

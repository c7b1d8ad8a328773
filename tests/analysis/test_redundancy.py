"""Redundancy of heads: golden vectors, its definition in slow code, its bounds, and what it does not depend on."""

import math

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest

from keras_headattn.analysis import attention_maps, head_redundancy, head_redundancy_matrix, layer_redundancy
from keras_headattn.layers import InteractingHeadAttention, MultiHeadAttention
from tests.refusals import refused

MEASURES = layer_redundancy, head_redundancy, head_redundancy_matrix


def test_golden(golden):
    data = golden("dma.npz")
    maps = [layer[None] for layer in data["red_attention"]]
    assert layer_redundancy(maps) == pytest.approx(data["LR"], rel=1e-12)
    assert head_redundancy(maps) == pytest.approx(data["HR"], rel=1e-12)
    np.testing.assert_allclose(head_redundancy_matrix(maps), data["HR_pairs"], rtol=1e-12)


def divergence(rows):
    """Jensen-Shannon divergence of lists of numbers, base 2, as the mean Kullback-Leibler divergence from the mean."""
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    terms = [p * math.log2(p / q) for row in rows for p, q in zip(row, mean, strict=True) if p]
    return sum(terms) / len(rows)


def random_maps(rng, heads, batch, n, m):
    """Weights with zeros and rows of a single 1 among them, layers with these numbers of heads."""
    maps = [rng.dirichlet(np.full(m, 0.3), size=(batch, number, n)) for number in heads]
    for weights in maps:
        weights[weights < 0.05] = 0
        weights[rng.random(weights.shape[:3]) < 0.3] = np.eye(m)[rng.integers(m)]
    return [weights / weights.sum(-1, keepdims=True) for weights in maps]


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=3), *[st.integers(1, 4)] * 3)
def test_definition(seed, heads, batch, n, m):
    rng = np.random.default_rng(seed)
    maps, mask = random_maps(rng, heads, batch, n, m), rng.random((batch, n)) < 0.6
    mask[0, 0] = True
    queries = np.argwhere(mask).tolist()
    lr = [
        math.log2(weights.shape[1]) - np.mean([divergence(weights[b, :, i].tolist()) for b, i in queries])
        for weights in maps
    ]
    every = np.concatenate(maps, axis=1)
    hr = [
        [np.mean([1 - divergence([every[b, p, i], every[b, q, i]]) for b, i in queries]) for q in range(sum(heads))]
        for p in range(sum(heads))
    ]
    assert layer_redundancy(maps, mask) == pytest.approx(np.mean(lr))
    assert head_redundancy(maps, mask) == pytest.approx(np.mean(hr))
    np.testing.assert_allclose(head_redundancy_matrix(maps, mask), hr, atol=1e-12)


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(st.integers(0, 10**6))
def test_what_they_do_not_depend_on(seed):
    """Padding of queries, keys and sentences, the order of heads, and keys in another order."""
    rng = np.random.default_rng(seed)
    maps, mask = random_maps(rng, [3, 2], 2, 4, 5), np.arange(4) < [[3], [4]]
    longer = [np.pad(weights, ((0, 1), (0, 0), (0, 2), (0, 3))) for weights in maps]
    for weights in longer:
        weights[0, :, 3:] = rng.normal(size=weights.shape[3])  # what is padding need not be a distribution
    padded = np.pad(mask, ((0, 1), (0, 2)))
    order = rng.permutation(5)
    moved = [weights[..., order] for weights in maps]
    moved[0] = moved[0][:, rng.permutation(3)]
    for measure in MEASURES:  # some heads are uncorrelated but for rounding
        np.testing.assert_allclose(measure(longer, padded), measure(maps, mask), rtol=1e-12, atol=1e-14)
    for measure in MEASURES[:2]:
        assert measure(moved, mask) == pytest.approx(measure(maps, mask))
    matrix = head_redundancy_matrix(maps, mask)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diag(matrix), 1)
    assert -1e-12 < matrix.min() and matrix.max() < 1 + 1e-12
    assert 1 / 5 - 1e-12 < head_redundancy(maps, mask)
    assert -1e-12 < layer_redundancy(maps, mask) < np.mean(np.log2([3, 2])) + 1e-12


def test_bounds_are_met_exactly():
    rng = np.random.default_rng(0)
    same = np.repeat(rng.dirichlet(np.ones(6), size=(2, 1, 3)), 4, axis=1)
    apart = np.broadcast_to(np.eye(6)[None, :4, None], (2, 4, 3, 6))  # each head at a key of its own
    assert layer_redundancy([same]) == pytest.approx(2)
    assert layer_redundancy([apart]) == 0
    assert layer_redundancy([same[:, :1]]) == 0  # one head has no other
    assert head_redundancy([same, same]) == 1
    np.testing.assert_array_equal(head_redundancy_matrix([apart]), np.eye(4))
    np.testing.assert_array_equal(head_redundancy_matrix([apart, apart]), np.tile(np.eye(4), (2, 2)))
    assert head_redundancy([apart]) == 1 / 4


def test_queries_count_the_same_in_short_and_long_texts():
    maps = random_maps(np.random.default_rng(1), [3], 2, 4, 5)
    mask = np.arange(4) < [[1], [4]]
    for measure in MEASURES:
        short, long = measure([maps[0][:1, :, :1]]), measure([maps[0][1:]])
        np.testing.assert_allclose(measure(maps, mask), (short + 4 * long) / 5)


def test_of_a_model():
    """Of heads in pairs, in batches with padding; layers whose lengths differ have masks of their own."""
    source, target = keras.Input((6, 8)), keras.Input((4, 8))
    x = InteractingHeadAttention(2, 4, interaction="pairwise", name="pairs")(source, source)
    x = MultiHeadAttention(3, 4, name="cross")(target, x)
    model = keras.Model([source, target], x)
    rng = np.random.default_rng(0)
    maps = attention_maps(model, [rng.normal(size=(2, 6, 8)), rng.normal(size=(2, 4, 8))])
    pairs, cross = (maps[name].weights for name in ("pairs", "cross"))
    assert pairs.shape == (2, 2, 2, 6, 6)
    masks = [np.arange(6) < [[2], [6]], np.arange(4) < [[4], [3]]]
    parts = [layer_redundancy([layer], layer_mask) for layer, layer_mask in zip((pairs, cross), masks, strict=True)]
    assert layer_redundancy(maps, masks) == pytest.approx(np.mean(parts))
    flat = pairs.reshape(2, 4, 6, 6)
    np.testing.assert_array_equal(head_redundancy_matrix([pairs], masks[0]), head_redundancy_matrix([flat], masks[0]))
    with refused("of one kind", "'pairs'"):
        head_redundancy(maps)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_in_half_precision(dtype):
    maps = np.random.default_rng(0).dirichlet(np.ones(40), size=(2, 3, 5))
    uniform = np.full((2, 3, 5, 7), 1 / 7)
    halves = [keras.ops.cast(weights, dtype) for weights in (maps, uniform)]
    assert layer_redundancy(halves) == pytest.approx(layer_redundancy([maps, uniform]), abs=1e-3)
    assert layer_redundancy(halves[1:]) == pytest.approx(np.log2(3))

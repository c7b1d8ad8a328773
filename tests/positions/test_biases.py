"""Logits of positions against the equations, and what holds for all of them."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.positions import BucketPositions, RelativePositions
from tests.positions import oracles
from tests.positions.cases import BATCH, BIASES, HEADS, KEYS, QUERIES, WIDTH, alibi, array, built, heads

each = pytest.mark.parametrize("name", BIASES)
QUERY_PLACES, KEY_PLACES = np.array([3, 0, 30, 7, 4, 2]), np.array([9, 1, 2, 40, 5, 7])
PLACES = st.lists(st.integers(0, 300), min_size=6, max_size=6)


def expected(name, weights, query, query_places, key_places):
    if name == "alibi":
        return oracles.alibi(HEADS, query_places, key_places)[None]
    if name.startswith("buckets"):
        return oracles.by_bucket(weights[0], query_places, key_places, 20, name == "buckets")[None]
    if name == "relative":
        return oracles.shaw(weights[0], query, query_places, key_places)
    return oracles.bello(*weights, query)


@each
@settings(max_examples=20, deadline=None)
@given(query_places=PLACES, key_places=PLACES)
def test_equations(name, query_places, key_places):
    positions, query = built(name, "float64"), heads()
    got = array(positions.bias(query, np.array(query_places), np.array(key_places)))
    want = expected(name, [array(w) for w in positions.weights], query, query_places, key_places)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)
    np.broadcast_to(got, (BATCH, HEADS, QUERIES, KEYS))


@each
@settings(max_examples=10, deadline=None)
@given(shift=st.integers(0, 100_000))
def test_only_the_distance_matters(name, shift):
    positions, query = built(name), heads(dtype="float32")
    here = array(positions.bias(query, QUERY_PLACES, KEY_PLACES))
    there = array(positions.bias(query, QUERY_PLACES + shift, KEY_PLACES + shift))
    np.testing.assert_array_equal(there, here)


@each
@pytest.mark.parametrize("kinds", [("int64", "int32"), ("int32", "int64"), ("uint8", "int16"), ("int8", "uint32")])
def test_integers_of_any_dtype(name, kinds):
    positions, query = built(name), heads(dtype="float32")
    here = array(positions.bias(query, QUERY_PLACES.astype("int32"), KEY_PLACES.astype("int32")))
    places = (p.astype(kind) for p, kind in zip((QUERY_PLACES, KEY_PLACES), kinds, strict=True))
    np.testing.assert_array_equal(array(positions.bias(query, *places)), here)


@each
@pytest.mark.parametrize("dtype, tolerance", [("float16", 2e-3), ("bfloat16", 2e-2), ("float32", 1e-6)])
def test_lower_precision(name, dtype, tolerance):
    """The queries' dtype is that of the logits, whatever the dtype of the weights."""
    positions, query = built(name), keras.ops.cast(heads(), dtype)
    got = positions.bias(query, QUERY_PLACES, KEY_PLACES)
    assert keras.backend.standardize_dtype(got.dtype) == dtype
    exact = array(built(name, "float64").bias(array(query).astype("float64"), QUERY_PLACES, KEY_PLACES))
    np.testing.assert_allclose(array(got), exact, rtol=0, atol=tolerance * max(1, np.abs(exact).max()))


@pytest.mark.parametrize("name", ["alibi", "buckets", "buckets_one_way", "relative"])
def test_one_query_of_many_keys(name):
    """A step of decoding has the last row of the whole."""
    positions, query = built(name), heads(dtype="float32")
    whole = array(positions.bias(query, np.arange(6), np.arange(9)))
    last = array(positions.bias(query[:, :, -1:], np.array([5]), np.arange(9)))
    np.testing.assert_allclose(last, whole[:, :, -1:], rtol=0, atol=1e-6)


# ---------------------------------------------------------------------------------------------------------- slopes


@pytest.mark.parametrize("number", range(1, 50))
def test_slopes_of_any_number_of_heads(number):
    query = np.zeros((1, number, 1, 4))
    got = array(alibi(number).bias(query, np.array([1]), np.array([0, 2])))
    np.testing.assert_allclose(-got[0, :, 0, 0], oracles.slopes(number), rtol=1e-14)
    np.testing.assert_array_equal(got[..., 0], got[..., 1])


def test_six_slopes():
    got = array(alibi(6).bias(np.zeros((1, 6, 1, 4)), np.array([1]), np.array([0])))
    np.testing.assert_array_equal(np.log2(-got[0, :, 0, 0]), [-2, -4, -6, -8, -1, -3])


def test_alibi_learns_nothing():
    assert built("alibi").weights == []


# --------------------------------------------------------------------------------------------------------- buckets


@settings(max_examples=60, deadline=None)
@given(half=st.integers(2, 24), more=st.integers(1, 300), both=st.booleans())
def test_buckets_of_any_size(half, more, both):
    number, farthest = 2 * half, (half // 2 if both else half) + more
    positions = BucketPositions(number, farthest, both)
    steps = np.arange(-farthest - 3, farthest + 4)
    got = positions.buckets(steps)
    assert got.dtype == "int32" and got.min() == 0 and got.max() < number
    inward = np.sort(got[steps <= 0])[::-1]
    np.testing.assert_array_equal(got[steps <= 0], inward)  # farther is never a lower bucket
    assert got[0] == got[3] == (half - 1 if both else number - 1)


@pytest.mark.parametrize("number, farthest", [(32, 128), (8, 20), (16, 64), (320, 800), (12, 24), (20, 100), (4, 2)])
@pytest.mark.parametrize("both", [True, False])
def test_buckets_in_whole_numbers(number, farthest, both):
    farthest = max(farthest, number // 2 + 1)
    steps = np.arange(-farthest - 9, farthest + 10)
    want = [oracles.bucket(int(step), number, farthest, both) for step in steps]
    np.testing.assert_array_equal(BucketPositions(number, farthest, both).buckets(steps), want)


def test_initial_table():
    """Deviation `(h * d) ** -0.5`; of each layer its own."""
    one, two = BucketPositions(400, 1000), BucketPositions(400, 1000)
    for positions in (one, two):
        positions.build((None, 25, None, 4))
    values = array(one.embeddings)
    assert values.shape == (400, 25) and abs(values.mean()) < 0.003 and 0.097 < values.std() < 0.103
    assert np.abs(values - array(two.embeddings)).max() > 0.1
    filled = BucketPositions(embeddings_initializer="ones")
    filled.build((None, 2, None, 4))
    np.testing.assert_array_equal(array(filled.embeddings), np.ones((32, 2)))


# ---------------------------------------------------------------------------------------------------------- errors


def test_call_is_the_bias():
    positions, query = RelativePositions(3), heads(dtype="float32")
    called = array(positions(query, QUERY_PLACES, KEY_PLACES))
    np.testing.assert_array_equal(array(positions.bias(query, QUERY_PLACES, KEY_PLACES)), called)
    assert called.shape == (BATCH, HEADS, QUERIES, KEYS) and positions.embeddings.shape == (7, WIDTH)

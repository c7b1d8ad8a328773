"""Rotated heads against the equations, and what holds for all of them."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.positions import Llama3Positions, NtkPositions, RotaryPositions, YarnPositions
from tests.positions import oracles
from tests.positions.cases import ROTARY, WIDTH, array, built, heads

each = pytest.mark.parametrize("name", ROTARY)
PLACES = np.array([0, 5, 2, 171, 3, 44])
PLACE = st.integers(0, 5000)


@each
def test_equations(name):
    positions, x = built(name, "float64"), heads()
    width = int(WIDTH * positions.rotated_share)
    base = positions.max_wavelength
    frequencies, magnitude = oracles.plain(width, base) / positions.scaling_factor, 1.0
    if name == "ntk":
        frequencies = oracles.ntk(width, 4)
    elif name == "yarn":
        frequencies, magnitude = oracles.yarn(width, 4, 64), 0.1 * np.log(4) + 1
    elif name == "yarn_all":
        frequencies = oracles.yarn(width, 8, 64, 16, 2, False, base)
        magnitude = (0.07 * np.log(8) + 1) / (0.12 * np.log(8) + 1)
    elif name == "llama3":
        frequencies = oracles.llama3(width, 8, 64, 1.5, 5)
    expected = oracles.rotate(x, PLACES, frequencies, positions.interleaved, magnitude)
    np.testing.assert_allclose(array(positions.rotate(x, PLACES)), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(expected[..., width:], x[..., width:])


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(2, 10_000),
    factor=st.floats(1, 64),
    slow=st.floats(0.1, 4),
    more=st.floats(0.5, 60),
    truncate=st.booleans(),
    width=st.sampled_from([4, 6, 12, 64, 128]),
)
def test_frequencies_of_any_setting(length, factor, slow, more, truncate, width):
    yarn = YarnPositions(factor, length, slow + more, slow, truncate)
    expected = oracles.yarn(width, factor, length, slow + more, slow, truncate)
    np.testing.assert_allclose(yarn.frequencies(width), expected, rtol=1e-9)
    llama3 = Llama3Positions(factor, length, slow, slow + more)
    expected = oracles.llama3(width, factor, length, slow, slow + more)
    np.testing.assert_allclose(llama3.frequencies(width), expected, rtol=1e-9)
    ntk = NtkPositions(factor)
    np.testing.assert_allclose(ntk.frequencies(width), oracles.ntk(width, factor), rtol=1e-9)


@pytest.mark.parametrize("make", [NtkPositions, lambda f: YarnPositions(f, 64), lambda f: Llama3Positions(f, 64)])
def test_a_factor_of_1_changes_nothing(make):
    x = heads()
    expected = array(RotaryPositions().rotate(x, PLACES))
    np.testing.assert_allclose(array(make(1).rotate(x, PLACES)), expected, rtol=0, atol=1e-13)


@each
@settings(max_examples=15, deadline=None)
@given(i=PLACE, j=PLACE, shift=PLACE)
def test_logits_depend_on_the_distance_only(name, i, j, shift):
    positions, query, key = built(name), heads(0, 1), heads(1, 1)

    def logits(i, j):
        rotated = (array(positions.rotate(x, np.array([place]))) for x, place in ((query, i), (key, j)))
        return np.multiply(*rotated).sum(-1)

    np.testing.assert_allclose(logits(i + shift, j + shift), logits(i, j), rtol=0, atol=1e-9)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_interleaved_is_half_split_of_permuted_features(share):
    x, r = heads(), int(WIDTH * share)
    order = [*range(0, r, 2), *range(1, r, 2), *range(r, WIDTH)]
    half = array(RotaryPositions(rotated_share=share).rotate(x[..., order], PLACES))
    interleaved = array(RotaryPositions(rotated_share=share, interleaved=True).rotate(x, PLACES))
    np.testing.assert_allclose(half, interleaved[..., order], rtol=0, atol=1e-13)


@each
def test_lengths(name):
    """Rotation keeps the length of a vector, but for the magnitude."""
    positions = built(name)
    x = heads()[..., : int(WIDTH * positions.rotated_share)]
    x = np.concatenate([x, np.zeros((*x.shape[:-1], WIDTH - x.shape[-1]))], axis=-1)
    lengths = np.linalg.norm(array(positions.rotate(x, PLACES)), axis=-1)
    np.testing.assert_allclose(lengths, positions.magnitude * np.linalg.norm(x, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_integers_of_any_dtype(dtype):
    x, places = heads(dtype="float32"), np.array([0, 1, 100, 127, 3, 2])
    positions = RotaryPositions()
    np.testing.assert_array_equal(
        array(positions.rotate(x, places.astype(dtype))), array(positions.rotate(x, places.tolist()))
    )


@pytest.mark.parametrize("dtype, tolerance", [("float16", 1e-3), ("bfloat16", 1e-2), ("float32", 1e-4)])
@pytest.mark.parametrize("name", ["rotary", "partial_interleaved"])
def test_lower_precision(name, dtype, tolerance):
    """Angles of far positions are right in half precision as well; only the result is rounded."""
    positions, places = built(name), np.arange(2000, 2006)
    x = keras.ops.cast(heads(), dtype)
    got = positions.rotate(x, places)
    assert keras.backend.standardize_dtype(got.dtype) == dtype
    exact = array(positions.rotate(array(x).astype("float64"), places))
    np.testing.assert_allclose(array(got), exact, rtol=0, atol=2 * np.abs(exact).max() * tolerance)

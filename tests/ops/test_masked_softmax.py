import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.ops import attend, masked_softmax

LIMITS = {"float16": 6e4, "float32": 3e38, "float64": 1.7e308}
TOLERANCE = {"float16": 1e-3, "float32": 2e-6, "float64": 1e-14}
few = hypothesis.settings(max_examples=60, deadline=None)


def oracle(logits, mask):
    """One row at a time in extended precision, which holds the difference of any two logits."""
    logits, weights = logits.astype("longdouble"), np.zeros(logits.shape)
    for at in np.ndindex(logits.shape[:-1]):
        allowed = mask[at]
        if allowed.any():
            exponents = np.exp(logits[at][allowed] - logits[at][allowed].max())
            weights[at][allowed] = exponents / exponents.sum()
    return weights


def softmax(logits, mask=None):
    return keras.ops.convert_to_numpy(masked_softmax(logits, mask))


@st.composite
def logits_and_mask(draw, dtype, limit):
    shape = (*draw(arrays.array_shapes(min_dims=0, max_dims=3, max_side=4)), draw(st.integers(2, 6)))
    size = np.dtype(dtype).itemsize * 8
    limit = float(np.dtype(dtype).type(limit))
    elements = st.one_of(
        st.floats(-limit, limit, width=size, allow_subnormal=False),
        st.floats(-8, 8, width=size, allow_subnormal=False),
        st.sampled_from([-limit, 0.0, limit]),
    )
    return draw(arrays.arrays(dtype, shape, elements=elements)), draw(arrays.arrays(bool, shape))


@pytest.mark.parametrize("dtype", list(LIMITS))
def test_properties(dtype):
    @few
    @hypothesis.given(logits_and_mask(dtype, LIMITS[dtype]))
    def check(case):
        logits, mask = case
        weights = softmax(logits, mask)
        assert weights.dtype == dtype and weights.shape == logits.shape
        assert np.isfinite(weights).all() and (weights >= 0).all()
        assert not weights[~mask].any()
        sums, allowed = weights.astype("float64").sum(-1), mask.any(-1)
        assert not sums[~allowed].any()
        np.testing.assert_allclose(sums[allowed], 1, atol=10 * TOLERANCE[dtype])
        np.testing.assert_allclose(weights, oracle(logits, mask), rtol=0, atol=TOLERANCE[dtype])

    check()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_without_a_mask_it_is_the_softmax(dtype):
    @few
    @hypothesis.given(logits_and_mask(dtype, LIMITS[dtype]))
    def check(case):
        logits, _ = case
        everything = np.ones_like(logits, bool)
        np.testing.assert_allclose(softmax(logits), oracle(logits, everything), atol=TOLERANCE[dtype])
        np.testing.assert_array_equal(softmax(logits), softmax(logits, everything))

    check()


@few
@hypothesis.given(logits_and_mask("float32", 50), st.floats(-50, 50, width=32))
def test_masked_logits_and_a_shift_do_not_matter(case, shift):
    logits, mask = case
    weights = softmax(logits, mask)
    changed = np.where(mask, logits, np.float32(3e38))
    np.testing.assert_array_equal(softmax(changed, mask), weights)
    np.testing.assert_allclose(softmax(logits + np.float32(shift), mask), weights, atol=2e-5)


@pytest.mark.parametrize("other", [np.nan, np.inf, -np.inf])
def test_masked_positions_may_hold_anything_not_finite(other):
    logits, mask = np.array([[1.0, other, 2.0]], "float32"), np.array([[True, False, True]])
    np.testing.assert_allclose(softmax(logits, mask), oracle(np.float32([[1, 0, 2]]), mask), atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_summed_in_float32(dtype):
    """4096 equal weights: summed in half precision they would not give 1 / 4096."""
    weights = masked_softmax(keras.ops.zeros((2, 4096), dtype), np.ones((2, 4096), bool))
    assert keras.backend.standardize_dtype(weights.dtype) == dtype
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(keras.ops.cast(weights, "float32")), 1 / 4096)


@pytest.mark.parametrize("shape", [(3, 4), (4,), (1, 4), (2, 1, 4), (2, 3, 1), (1, 1, 1)])
def test_masks_broadcast(shape):
    rng = np.random.default_rng(0)
    logits, mask = rng.normal(size=(2, 3, 4)), rng.random(shape) > 0.4
    np.testing.assert_allclose(softmax(logits, mask), oracle(logits, np.broadcast_to(mask, logits.shape)), atol=1e-14)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_gradients(jit_compile):
    """Those of the softmax; zero, not NaN, for a row without any position, and at masked positions."""
    rng = np.random.default_rng(0)
    logits, mask, direction = rng.normal(size=(4, 5)) * 3, rng.random((4, 5)) > 0.4, rng.normal(size=(4, 5))
    mask[1], mask[2] = False, [False, True, False, False, False]

    @tf.function(jit_compile=jit_compile)
    def gradient(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = tf.reduce_sum(masked_softmax(logits, mask) * direction)
        return tape.gradient(loss, logits)

    got = gradient(tf.constant(logits)).numpy()
    weights = oracle(logits, mask)
    expected = weights * (direction - (weights * direction).sum(-1, keepdims=True))
    np.testing.assert_allclose(got, expected, atol=1e-14)
    assert not got[1].any() and not got[~mask].any()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_extreme_logits_in_a_graph(jit_compile):
    logits = np.array([[3e38, -3e38, 3e38], [-3e38] * 3, [-3e38, 0, 3e38]], "float32")
    mask = np.array([[True] * 3, [True] * 3, [True, True, False]])
    compiled = tf.function(masked_softmax, jit_compile=jit_compile)
    np.testing.assert_allclose(compiled(logits, mask), oracle(logits, mask), atol=1e-6)


def test_a_single_key_gives_no_warning():
    """The first step of decoding; Keras warns of a softmax over one element."""
    np.testing.assert_array_equal(softmax(np.ones((2, 1)), np.array([[True], [False]])), [[1], [0]])
    np.testing.assert_array_equal(softmax(np.ones((2, 1))), [[1], [1]])


# --------------------------------------------------------------------------------------------------- attend


@pytest.mark.parametrize("heads", [3, 1])
@pytest.mark.parametrize("mask_shape", [None, (2, 3, 4, 5), (2, 1, 4, 5), (1, 1, 4, 5), (4, 5), (2, 1, 1, 5)])
def test_attend(heads, mask_shape):
    """One head of queries serves all heads of keys."""
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(2, h, n, d)) for h, n, d in ((heads, 4, 6), (3, 5, 6), (3, 5, 2)))
    mask = None if mask_shape is None else rng.random(mask_shape) > 0.4
    logits = 0.7 * np.einsum("bhnd,bhmd->bhnm", np.broadcast_to(query, (2, 3, 4, 6)), key)
    allowed = np.broadcast_to(True if mask is None else mask, logits.shape).copy()
    if mask_shape == (2, 3, 4, 5):
        mask[1, 2, 3] = allowed[1, 2, 3] = False
    expected = oracle(logits, allowed) @ value
    got = keras.ops.convert_to_numpy(attend(query, key, value, mask, scale=0.7))
    np.testing.assert_allclose(got, expected, atol=1e-13)
    np.testing.assert_allclose(attend(query, key, value), attend(query, key, value, None, 1.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_attend_gives_zeros_where_nothing_may_be_attended_to(dtype):
    rng = np.random.default_rng(0)
    query, key, value = (keras.ops.cast(rng.normal(size=(2, 3, 4, 5)) * 50, dtype) for _ in range(3))
    mask = np.ones((2, 1, 4, 4), bool)
    mask[1, 0, 2] = False
    output = attend(query, key, value, mask)
    assert keras.backend.standardize_dtype(output.dtype) == dtype
    output = keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))
    assert np.isfinite(output).all() and not output[1, :, 2].any() and output[1, :, 1].any()


@pytest.mark.parametrize("width", [4, 64])
@pytest.mark.parametrize("heads", [(1, 3), (3, 1)])
def test_attend_with_one_head_for_all(heads, width):
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(2, h, 5, width)) for h in (heads[0], heads[1], heads[1]))
    whole = [np.broadcast_to(x, (2, 3, 5, width)) for x in (query, key, value)]
    np.testing.assert_allclose(attend(query, key, value), attend(*whole), atol=1e-6)


def test_only_a_known_size_of_one_is_one():
    """A tracer has sizes that are equal to 1 and no integers."""
    import numpy

    from keras_headattn.ops._dense import is_one

    assert [is_one(size) for size in (1, 2, None, numpy.array(1))] == [True, False, False, False]

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.ops import causal_mask, combine_masks, sliding_window_mask
from keras_headattn.ops._masks import check_mask


def array(tensor):
    assert keras.backend.standardize_dtype(tensor.dtype) == "bool"
    return keras.ops.convert_to_numpy(tensor)


@pytest.mark.parametrize("queries, keys", [(4, 4), (2, 5), (5, 2), (1, 3), (1, 1)])
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_causal_mask(queries, keys, offset):
    rows, columns = np.indices((queries, keys))
    expected = (columns <= rows + offset)[None]
    for given in (offset, np.int32(offset), tf.constant(offset)):
        np.testing.assert_array_equal(array(causal_mask(queries, keys, given)), expected)
    np.testing.assert_array_equal(array(causal_mask(queries, keys)), (columns <= rows)[None])


@pytest.mark.parametrize("queries, keys", [(4, 4), (2, 5), (5, 2), (1, 1)])
@pytest.mark.parametrize("window", [1, 2, 9])
@pytest.mark.parametrize("offset", [0, 2])
def test_sliding_window_mask(queries, keys, window, offset):
    rows, columns = np.indices((queries, keys))
    expected = (np.abs(columns - rows - offset) < window)[None]
    for kind in (np.asarray, tf.constant):
        mask = sliding_window_mask(kind(np.arange(queries) + offset), kind(np.arange(keys)), window)
        np.testing.assert_array_equal(array(mask), expected)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_tensor_offsets_and_lengths_in_a_graph(jit_compile):
    @tf.function(jit_compile=jit_compile)
    def masks(x, offset):
        n = keras.ops.shape(x)[0]
        return causal_mask(n, 6, offset), sliding_window_mask(tf.range(n) + offset, tf.range(6), 2)

    rows, columns = np.indices((3, 6))
    causal, window = masks(np.zeros(3), tf.constant(2))
    np.testing.assert_array_equal(array(causal)[0], columns <= rows + 2)
    np.testing.assert_array_equal(array(window)[0], np.abs(columns - rows - 2) < 2)


def test_lengths_not_known_in_a_graph():
    masks = tf.function(lambda x: causal_mask(tf.shape(x)[0], tf.shape(x)[1]), [tf.TensorSpec((None, None))])
    np.testing.assert_array_equal(array(masks(np.zeros((3, 4))))[0], np.tri(3, 4, dtype=bool))


def test_combine_masks():
    rng = np.random.default_rng(0)
    a, b, c = rng.random((2, 1, 3, 4)) > 0.3, rng.random((3, 4)) > 0.3, rng.random((2, 5, 1, 1)) > 0.3
    np.testing.assert_array_equal(array(combine_masks(a, None, b, c)), a & b & c)
    np.testing.assert_array_equal(array(combine_masks(a)), a)
    np.testing.assert_array_equal(array(combine_masks(None, b)), b)
    assert combine_masks() is None
    assert combine_masks(None, None) is None


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "int64", "float32", "float16", "float64"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4), (3, 4), (4,), (2, 1, 1), (1,)])
def test_check_mask_takes_zeros_and_ones(dtype, shape):
    mask = (np.random.default_rng(0).random(shape) > 0.5).astype(dtype)
    for given in (mask, tf.constant(mask)):
        checked = array(check_mask("mask", given, (2, 3, 4)))
        np.testing.assert_array_equal(np.broadcast_to(checked, (2, 3, 4)), np.broadcast_to(mask != 0, (2, 3, 4)))


def test_check_mask_takes_lists_and_keeps_what_is_boolean():
    assert array(check_mask("mask", [[1, 0]], (2, 2))).tolist() == [[True, False]]
    assert array(check_mask("mask", [True, False], (2, 2))).tolist() == [True, False]


def test_check_mask_of_unknown_sizes():
    assert array(check_mask("mask", np.ones((7, 3, 9)), (None, 3, None))).shape == (7, 3, 9)


def test_check_mask_in_a_graph():
    """Values cannot be looked at: of floats all but 0 counts as 1."""
    check = tf.function(lambda mask: check_mask("some_mask", mask, (2, 3)), [tf.TensorSpec((None, None), tf.int32)])
    np.testing.assert_array_equal(array(check(np.int32([[0, 1, 1]]))), [[False, True, True]])
    floats = tf.function(lambda mask: check_mask("some_mask", mask, (2, 3)), [tf.TensorSpec((None, None))])
    np.testing.assert_array_equal(array(floats(np.float32([[0, 1, 1]]))), [[False, True, True]])

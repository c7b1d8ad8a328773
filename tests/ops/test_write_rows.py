import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.ops._cache import row_indices
from keras_headattn.ops._cache import write_rows as write

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 6, 4


def cache_and_rows(rows, dtype="float32"):
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=(BATCH, HEADS, n, WIDTH)).astype(dtype) for n in (LENGTH, rows))


def write_rows(cache, rows, index):
    return write(cache, rows, row_indices(rows, index))


def expected(cache, rows, index):
    result = cache.copy()
    result[:, :, index : index + rows.shape[2]] = rows
    return result


# Row counts equal to the batch size and to the number of heads are where swapped axes go unnoticed.
@pytest.mark.parametrize("rows, index", [(1, 0), (1, 5), (2, 0), (2, 3), (3, 3), (6, 0), (4, 1)])
def test_rows_are_replaced(rows, index):
    cache, new = cache_and_rows(rows)
    before = cache.copy()
    for given in (index, np.int32(index), tf.constant(index), tf.constant(index, "int64")):
        result = write_rows(tf.constant(cache), tf.constant(new), given)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(result), expected(cache, new, index))
    np.testing.assert_array_equal(cache, before)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_in_a_graph_with_a_tensor_index(jit_compile):
    cache, new = cache_and_rows(2)

    @tf.function(jit_compile=jit_compile)
    def write(cache, rows, index):
        result = write_rows(cache, rows, index)
        assert tuple(result.shape) == (BATCH, HEADS, LENGTH, WIDTH)
        return result

    for index in (0, 4):
        np.testing.assert_array_equal(write(cache, new, tf.constant(index)), expected(cache, new, index))


def test_sizes_not_known_in_a_graph():
    write = tf.function(
        write_rows, [tf.TensorSpec((None,) * 4), tf.TensorSpec((None,) * 4), tf.TensorSpec((), "int32")]
    )
    cache, new = cache_and_rows(3)
    np.testing.assert_array_equal(write(cache, new, 2), expected(cache, new, 2))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_cache_keeps_its_dtype(dtype):
    cache, new = cache_and_rows(2, dtype)
    result = write_rows(tf.constant(cache), tf.constant(new), 1)
    assert keras.backend.standardize_dtype(result.dtype) == dtype
    np.testing.assert_array_equal(result, expected(cache, new, 1))
    mixed = write_rows(tf.constant(cache), tf.constant(new.astype("float32")), 1)
    assert keras.backend.standardize_dtype(mixed.dtype) == dtype


def test_gradients_reach_the_rows_and_the_rest_of_the_cache():
    cache, new = map(tf.constant, cache_and_rows(2))
    with tf.GradientTape() as tape:
        tape.watch([cache, new])
        loss = tf.reduce_sum(write_rows(cache, new, 1))
    of_cache, of_rows = tape.gradient(loss, [cache, new])
    np.testing.assert_array_equal(of_rows, np.ones(new.shape))
    np.testing.assert_array_equal(of_cache, expected(np.ones(cache.shape), np.zeros(new.shape), 1))

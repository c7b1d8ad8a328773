"""Gaussian noise by a counter-based generator."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from keras_headattn.ops._threefry import _normal, _threefry, _uint32, threefry_normal


def bits(key, x, y):
    tensors = (keras.ops.convert_to_tensor(np.array(one, "uint32")) for one in (x, y))
    return [keras.ops.convert_to_numpy(one) for one in _threefry([_uint32(one) for one in key], *tensors)]


def test_known_answers():
    """Of the library published with the paper."""
    assert [f"{int(one[0]):08x}" for one in bits((0, 0), [0], [0])] == ["6b200159", "99ba4efe"]
    ones = 0xFFFFFFFF
    assert [f"{int(one[0]):08x}" for one in bits((ones, ones), [ones], [ones])] == ["1cb996fc", "bb002be7"]


def test_bits_are_those_of_jax():
    random = pytest.importorskip("jax.extend.random")
    key, x, y = np.random.default_rng(0).integers(2**32, size=(3, 6), dtype="uint32")
    for seed, step in zip(key[::2], key[1::2], strict=True):
        expected = np.asarray(random.threefry_2x32(np.array([seed, step]), np.concatenate([x, y])))
        np.testing.assert_array_equal(np.concatenate(bits((seed, step), x, y)), expected)


def test_numbers_are_normal():
    found = keras.ops.convert_to_numpy(threefry_normal(200_001, seed=1, step=2))
    assert found.shape == (200_001,) and found.dtype == "float32"
    assert scipy.stats.kstest(found, "norm").pvalue > 0.01
    assert scipy.stats.kurtosis(found) == pytest.approx(0, abs=0.05)
    for lag in (1, 2, 100_001):  # the last: of the two numbers from one counter
        assert abs(np.mean(found[:-lag] * found[lag:])) < 5 / np.sqrt(len(found) - lag)


def test_extreme_bits():
    found = keras.ops.convert_to_numpy(_normal(keras.ops.convert_to_tensor(np.array([0, 2**32 - 1], "uint32"))))
    assert found[0] == -found[1] and 5 < found[1] < 5.3


@pytest.mark.parametrize("other", [dict(seed=2, step=5), dict(seed=1, step=6), dict(seed=5, step=1)])
def test_seed_and_step_have_their_own(other):
    one, another = (keras.ops.convert_to_numpy(threefry_normal(5000, **key)) for key in (dict(seed=1, step=5), other))
    assert abs(np.corrcoef(one, another)[0, 1]) < 0.06


def test_xla_equals_eager():
    compiled = tf.function(lambda seed, step: threefry_normal(1001, seed, step), jit_compile=True)
    found = compiled(tf.constant(3), tf.constant(4, "int64"))
    np.testing.assert_allclose(found, threefry_normal(1001, 3, 4), rtol=1e-5, atol=1e-6)

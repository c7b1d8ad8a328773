"""Against Keras's half-pixel resizing and TensorFlow 1's, which golden/ea_aa_conv_* used."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.ops import resize_bilinear

SIZES = [(4, 5, 8, 9), (1, 1, 2, 3), (7, 4, 3, 4), (14, 14, 28, 28)]


def images(height, width, dtype="float32"):
    return np.random.default_rng(0).normal(size=(2, height, width, 3)).astype(dtype)


@pytest.mark.parametrize("h, w, height, width", SIZES)
def test_half_pixel(h, w, height, width):
    x = images(h, w)
    expected = keras.ops.image.resize(x, (height, width), interpolation="bilinear", data_format="channels_last")
    np.testing.assert_allclose(resize_bilinear(x, height, width), expected, atol=1e-6)


@pytest.mark.parametrize("h, w, height, width", SIZES)
def test_legacy(h, w, height, width):
    x = images(h, w)
    expected = tf.compat.v1.image.resize_bilinear(x, (height, width))
    np.testing.assert_allclose(resize_bilinear(x, height, width, half_pixel=False), expected, atol=1e-6)


def test_float64_and_bfloat16():
    assert resize_bilinear(keras.ops.cast(images(4, 5), "bfloat16"), 8, 9).dtype == "bfloat16"
    x = images(4, 5, "float64")
    precise, single = resize_bilinear(x, 8, 9), resize_bilinear(x.astype("float32"), 8, 9)
    assert precise.dtype == "float64"
    np.testing.assert_allclose(precise, single, atol=1e-6)


def test_unknown_batch_compiled():
    compiled = tf.function(
        lambda x: resize_bilinear(x, 8, 9), jit_compile=True, input_signature=[tf.TensorSpec((None, 4, 5, 3))]
    )
    np.testing.assert_allclose(compiled(images(4, 5)), resize_bilinear(images(4, 5), 8, 9), atol=1e-6)

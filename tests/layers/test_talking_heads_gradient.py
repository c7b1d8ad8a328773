"""The gradient of the kernels over long maps, summed a few queries at a time, is that of the whole product."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import TalkingHeadsAttention
from keras_headattn.ops import _exchange_heads


def gradients(dtype="float32", jit_compile=None):
    """Output, and gradients of the input and of all weights."""
    keras.utils.set_random_seed(1)
    layer = TalkingHeadsAttention(3, 4, key_heads=2, value_heads=5, dtype=dtype)
    x = keras.random.normal((2, 10, 8), seed=2)
    layer(x, x)
    weights = [weight.value for weight in layer.trainable_weights]

    def compute(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, x)
            loss = tf.reduce_sum(tf.sin(y))
        return [y, *tape.gradient(loss, [x, *weights])]

    if jit_compile is not None:
        compute = tf.function(compute, jit_compile=jit_compile, autograph=False)
    return [tensor.numpy().astype("float32") for tensor in compute(x)]


@pytest.mark.parametrize("jit_compile", [None, False, True])
@pytest.mark.parametrize("long", [1, 50, 100])
def test_parts_add_up(monkeypatch, long, jit_compile):
    whole = gradients()
    calls = []
    in_parts = _exchange_heads._kernel_gradient
    monkeypatch.setattr(_exchange_heads, "LONG", long)
    monkeypatch.setattr(_exchange_heads, "_kernel_gradient", lambda *maps: calls.append(maps) or in_parts(*maps))
    for expected, found in zip(whole, gradients(jit_compile=jit_compile), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert len(calls) == 2  # before and after the softmax


def test_shorter_maps_are_one_product(monkeypatch):
    monkeypatch.setattr(_exchange_heads, "LONG", 101)
    monkeypatch.setattr(_exchange_heads, "_kernel_gradient", None)
    gradients()


def test_mixed_precision(monkeypatch):
    whole = gradients("mixed_bfloat16")
    monkeypatch.setattr(_exchange_heads, "LONG", 50)
    for expected, found in zip(whole, gradients("mixed_bfloat16"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.1)


def test_number_of_parts():
    # 512 queries of 512 keys: parts of 32 queries, and never more than 16.
    maps = tf.random.normal((1, 2, 512, 512), seed=3)
    graph = tf.function(_exchange_heads._kernel_gradient).get_concrete_function(maps, maps).graph
    assert sum(operation.type.startswith("BatchMatMul") for operation in graph.get_operations()) == 16

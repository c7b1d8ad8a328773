"""`ops.attend` on the backend of this process; `tests/backends` has the others."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.ops import attend
from keras_headattn.ops._attention import FEW, key_product
from tests.ops.oracles import BATCH, attention, draw_arguments, draw_by_seed

arguments = st.composite(lambda draw: draw_arguments(lambda options: draw(st.sampled_from(options))))()


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(arguments)
def test_equals_the_oracle(arguments):
    expected = attention(**arguments)
    output = array(attend(**arguments))
    assert output.dtype == "float64"
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-12)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(arguments)
def test_queries_without_keys_give_zeros(arguments):
    """Exactly, and with gradients of zero."""
    arguments["key_lengths"] = np.array([0, arguments["key"].shape[2]])
    query, key, value = tensors = [tf.constant(arguments.pop(name)) for name in ("query", "key", "value")]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        output = attend(query, key, value, **arguments)
    assert not array(output)[0].any()
    for gradient in tape.gradient(output, tensors):
        assert np.isfinite(array(gradient)).all() and not array(gradient)[0].any()


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("heads, groups", [(4, 4), (4, 2), (2, 1), (1, 3)])
@pytest.mark.parametrize("rows", [0, 1, 2, FEW, FEW + 1])
def test_products_of_queries_and_keys(rows, heads, groups, jit_compile):
    rng = np.random.default_rng(rows)
    query, key = rng.normal(size=(2, heads, rows, 3)), rng.normal(size=(2, groups, 5, 3))
    product = tf.function(key_product, jit_compile=jit_compile)
    keys = np.repeat(key, max(1, heads // groups), axis=1)
    expected = np.einsum("bhnk,bhmk->bhnm", np.broadcast_to(query, (2, keys.shape[1], rows, 3)), keys)
    np.testing.assert_allclose(product(tf.constant(query), tf.constant(key)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("jit_compile", [False, True])
def test_in_a_graph(seed, jit_compile):
    arguments = draw_by_seed(seed)
    fixed = {name: arguments.pop(name) for name in ("scale", "is_causal", "sliding_window")}
    tensors = {name: tf.constant(x) for name, x in arguments.items() if x is not None}
    call = tf.function(lambda tensors: attend(**tensors, **fixed), jit_compile=jit_compile)
    np.testing.assert_allclose(call(tensors), attention(**arguments, **fixed), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_lengths_of_any_integers(dtype):
    arguments = draw_by_seed(0) | {"key_lengths": np.array([1, 2], dtype)}
    np.testing.assert_allclose(attend(**arguments), attention(**arguments), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    rng = np.random.default_rng(0)
    query, key, value = (keras.ops.cast(rng.normal(size=(BATCH, 3, 5, 4)), dtype) for _ in range(3))
    masks = {"key_lengths": np.array([0, 4]), "is_causal": True, "sliding_window": 3}
    output = attend(query, key, value, sinks=np.zeros(3, "float32"), **masks)
    assert keras.backend.standardize_dtype(output.dtype) == dtype
    expected = attention(*(array(x).astype("float64") for x in (query, key, value)), sinks=np.zeros(3), **masks)
    np.testing.assert_allclose(array(output).astype("float64"), expected, rtol=0, atol=2e-2)
    assert not array(output)[0].any()


def test_order_of_arguments():
    """Those after `bias` are new: calls by position stay as they are."""
    names = [*inspect.signature(attend).parameters]
    assert names[:7] == ["query", "key", "value", "mask", "scale", "flash_attention", "bias"]
    assert {*names[7:]} >= {"is_causal", "sliding_window", "key_lengths", "sinks"}

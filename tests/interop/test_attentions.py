"""Weights of single layers: live stock attention, and tensorflow-addons."""

import keras
import numpy as np
import pytest

from keras_headattn.interop import copy_attention, of_addons, read_tensors
from keras_headattn.layers import (
    EvolvingAttention,
    GroupedQueryAttention,
    InteractingHeadAttention,
    MultiHeadAttention,
    TalkingHeadsAttention,
    absorb,
)
from tests.interop.folders import numbers, save_tensorflow
from tests.layers.harness import array
from tests.refusals import refused

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def functional(*layers):
    x = inputs = keras.Input((5, 8))
    for layer in layers:
        x = layer(x, x)
    return keras.Model(inputs, x)


def test_models():
    stock = functional(keras.layers.MultiHeadAttention(2, 4), keras.layers.MultiHeadAttention(4, 2))
    ours = functional(MultiHeadAttention(2, 4), MultiHeadAttention(4, 2))
    copy_attention(stock, ours)
    np.testing.assert_allclose(array(ours(X)), array(stock(X)), atol=1e-6)


def test_a_layer_of_another_order_of_weights():
    """The first weight of `EvolvingAttention` is the convolution's: names decide, not the order."""
    stock = keras.layers.MultiHeadAttention(2, 4)
    ours = EvolvingAttention(2, 4, alpha=0.0, beta=0.5)
    expected, _ = stock(X, X), ours(X, X)
    (report,) = copy_attention(stock, ours)
    assert report.initialised == ["map_kernel", "map_bias"]
    ours.map_kernel.assign(ours.map_kernel * 0)
    ours.beta = 0.0
    np.testing.assert_allclose(array(ours(X, X)), array(expected), atol=1e-6)


def test_grouped_heads():
    stock = keras.layers.GroupQueryAttention(4, 4, 2)
    ours = GroupedQueryAttention(4, 4, num_key_value_heads=2)
    expected, _ = stock(X, X), ours(X, X)
    copy_attention(stock, ours)
    np.testing.assert_allclose(array(ours(X, X)), array(expected), atol=1e-6)


@pytest.mark.parametrize("layer, stock", [
    (MultiHeadAttention(2, 4, use_bias=False), keras.layers.MultiHeadAttention(2, 4, use_bias=False)),
    (GroupedQueryAttention(4, 2, num_key_value_heads=2), keras.layers.GroupQueryAttention(2, 4, 2)),
    (InteractingHeadAttention(2, 4), keras.layers.MultiHeadAttention(2, 4)),
], ids=["multi_head", "grouped", "interacting"])  # fmt: skip
def test_to_keras(layer, stock):
    expected, _ = layer(X, X), stock(X, X)
    (report,) = copy_attention(absorb(layer) if isinstance(layer, InteractingHeadAttention) else layer, stock)
    assert not report.initialised and not report.left_over
    np.testing.assert_allclose(array(stock(X, X)), array(expected), atol=1e-6)


def test_what_would_compute_something_else_is_refused():
    talking, plain = TalkingHeadsAttention(2, 4), MultiHeadAttention(2, 4)
    wide, window = (keras.layers.MultiHeadAttention(2, 4, sliding_window=size) for size in (None, 2))
    for layer in (talking, plain, wide, window):
        layer(X, X)
    with refused("nothing was copied", "pre_softmax_kernel"):
        copy_attention(talking, plain)
    assert "pre_softmax_kernel" in copy_attention(talking, plain, strict=False)[0].left_over
    for pair in ((plain, window), (window, plain), (window, wide)):
        with refused("the same `sliding_window`", "2"):
            copy_attention(*pair)


def test_nothing_is_copied_by_half():
    stock = functional(keras.layers.MultiHeadAttention(2, 4), keras.layers.MultiHeadAttention(2, 4))
    ours = functional(MultiHeadAttention(2, 4), MultiHeadAttention(4, 2))
    before = ours.get_weights()
    with refused("nothing was copied", "of another shape"):
        copy_attention(stock, ours)
    for old, new in zip(before, ours.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    with refused("target", "2 and 1"):
        copy_attention(stock, ours.layers[1])


# tensorflow-addons


def addons_tensors(bias=True):
    shapes = {f"{name}_kernel": (2, 8, 4) for name in ("query", "key", "value")} | {"projection_kernel": (2, 4, 8)}
    return numbers(shapes | ({"projection_bias": (8,)} if bias else {}))


def addons_outputs(tensors):
    """`tensorflow_addons.layers.MultiHeadAttention` by its own formulas."""
    q, k, v = (np.einsum("bni,hio->bnho", X, tensors[f"{name}_kernel"]) for name in ("query", "key", "value"))
    logits = np.einsum("bnho,bmho->bhnm", q / 4**0.5, k)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    heads = np.einsum("bhnm,bmhi->bnhi", weights, v)
    return np.einsum("bnhi,hio->bno", heads, tensors["projection_kernel"]) + tensors.get("projection_bias", 0)


@pytest.mark.parametrize("bias", [True, False])
def test_addons(bias, tmp_path):
    tensors = addons_tensors(bias)
    names = {f"model/encoder/mha/{name}/.ATTRIBUTES/VARIABLE_VALUE": tensor for name, tensor in tensors.items()}
    slot = "model/encoder/mha/query_kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"
    save_tensorflow(tmp_path / "ckpt-1", names | {slot: tensors["query_kernel"]})
    layers = of_addons(read_tensors(tmp_path))
    assert list(layers) == ["model/encoder/mha"]
    ours = MultiHeadAttention(2, 4, use_bias=bias)
    ours(X, X)
    copy_attention(layers["model/encoder/mha"], ours)
    np.testing.assert_allclose(array(ours(X, X)), addons_outputs(tensors), atol=1e-5)

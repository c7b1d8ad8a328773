"""Collaborative heads: golden vectors, the equations, multi-head attention as a case of them, the cache."""

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.positions import RelativePositions
from tests.layers import oracles_variants
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    QUERIES,
    SIZES,
    array,
    build,
    check_close,
    cross_inputs,
    random_mask,
    self_input,
)
from tests.layers.oracles_variants import DOUBLE


def make(shared_dim=7, **options):
    return layers.CollaborativeAttention(**{**SIZES, "shared_dim": shared_dim, "dtype": "float64", **options})


def test_golden_vectors(golden):
    data = golden("variants_collaborative.npz")
    data = {name: x.astype("float64") if x.dtype == "float32" else x for name, x in data.items()}
    weights = {
        "query.kernel": data["w.query.weight"].T[:, None],
        "key.kernel": data["w.key.weight"].T[:, None],
        "mixing_kernel": data["w.mixing"],
        "content_kernel": data["w.content_bias.weight"].T,
        "value.kernel": data["w.value.weight"].T.reshape(10, 3, 5),
        "value.bias": data["w.value.bias"].reshape(3, 5),
        "attention_output.kernel": data["w.dense.weight"].T.reshape(3, 5, 10),
        "attention_output.bias": data["w.dense.bias"],
    }
    inputs = [data["query"], data["value"]]
    # The public code scales by the number of shared features a head.
    layer = layers.CollaborativeAttention(3, 3, 5, shared_dim=9, dtype="float64")
    layer = oracles_variants.layer_with(layer, weights, *inputs)
    output, scores = layer(*inputs, key_mask=data["key_mask"], return_attention_scores=True)
    check_close(output, data["out_f64"], DOUBLE)
    check_close(scores, data["maps_f64"], DOUBLE)
    mask = np.repeat(data["key_mask"][:, None, None], 5, axis=2)
    output, scores = oracles_variants.attention(oracles_variants.collaborative(3), weights, *inputs, mask=mask)
    check_close(output, data["out_f64"], DOUBLE)
    check_close(scores, data["maps_f64"], DOUBLE)


@pytest.mark.parametrize("use_bias", [True, False])
def test_equations(use_bias):
    """With widths that differ, and a query that may attend to nothing."""
    inputs, mask = cross_inputs(dtype="float64"), random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    layer = build(make(use_bias=use_bias), *inputs)
    names = {"mixing_kernel": (HEADS, 7)} | ({"content_kernel": (9, HEADS)} if use_bias else {})
    assert oracles_variants.own_weights(layer) == names
    assert layer.query_dense.bias is None and layer.key_dense.bias is None
    oracles_variants.check(layer, oracles_variants.collaborative(KEY_DIM), *inputs, mask)


def test_heads_side_by_side_are_multi_head_attention():
    """M is 1 on the features of each head, and C what a bias of the queries makes of each key."""
    inputs, options = cross_inputs(dtype="float64"), {"attn_logits_soft_cap": None}
    plain = build(layers.MultiHeadAttention(**SIZES, dtype="float64", **options), *inputs)
    weights = {name: array(weight) for name, weight in oracles_variants.by_name(plain).items()}
    content = np.einsum("jhk,hk->jh", weights["key.kernel"], weights.pop("query.bias"))
    del weights["key.bias"]
    for side in ("query", "key"):
        weights[f"{side}.kernel"] = weights[f"{side}.kernel"].reshape(-1, 1, HEADS * KEY_DIM)
    weights |= {"mixing_kernel": np.repeat(np.eye(HEADS), KEY_DIM, axis=1), "content_kernel": content}
    layer = oracles_variants.layer_with(make(None), weights, *inputs)
    check_close(layer(*inputs), plain(*inputs), DOUBLE)


def test_one_feature_is_one_map_for_all():
    x = self_input(dtype="float64")
    layer = build(make(1, use_bias=False), x)
    oracles_variants.set_weights(layer, mixing_kernel=1.0)
    _, scores = layer(x, x, return_attention_scores=True)
    check_close(scores, np.repeat(array(scores)[:, :1], HEADS, axis=1), DOUBLE)


def test_order_of_features_and_of_heads():
    x = self_input(dtype="float64")
    layer = build(make(), x)
    expected = layer(x, x)
    weights = {name: array(weight) for name, weight in oracles_variants.by_name(layer).items()}
    order = np.random.default_rng(0).permutation(7)
    for name in ("query.kernel", "key.kernel", "mixing_kernel"):
        weights[name] = np.take(weights[name], order, axis=-1)
    check_close(oracles_variants.layer_with(make(), weights, x, x)(x, x), expected, DOUBLE)
    order = [2, 0, 1]
    for name, axis in {"mixing_kernel": 0, "content_kernel": 1, "value.kernel": 1, "value.bias": 0}.items():
        weights[name] = np.take(weights[name], order, axis=axis)
    weights["attention_output.kernel"] = weights["attention_output.kernel"][order]
    check_close(oracles_variants.layer_with(make(), weights, x, x)(x, x), expected, DOUBLE)


def test_the_start():
    layer = layers.CollaborativeAttention(8, 64)
    layer.build((2, 5, 12), (2, 5, 12))
    assert tuple(layer.mixing_kernel.shape) == (8, 512) and not array(layer.content_kernel).any()
    np.testing.assert_allclose(array(layer.mixing_kernel).std(), 0.2, rtol=0.05)


@pytest.mark.parametrize("options", [{}, {"qk_norm": True}, {"relative_positions": RelativePositions(2)}])
def test_decoding(options):
    """The cache has one key for all heads, and the content bias and the value of each."""
    x = self_input(dtype="float64", length=6)
    layer = build(make(**options), x)
    cache = oracles_variants.check_decoding(layer, x)
    sizes = {"key": (BATCH, 1, 8, 7), "content": (BATCH, HEADS, 8, 1), "value": (BATCH, HEADS, 8, 5)}
    assert {name: tuple(value.shape) for name, value in cache.items() if name != "positions"} == sizes
    assert oracles_variants.numbers_a_key(cache) == 7 + HEADS + HEADS * 5
    kernels = layer.decoding_kernels()
    output, _ = layer(x, x, kernels=kernels, index=0, use_causal_mask=True, cache=layer.init_cache(BATCH, 6))
    check_close(output, layer(x, x, use_causal_mask=True), DOUBLE)


def test_cross_attention_from_a_cache():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(role="cross"), *inputs)
    oracles_variants.check_cross_decoding(layer, *inputs)
    memory = cross_inputs(dtype="float64")[1]
    layer = build(make(role="cross"), inputs[0], memory)
    kernels = layer.decoding_kernels()
    output = layer(inputs[0], cache=layer.project_cache(memory, kernels=kernels), kernels=kernels)
    check_close(output, layer(inputs[0], memory), DOUBLE)


def test_heads_for_repulsive():
    """How each head weighs the features; the shared query and key have one part."""
    layer = build(make(), *cross_inputs())
    expected = {"query": (1, 1), "key": (1, 1), "value": (1, HEADS), "attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(layer) == expected | {"mixing": (0, HEADS)}

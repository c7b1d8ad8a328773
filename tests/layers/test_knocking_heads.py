"""Knocking heads: golden vectors, the equations, the start, what multi-head attention equals it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from tests.layers import oracles_variants
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    QUERIES,
    VALUE_DIM,
    array,
    build,
    check_close,
    copy_weights,
    cross_inputs,
    random_mask,
    self_input,
)
from tests.layers.oracles_variants import DOUBLE

LINEAR = ("query", "key", "value")
each_form = pytest.mark.parametrize("knocking", [LINEAR, ("query",), ("value_mlp",), ("key", "value_mlp")], ids=str)


def make(knocking=("value_mlp",), **options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", **options}
    return layers.KnockingHeadsAttention(HEADS, KEY_DIM, knocking=knocking, **options)


def golden_weights(data, parts):
    """Projections, and the matrices less their start."""
    kernels = {name: data[f"w.{name}/kernel"] for name in (*LINEAR, "attention_output")}
    weights = {f"{name}.kernel": kernel.astype("float64") for name, kernel in kernels.items()}
    for part, name in parts.items():
        start = 0.0 if part == "gate" else np.eye(4)
        weights[f"knocking_{part}_kernel"] = data[f"w.knock_{name}"].astype("float64") - start
    return weights


GOLDEN = {
    "kha_linear": (LINEAR, {"query": "q", "key": "k", "value": "v"}),
    "kha_mlp": (("value_mlp",), {part: part for part in ("up", "gate", "down")}),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_vectors(golden, name):
    """Of the equations, of the layer, and of the layer as multi-head attention."""
    data, (knocking, parts) = golden("variants_own.npz"), GOLDEN[name]
    x, weights, expected = data["x"].astype("float64"), golden_weights(data, parts), data[f"np.{name}.causal.out_f64"]
    causal = np.tri(7, dtype=bool)[None, None]
    out, _ = oracles_variants.attention(oracles_variants.knocking_heads, weights, x, x, mask=causal)
    check_close(out, expected, DOUBLE)
    layer = layers.KnockingHeadsAttention(6, 4, knocking=knocking, use_bias=False, dtype="float64")
    layer = oracles_variants.layer_with(layer, weights, x, x)
    check_close(layer(x, x, use_causal_mask=True), expected, DOUBLE)
    if name == "kha_linear":
        check_close(layers.absorb(layer)(x, x, use_causal_mask=True), expected, DOUBLE)


@each_form
def test_equations(knocking):
    """With widths that differ, shared keys, and a query that may attend to nothing."""
    inputs, mask = cross_inputs(dtype="float64"), random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    layer = build(make(knocking, num_key_value_heads=1, use_gate=True), *inputs)
    oracles_variants.check(layer, oracles_variants.knocking_heads, *inputs, mask)


@each_form
def test_the_start_is_multi_head_attention(knocking):
    inputs = cross_inputs(dtype="float64")
    plain = build(layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64"), *inputs)
    layer = make(knocking)
    layer.build(*(x.shape for x in inputs))
    copy_weights(plain, layer)
    check_close(layer(*inputs), plain(*inputs), DOUBLE)


def test_weight_decay_keeps_the_start():
    x = self_input()
    layer = make((*LINEAR[:2], "value_mlp"), dtype="float32")
    layer.build(x.shape, x.shape)
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.apply([keras.ops.zeros_like(weight) for weight in layer.trainable_weights], layer.trainable_weights)
    weights = oracles_variants.by_name(layer)
    own = oracles_variants.own_weights(layer)
    assert len(own) == 5 and not any(array(weights[name]).any() for name in own)


def test_the_gradient_is_the_sum_over_heads():
    """Of a matrix for each head, which is what changes of the projection's kernels make."""
    x = self_input(dtype="float64")
    layer = build(make(("value",), use_bias=False), x)
    plain, factors = layers.absorb(layer), np.random.default_rng(0).normal(size=x.shape)
    gradients = {}
    for name, one in (("layer", layer), ("plain", plain)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(factors * one(x, x))
        weight = layer.knocking_value_kernel if one is layer else plain.value_dense.kernel
        gradients[name] = array(tape.gradient(loss, weight.value))
    by_head = np.einsum("dhe,dhf->hef", array(layer.value_dense.kernel), gradients["plain"])
    check_close(gradients["layer"], by_head.sum(0), DOUBLE)


@each_form
def test_decoding(knocking):
    """The cache has values after the matrix or the MLP; kernels for decoding include the matrices."""
    x = self_input(dtype="float64", length=6)
    layer = build(make(knocking), x)
    cache = oracles_variants.check_decoding(layer, x)
    assert tuple(cache["value"].shape) == (BATCH, HEADS, 8, VALUE_DIM)
    entry = layer.project_cache(x)
    check_close(cache["value"][:, :, :6], entry["value"], DOUBLE)
    call = {"index": 0, "use_causal_mask": True, "cache": layer.init_cache(BATCH, 6)}
    for kernels in (None, layer.decoding_kernels()):
        output, cache = layer(x, x, kernels=kernels, **call)
        check_close(output, layer(x, x, use_causal_mask=True), DOUBLE)
        check_close(cache["value"], entry["value"], DOUBLE)


def test_heads_for_repulsive():
    layer = build(make(num_key_value_heads=1), *cross_inputs())
    expected = {"query": (1, HEADS), "key": (1, 1), "value": (1, 1), "attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(layer) == expected

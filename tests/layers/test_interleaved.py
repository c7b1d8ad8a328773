"""Interleaved head attention: golden vectors, the equations, the start, tokens outside and pseudo-tokens inside."""

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.positions import ALiBiPositions, RelativePositions2D, RotaryPositions
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

ALPHAS = {"query": "q", "key": "k", "value": "v"}


def make(pseudo_tokens=2, **options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", **options}
    return layers.InterleavedHeadAttention(HEADS, KEY_DIM, num_pseudo_tokens=pseudo_tokens, **options)


def plain_of(layer, *inputs, **options):
    """Multi-head attention with the projections of a layer as it starts."""
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, VALUE_DIM, dtype="float64", **options)
    build(plain, *inputs)
    layer.build(*(x.shape for x in (*inputs, *inputs)[:3]))
    copy_weights(plain, layer)
    return plain


@pytest.mark.parametrize("rotary", [False, True])
def test_golden_vectors(golden, rotary):
    data = golden("variants_own.npz")
    names = {f"{side}.kernel": f"{side}/kernel" for side in (*ALPHAS, "attention_output")}
    names |= {f"{side}_mixing_kernel": f"iha.alpha_{letter}" for side, letter in ALPHAS.items()}
    weights = {ours: data[f"w.{theirs}"].astype("float64") for ours, theirs in names.items()}
    weights["collapse_kernel"] = data["w.iha.collapse"].astype("float64").T
    x, causal = data["x"].astype("float64"), np.tri(7, dtype=bool)[None, None]
    expected = data[f"np.iha.token_causal.{'rope.' if rotary else ''}out_f64"]
    out, _ = oracles_variants.attention(oracles_variants.interleaved(rotary), weights, x, x, mask=causal)
    check_close(out, expected, DOUBLE)
    options = {"relative_positions": RotaryPositions()} if rotary else {}
    layer = layers.InterleavedHeadAttention(6, 4, use_bias=False, dtype="float64", **options)
    layer = oracles_variants.layer_with(layer, weights, x, x)
    check_close(layer(x, x, use_causal_mask=True), expected, DOUBLE)


@pytest.mark.parametrize("pseudo_tokens", [1, 3])
@pytest.mark.parametrize("rotary", [False, True])
def test_equations(pseudo_tokens, rotary):
    """With widths that differ, masks and a bias that differ between heads, a query that may attend to nothing."""
    inputs, mask = cross_inputs(dtype="float64"), random_mask((BATCH, HEADS, QUERIES, KEYS))
    mask[1, :, 3] = False
    options = {"relative_positions": RotaryPositions()} if rotary else {}
    layer = build(make(pseudo_tokens, use_gate=True, **options), *inputs)
    bias = np.random.default_rng(5).normal(size=(HEADS, QUERIES, 1))
    oracles_variants.check(layer, oracles_variants.interleaved(rotary), *inputs, mask, bias=bias)
    expected = array(oracles_variants.by_name(layer)["attention_output.bias"])
    assert (array(layer(*inputs, attention_mask=mask))[1, 3] == expected).all()


@pytest.mark.parametrize("options", [
    {}, {"sliding_window": 2}, {"relative_positions": ALiBiPositions()}, {"use_sinks": True},
    {"relative_positions": RelativePositions2D(1, QUERIES)}, {"attn_logits_soft_cap": 1.0, "qk_norm": True},
], ids=str)  # fmt: skip
def test_the_start_is_multi_head_attention(options):
    """Also its scores, once for each pseudo-query; a sink counts once, as for one of several alike keys."""
    x = self_input(dtype="float64")
    layer = make(3, **options)
    plain = plain_of(layer, x, **options)
    if "use_sinks" in options:
        layer.sinks.assign(array(plain.sinks) + np.log(3))
    call = {"use_causal_mask": True, "return_attention_scores": True}
    output, scores = layer(x, x, **call)
    expected, expected_scores = plain(x, x, **call)
    check_close(output, expected, DOUBLE)
    check_close(scores, np.repeat(expected_scores, 3, axis=1), DOUBLE)
    check_close(layer(x, x, use_causal_mask=True), expected, DOUBLE)


def test_all_that_starts_alike_is_told_apart():
    """By the collapse, which weighs pseudo-queries, and by values, which first tell keys apart and then differ more."""
    x = self_input(dtype="float64")
    layer = make(2)
    plain_of(layer, x)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.sin(layer(x, x)))
    kernels = [layer.query_mixing_kernel, layer.key_mixing_kernel]
    for gradient in tape.gradient(loss, [kernel.value for kernel in kernels]):
        assert np.abs(gradient[..., 0] - gradient[..., 1]).max() > 1e-6


def test_segments_are_of_tokens():
    x, segments = self_input(dtype="float64", length=6), np.array([[0, 0, 1, 1, 1, 2]] * BATCH)
    layer = build(make(), x)
    output = layer(x, x, segment_ids=segments)
    for start, end in ((0, 2), (2, 5), (5, 6)):
        check_close(output[:, start:end], layer(x[:, start:end], x[:, start:end]), DOUBLE)


@pytest.mark.parametrize("options", [{}, {"relative_positions": RotaryPositions()}, {"sliding_window": 3}], ids=str)
def test_decoding(options):
    """The cache has composed keys, rotated for each pseudo-token, and plain values."""
    x = self_input(dtype="float64", length=6)
    layer = build(make(**options), x)
    bias = np.random.default_rng(5).normal(size=(BATCH, HEADS, 6, 8))
    cache = oracles_variants.check_decoding(layer, x, bias)
    assert tuple(cache["key"].shape) == (BATCH, 2 * HEADS, 8, KEY_DIM)
    assert tuple(cache["value"].shape) == (BATCH, HEADS, 8, VALUE_DIM)
    kernels = layer.decoding_kernels()
    output, _ = layer(x, x, kernels=kernels, index=0, use_causal_mask=True, cache=layer.init_cache(BATCH, 6))
    check_close(output, layer(x, x, use_causal_mask=True), DOUBLE)


def test_one_query_composes_no_values_of_the_cache():
    layer, length = build(make(), self_input(dtype="float64")), 50
    step = tf.function(lambda x, cache: layer(x, x, cache=cache, index=7, use_causal_mask=True))
    graph = step.get_concrete_function(self_input(dtype="float64")[:, :1], layer.init_cache(BATCH, length)).graph
    shapes = [output.shape for operation in graph.get_operations() for output in operation.outputs]
    assert (BATCH, HEADS, length, VALUE_DIM) in shapes
    assert 2 * BATCH * HEADS * length * VALUE_DIM not in [shape.num_elements() for shape in shapes]


def test_heads_for_repulsive():
    """Also of what composes a head, and of what a head is collapsed from."""
    layer = build(make(), *cross_inputs())
    expected = {"query": (1, HEADS), "key": (1, HEADS), "value": (1, HEADS), "attention_output": (0, HEADS)}
    expected |= {name: (1, HEADS) for name in ("query_mixing", "key_mixing", "value_mixing", "collapse")}
    assert oracles_variants.heads_found(layer) == expected

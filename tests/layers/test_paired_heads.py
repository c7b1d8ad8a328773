"""Paired heads: the equations, the source's sequences, alike heads, tokens, decoding, chunks, removal of pairs."""

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.analysis import prune_heads
from keras_headattn.positions import ALiBiPositions, RelativePositions, RotaryPositions
from tests.layers import oracles_variants
from tests.layers.harness import (
    BATCH,
    KEY_DIM,
    KEYS,
    QUERIES,
    VALUE_DIM,
    array,
    build,
    check_close,
    cross_inputs,
    random_mask,
    self_input,
)
from tests.layers.oracles_variants import DOUBLE, paired_heads
from tests.refusals import refused

HEADS = 4
WINDOW = {"sliding_window": 3, "use_sinks": True}


def make(**options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", **options}
    return layers.PairedHeadsAttention(HEADS, KEY_DIM, **options)


def test_equations():
    """With masks and a bias that differ between heads, and a query that may attend to nothing."""
    inputs, mask = cross_inputs(dtype="float64"), random_mask((BATCH, HEADS, QUERIES, KEYS))
    mask[1, :, 3] = False
    layer = build(make(use_gate=True), *inputs)
    bias = np.random.default_rng(5).normal(size=(BATCH, HEADS, QUERIES, KEYS))
    oracles_variants.check(layer, paired_heads, *inputs, mask, bias=bias)
    expected = array(oracles_variants.by_name(layer)["attention_output.bias"])
    assert (array(layer(*inputs, attention_mask=mask))[1, 3] == expected).all()


def test_interleaved_sequences():
    """Multi-head attention of half as many heads over sequences twice as long, as in the source, equals it."""
    x = self_input(dtype="float64")
    layer, half = build(make(value_dim=KEY_DIM, use_bias=False), x), HEADS // 2
    query, key, value = (
        (x @ array(dense.kernel).reshape(x.shape[2], -1)).reshape(BATCH, QUERIES, half, 2, KEY_DIM)
        for dense in (layer.query_dense, layer.key_dense, layer.value_dense)
    )
    long = [np.swapaxes(y, 2, 3).reshape(BATCH, 2 * QUERIES, half, KEY_DIM) for y in (query, key, value)]
    logits = np.einsum("bnhd,bmhd->bhnm", *long[:2]) / np.sqrt(KEY_DIM)
    seen = np.tri(QUERIES, dtype=bool).repeat(2, 0).repeat(2, 1)
    weights = np.where(seen, np.exp(logits), 0)
    heads = np.einsum("bhnm,bmhd->bnhd", weights / weights.sum(-1, keepdims=True), long[2])
    heads = np.swapaxes(heads.reshape(BATCH, QUERIES, 2, half, KEY_DIM), 2, 3).reshape(BATCH, QUERIES, -1)
    expected = heads @ array(layer.output_dense.kernel).reshape(HEADS * KEY_DIM, -1)
    check_close(layer(x, x, use_causal_mask=True), expected, DOUBLE)


@pytest.mark.parametrize("options", [
    {}, {"sliding_window": 2}, {"relative_positions": RotaryPositions()}, {"relative_positions": RelativePositions(2)},
    {"attn_logits_soft_cap": 1.0, "qk_norm": True}, {"relative_positions": ALiBiPositions()},
], ids=str)  # fmt: skip
def test_pairs_that_are_alike_are_multi_head_attention(options):
    """Also the scores, in which the two keys of a token add up."""
    x = self_input(dtype="float64")
    plain, layer = (build(cls(HEADS, KEY_DIM, VALUE_DIM, dtype="float64", **options), x) for cls in (
        layers.MultiHeadAttention, layers.PairedHeadsAttention
    ))  # fmt: skip
    for dense in (plain.key_dense, plain.value_dense):
        dense.kernel.assign(np.repeat(array(dense.kernel)[:, ::2], 2, axis=1))
        dense.bias.assign(np.repeat(array(dense.bias)[::2], 2, axis=0))
    layer.set_weights(plain.get_weights())
    for call in ({"use_causal_mask": True}, {"segment_ids": np.array([[0, 0, 1, 1, 1]] * BATCH)}):
        check_close(layer(x, x, **call), plain(x, x, **call), DOUBLE)
        results = (one(x, x, return_attention_scores=True, **call) for one in (layer, plain))
        for result, expected in zip(*results, strict=True):
            check_close(result, expected, DOUBLE)


@pytest.mark.parametrize("options", [{}, {"relative_positions": RotaryPositions()}, WINDOW], ids=str)
def test_decoding(options):
    x = self_input(dtype="float64", length=6)
    layer = build(make(**options), x)
    bias = np.random.default_rng(5).normal(size=(BATCH, HEADS, 6, 8))
    cache = oracles_variants.check_decoding(layer, x, bias)
    assert oracles_variants.numbers_a_key(cache) == HEADS * (KEY_DIM + VALUE_DIM)
    oracles_variants.check_cross_decoding(build(make(role="cross"), *cross_inputs()), *cross_inputs(dtype="float64"))


@pytest.mark.parametrize("options", [{}, WINDOW], ids=str)
def test_chunks_of_queries(options):
    x = self_input(dtype="float64", length=7)
    layer, whole = (build(make(query_chunk_size=size, **options), x) for size in (2, None))
    bias = np.random.default_rng(5).normal(size=(HEADS, 7, 7))
    for call in ({"use_causal_mask": True}, {"bias": bias}):
        check_close(layer(x, x, **call), whole(x, x, **call), DOUBLE)


def test_kept_weights_of_a_step():
    """The factor of a token applies to both of its keys."""
    query, value, key = cross_inputs(dtype="float64")
    layer = build(make(use_bias=False), query, value, key)
    kept = np.random.default_rng(0).integers(0, 2, (BATCH, 1, KEYS)) * 2.0
    output, _ = layer.step(query[:, 0], layer.project_cache(value, key), kept=kept)
    check_close(output, layer(query[:, :1], value * kept[:, 0, :, None], key)[:, 0], DOUBLE)


def test_recorded_logits_are_of_tokens():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(), *inputs)
    with layers.capture_intermediates() as found:
        layer(*inputs)
    logits, weights = (array(found[layer.path][name]) for name in ("logits", "weights"))
    check_close(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True), weights, DOUBLE)


def test_pairs_are_removed_together():
    x = self_input(dtype="float64")
    layer = build(make(), x)
    pruned = prune_heads(layer, {layer.path: [0, 1, 3, 2]}, 0.5)
    assert pruned.num_heads == 2
    np.testing.assert_array_equal(pruned.query_dense.kernel, array(layer.query_dense.kernel)[:, 2:])
    with refused("cannot lose heads", "PairedHeadsAttention, num_heads=2"):
        prune_heads(pruned, None, 0.5)


def test_heads_for_repulsive():
    expected = dict.fromkeys(("query", "key", "value"), (1, HEADS)) | {"attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(build(make(), *cross_inputs())) == expected

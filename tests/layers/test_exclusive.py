"""Exclusive self-attention: outputs of heads without their part along the token's own value."""

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.layers import capture_intermediates
from keras_headattn.models import CausalLM
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    array,
    build,
    cross_inputs,
    random_mask,
    randomize,
    self_input,
)
from tests.refusals import refused

KINDS = {
    "multi_head": (layers.MultiHeadAttention, {}),
    "grouped_query": (layers.GroupedQueryAttention, {"num_heads": 4, "num_key_value_heads": 2}),
    "talking_heads": (layers.TalkingHeadsAttention, {}),
    "knocking_heads": (layers.KnockingHeadsAttention, {}),
    "evolving": (layers.EvolvingAttention, {"role": "decoder"}),
    "chunks": (layers.MultiHeadAttention, {"query_chunk_size": 2}),
}


def make(name="multi_head", **options):
    layer, own = KINDS[name]
    return layer(**{"num_heads": HEADS, "key_dim": KEY_DIM, "dtype": "float64", **own, **options})


def heads_and_values(layer, x, **options):
    """Of a layer whose merging leaves them as they are."""
    seen = {}
    merge, project = layer.merge, layer.project_key_value
    layer.merge = lambda heads, state: seen.setdefault("heads", heads) is None or merge(heads, state)
    layer.project_key_value = lambda *given: seen.setdefault("entry", project(*given))
    layer(x, x, **options)
    return array(seen["heads"]), array(seen["entry"]["value"])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("exclusive", [True, "head"])
def test_equation(name, exclusive):
    """y_i - s (y_i . v_i) v_i / |v_i|^2, with s = 1 or tanh(a), one token and head at a time."""
    x, mask = self_input(dtype="float64"), random_mask((BATCH, 5, 5))
    mask[1, 2] = False
    plain, layer = build(make(name), x), make(name, exclusive=exclusive)
    build(layer, x)
    for weight, own in zip(plain.weights, (w for w in layer.weights if w.name != "exclusion"), strict=True):
        own.assign(weight)
    heads, values = heads_and_values(plain, x, attention_mask=mask)
    found, _ = heads_and_values(layer, x, attention_mask=mask)
    shares = np.tanh(array(layer.exclusion)) if exclusive == "head" else np.ones(heads.shape[1])
    for b, h, i in np.ndindex(heads.shape[:3]):
        v, y = values[b, h * values.shape[1] // heads.shape[1], i], heads[b, h, i]
        np.testing.assert_allclose(found[b, h, i], y - shares[h] * (y @ v) / (v @ v) * v, atol=1e-12)
        assert exclusive == "head" or abs(found[b, h, i] @ v) < 1e-12
    assert (found[1, :, 2] == 0).all()


def test_it_starts_as_attention_without_it():
    x = self_input()
    layer = layers.MultiHeadAttention(HEADS, KEY_DIM, exclusive="head")
    layer.build(x.shape, x.shape)
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM)
    plain.build(x.shape, x.shape)
    plain.set_weights([weight for weight in layer.get_weights() if weight.shape != (HEADS,)])
    np.testing.assert_allclose(layer(x, x), plain(x, x), atol=1e-6)
    assert tuple(layer.exclusion.shape) == (HEADS,)


@pytest.mark.parametrize("name", ["multi_head", "grouped_query", "evolving"])
def test_decoding(name):
    """Step by step and by chunks as all at once."""
    x = self_input(dtype="float64", length=6)
    layer = build(make(name, exclusive="head"), x)
    whole = layer(x, x, use_causal_mask=True)
    for size in (1, 2, 6):
        cache, steps = layer.init_cache(BATCH, 6), []
        for i in range(0, 6, size):
            piece = x[:, i : i + size]
            output, cache = layer(piece, piece, cache=cache, index=i, use_causal_mask=True)
            steps.append(output)
        np.testing.assert_allclose(np.concatenate(steps, axis=1), whole, atol=1e-10)


def test_a_language_model():
    """Of two blocks: prefilled and step by step as at once, and nothing of the future."""
    model = CausalLM(11, 2, 16, num_heads=2, attention_arguments={"exclusive": "head"}, seed=0)
    model.build()
    randomize(model)
    ids = np.random.default_rng(0).integers(0, 11, (2, 7)).astype("int32")
    logits = array(model(ids))
    found, cache = model.prefill(ids[:, :4], model.init_cache(2, 7))
    np.testing.assert_allclose(found, logits[:, 3], atol=1e-4)
    for i in range(4, 7):
        found, cache = model.decode_step(ids[:, i : i + 1], cache, i)
        np.testing.assert_allclose(array(found).reshape(2, -1), logits[:, i], atol=1e-4)
    np.testing.assert_allclose(model(np.concatenate([ids[:, :6], ids[:, :1]], axis=1))[:, :6], logits[:, :6], atol=1e-5)


def test_half_precision_and_weights_are_those_without_it():
    x = self_input()
    layer = build(make(exclusive=True, dtype="mixed_float16"), x * 100)
    assert np.isfinite(layer(x * 100, x * 100)).all()
    with capture_intermediates() as seen:
        layer(x, x)
    _, weights = layer(x, x, return_attention_scores=True)
    np.testing.assert_allclose(next(iter(seen.values()))["weights"], weights, atol=1e-3)


def test_saved():
    again = layers.get(layers.MultiHeadAttention.from_config(make(exclusive="head").get_config()))
    assert again.exclusive == "head"


def test_refused():
    query, value, key = cross_inputs(dtype="float64")
    with refused("exclusive", f"values of shape {(BATCH, HEADS, value.shape[1], KEY_DIM)}"):
        build(make(exclusive=True), query, value, key)(query, value, key)
    layer = build(make(exclusive=True), query, value)
    with refused("exclusive", "shape None"):
        layer(query, cache=layer.project_cache(value))
    with refused("exclusive", "role='cross'"):
        build(make(exclusive=True, role="cross"), query)
    others = (layers.DifferentialAttention, layers.MultiTokenAttention)
    for other in (*others, layers.InterleavedHeadAttention, layers.PairedHeadsAttention):
        with refused("exclusive", other.__name__):
            build(other(2, 4, exclusive=True), self_input())
    with refused("exclusive", 1):
        make(exclusive=1)

"""Multi-head explicit attention: golden vectors, the equations, grouped queries that it is, the cache."""

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.positions import RotaryPositions
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
from tests.layers.oracles_variants import DOUBLE

FORMS = [(2, 4), (4, 4), (1, 2), (2, 2)]  # components, key and value heads
each_form = pytest.mark.parametrize("components, groups", FORMS)


def make(components=2, groups=4, **options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", **options}
    return layers.MultiHeadExplicitAttention(
        4, KEY_DIM, num_components=components, num_key_value_heads=groups, **options
    )


def test_golden_vectors(golden):
    data = golden("variants_own.npz")
    names = {"query.kernel": "query/kernel", "attention_output.kernel": "attention_output/kernel"}
    names |= {f"{side}.kernel": f"mea.{side}/kernel" for side in ("key", "value")}
    names |= {f"{side}_mixing_kernel": f"mea.{side}_mixing" for side in ("key", "value")} | {"norm_scale": "mea.norm"}
    x, weights = (
        data["x"].astype("float64"),
        {ours: data[f"w.{theirs}"].astype("float64") for ours, theirs in names.items()},
    )
    expected, causal = data["np.mea.causal.out_f64"], np.tri(7, dtype=bool)[None, None]
    out, _ = oracles_variants.attention(oracles_variants.multi_head_explicit, weights, x, x, mask=causal)
    check_close(out, expected, DOUBLE)
    layer = layers.MultiHeadExplicitAttention(
        6, 4, num_components=2, num_key_value_heads=3, use_bias=False, dtype="float64"
    )
    layer = oracles_variants.layer_with(layer, weights, x, x)
    check_close(layer(x, x, use_causal_mask=True), expected, DOUBLE)


@each_form
def test_equations(components, groups):
    """With widths that differ, and a query that may attend to nothing. The gate comes after the norm."""
    inputs, mask = cross_inputs(dtype="float64"), random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    layer = build(make(components, groups, use_gate=True), *inputs)
    oracles_variants.check(layer, oracles_variants.multi_head_explicit, *inputs, mask)
    bias = array(oracles_variants.by_name(layer)["attention_output.bias"])
    assert (array(layer(*inputs, attention_mask=mask))[1, 3] == bias).all()


@each_form
def test_without_the_norm_it_is_grouped_queries(components, groups, monkeypatch):
    x, options = self_input(dtype="float64"), {"relative_positions": RotaryPositions()}
    layer = build(make(components, groups, **options), x)
    plain = layers.GroupedQueryAttention(4, KEY_DIM, VALUE_DIM, num_key_value_heads=groups, dtype="float64", **options)
    plain.build(x.shape, x.shape)
    weights = oracles_variants.by_name(layer)
    for name, variable in oracles_variants.by_name(plain).items():
        value, side = array(weights[name]), name.split(".")[0]
        if side in ("key", "value"):
            value = np.einsum("...cd,cj->...jd", value, array(weights[f"{side}_mixing_kernel"]))
        variable.assign(value)
    monkeypatch.setattr("keras_headattn.layers._multi_head_explicit_attention.rms_normalize", lambda x, *_, **__: x)
    check_close(layer(x, x, use_causal_mask=True), plain(x, x, use_causal_mask=True), DOUBLE)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("bfloat16", 2e-2)])
def test_the_start(dtype, tolerance):
    """Orthogonal rows, others for keys than for values; the identity for as many components as heads."""
    for components in (1, 2, 4):
        layer = make(components, 4, dtype=dtype)
        layer.build((2, 5, 12), (2, 5, 12))
        rows = [array(kernel) for kernel in (layer.key_mixing_kernel, layer.value_mixing_kernel)]
        for one in rows:
            np.testing.assert_allclose(one @ one.T, np.eye(components), atol=tolerance)
        if components == 4:
            np.testing.assert_array_equal(rows, [np.eye(4)] * 2)
        else:
            assert np.abs(rows[0] - rows[1]).max() > 1e-2


@each_form
def test_decoding(components, groups):
    """The cache has components, whose keys are rotated."""
    x = self_input(dtype="float64", length=6)
    layer = build(make(components, groups, relative_positions=RotaryPositions()), x)
    cache = oracles_variants.check_decoding(layer, x)
    assert tuple(cache["key"].shape) == (BATCH, components, 8, KEY_DIM)
    assert tuple(cache["value"].shape) == (BATCH, components, 8, VALUE_DIM)
    kernels = layer.decoding_kernels()
    output, _ = layer(x, x, kernels=kernels, index=0, use_causal_mask=True, cache=layer.init_cache(BATCH, 6))
    check_close(output, layer(x, x, use_causal_mask=True), DOUBLE)


def test_cross_attention_from_a_cache():
    inputs = cross_inputs(dtype="float64")
    cache = oracles_variants.check_cross_decoding(build(make(), *inputs), *inputs)
    assert tuple(cache["key"].shape) == (BATCH, 2, KEYS, KEY_DIM)


def test_heads_for_repulsive():
    """Components, and how each head is composed of them."""
    layer = build(make(2, 4), *cross_inputs())
    expected = {"query": (1, 4), "key": (1, 2), "value": (1, 2), "attention_output": (0, 4)}
    assert oracles_variants.heads_found(layer) == expected | {"key_mixing": (1, 4), "value_mixing": (1, 4)}


def test_more_components_than_heads():
    """As a pruned layer has: each head is composed of all."""
    layer = layers.MultiHeadExplicitAttention(2, 4, num_components=3)
    layer.build((None, 5, 8), (None, 5, 8))
    kernel = np.array(layer.key_mixing_kernel)
    np.testing.assert_allclose(kernel.T @ kernel, np.eye(2), atol=1e-6)
    assert layer.init_cache(1, 5)["key"].shape == (1, 3, 5, 4)

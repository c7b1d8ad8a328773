"""Multi-head attention in place of layers that tie its weights."""

import keras
import numpy as np
import pytest

from keras_headattn import layers, positions
from tests.layers.harness import CASES, build, cross_inputs, randomize
from tests.refusals import refused

OPTIONS = {
    "plain": {},
    "sizes": dict(value_dim=5, output_shape=7, use_bias=False),
    "gate": dict(use_gate=True),
    "norm": dict(qk_norm=True, scale=0.3),
    "cap": dict(attn_logits_soft_cap=2.0, use_sinks=True),
    "window": dict(sliding_window=2),
    "rotary": dict(relative_positions=positions.RotaryPositions()),
    "alibi": dict(relative_positions=positions.ALiBiPositions()),
    "buckets": dict(relative_positions=positions.BucketPositions()),
    "relative": dict(relative_positions=positions.RelativePositions(3)),
}
LAYERS = {
    "multi_head": layers.MultiHeadAttention,
    "grouped_query": lambda *args, **kwargs: layers.GroupedQueryAttention(*args, num_key_value_heads=2, **kwargs),
    "interacting": layers.InteractingHeadAttention,
    "knocking_heads": lambda *args, **kwargs: layers.KnockingHeadsAttention(*args, knocking=LINEAR, **kwargs),
    "knocking_groups": lambda *args, **kwargs: layers.KnockingHeadsAttention(
        *args, knocking=LINEAR, num_key_value_heads=2, **kwargs
    ),
    "interleaved": lambda *args, **kwargs: layers.InterleavedHeadAttention(*args, num_pseudo_tokens=1, **kwargs),
}
LINEAR = ("query", "key", "value")

KINDS = (layers.MultiHeadAttention, layers.GroupedQueryAttention, layers.InteractingHeadAttention)
KINDS += (layers.KnockingHeadsAttention, layers.InterleavedHeadAttention)


def inputs():
    random = np.random.default_rng(0)
    return random.normal(size=(2, 6, 12)).astype("float32"), np.array([[True] * 6, [True] * 4 + [False] * 2])


def built(name, **options):
    layer = LAYERS[name](4, 6, name="attention", **options)
    x, _ = inputs()
    layer(x, x)
    return randomize(layer)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", OPTIONS)
def test_same_output(name, options):
    layer, (x, mask) = built(name, **OPTIONS[options]), inputs()
    if name == "interleaved" and options in ("gate", "norm"):  # of heads before or after they are mixed
        with refused("interleaved heads with one pseudo-token", "InterleavedHeadAttention with num_pseudo_tokens=1"):
            layers.absorb(layer)
        return
    plain = layers.absorb(layer)
    assert type(plain) is layers.MultiHeadAttention and plain.name == layer.name and plain is not layer
    how = dict(use_causal_mask=True, value_mask=mask, return_attention_scores=True)
    for found, expected in zip(plain(x, x, **how), layer(x, x, **how), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    cache = [each.init_cache(2, 3) for each in (plain, layer)]
    for index in range(3):
        row = x[:, index : index + 1]
        found, cache[0] = plain(row, row, cache=cache[0], index=index)
        expected, cache[1] = layer(row, row, cache=cache[1], index=index)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_cross_attention_of_other_widths(name):
    random = np.random.default_rng(1)
    query, value, key = (random.normal(size=(2, 4, width)).astype("float32") for width in (12, 5, 7))
    layer = LAYERS[name](4, 3, dtype="mixed_bfloat16")
    layer(query, value, key)
    expected = randomize(layer)(query, value, key)
    plain = layers.absorb(layer)
    assert plain.dtype_policy.name == "mixed_bfloat16" and plain.weights[0].dtype == "float32"
    found = keras.ops.convert_to_numpy(keras.ops.cast(plain(query, value, key), "float32"))
    np.testing.assert_allclose(found, keras.ops.cast(expected, "float32"), rtol=0.05, atol=0.05)


def test_files(tmp_path):
    x = keras.Input((None, 12))
    plain = layers.absorb(built("interacting", dropout=0.1, seed=3))
    model = keras.Model(x, plain(x, x))
    model.save(tmp_path / "plain.keras")
    again = keras.saving.load_model(tmp_path / "plain.keras")
    np.testing.assert_array_equal(again(inputs()[0]), model(inputs()[0]))
    assert again.layers[-1].dropout == 0.1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_layer_is_equal_or_refused(case):
    given = cross_inputs()
    layer = randomize(build(case.make(), *given))
    changed = getattr(layer, "interaction", "sum") != "sum" or "value_mlp" in getattr(layer, "knocking", ())
    changed |= getattr(layer, "num_pseudo_tokens", 1) > 1
    if type(layer) in KINDS and not changed:
        np.testing.assert_allclose(layers.absorb(layer)(*given), layer(*given), rtol=1e-5, atol=1e-5)
    else:
        with refused("equal multi-head attention"):
            layers.absorb(layer)


def test_what_cannot_be_absorbed():
    with refused("`absorb`"):
        layers.absorb(layers.MultiHeadAttention(4, 6))
    layer = built("interacting")
    layer.key_dense.enable_lora(2)
    with refused("not quantised or with LoRA", "InteractingHead"):
        layers.absorb(layer)

    class Own(layers.MultiHeadAttention):
        """May override anything."""

    own = Own(4, 6)
    own(*[inputs()[0]] * 2)
    with refused("equal multi-head attention", "Own"):
        layers.absorb(own)

"""Golden vectors of other people's code: Keras 2.15, tensorflow-addons, Lsdefine's Keras code, TF Models.

Where a query may attend to nothing (`fullrow`) they give noise or a uniform distribution, ours zeros.
"""

import numpy as np
import pytest

from keras_headattn.layers import InteractingHeadAttention, MultiHeadAttention, TalkingHeadsAttention
from tests.layers.harness import array, output_bias

FLOAT32, FLOAT64 = 1e-5, 1e-13


def layer_with(layer, inputs, weights):
    """Builds `layer` and sets its weights by the end of their path, `query/kernel` and so on."""
    layer.build(*(x.shape for x in inputs))
    by_name = {v.path.split("/", 1)[1]: v for v in layer.weights}
    assert set(by_name) == set(weights)
    for name, value in weights.items():
        by_name[name].assign(value.reshape(by_name[name].shape))
    return layer


def check(layer, inputs, mask, out, scores, empty=(), tolerance=FLOAT32):
    """Compares with and without scores; `empty` queries (b, i) must give zeros instead."""
    got, got_scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    without = layer(*inputs, attention_mask=mask)
    got, got_scores, without = array(got), array(got_scores), array(without)
    out, scores = out.copy(), scores.copy()
    for b, i in empty:
        assert not got_scores[b, ..., i, :].any()
        assert np.abs(scores[b, ..., i, :]).max() > 0  # theirs is not zero there
        out[b, i], scores[b, ..., i, :] = output_bias(layer), 0
    for result, expected in ((got, out), (without, out), (got_scores, scores)):
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


def inputs_of(data, dtype):
    return [data[name].astype(dtype) for name in ("query", "value", "key")]


MASKS = {"nomask": None, "mask": "mask", "fullrow": "mask_fullrow", "head": "mask_head", "mask2d": "mask2d"}


@pytest.mark.parametrize("variant", ["nomask", "mask", "fullrow", "head"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["mha_keras215", "talking_heads_tfm"])
def test_keras_and_tf_models(golden, name, variant, dtype):
    data = golden(f"{name}.npz")
    inputs = inputs_of(data, dtype)
    weights = {n[2:].replace(".", "/"): data[n] for n in data.files if n.startswith("w.")}
    weights = {n.replace("softmax_weight", "softmax_kernel"): value for n, value in weights.items()}
    layer = TalkingHeadsAttention if name.startswith("talking") else MultiHeadAttention
    layer = layer_with(layer(3, 4, value_dim=6, output_shape=10, dtype=dtype), inputs, weights)
    mask = None if variant == "nomask" else data[MASKS[variant]]
    suffix, tolerance = ("_f64", FLOAT64) if dtype == "float64" else ("", FLOAT32)
    out, scores = (data[f"{variant}.{kind}{suffix}"] for kind in ("out", "scores"))
    check(layer, inputs, mask, out, scores, [(1, 3)] if variant == "fullrow" else [], tolerance)


def tfa_weights(data, prefix="w."):
    """Theirs are (heads, in, size) and have no input biases."""
    weights = {}
    for name in ("query", "key", "value"):
        weights[f"{name}/kernel"] = data[f"{prefix}{name}_kernel"].transpose(1, 0, 2)
        weights[f"{name}/bias"] = np.zeros((3, 4))
    kernel = data[f"{prefix}projection_kernel"]
    bias = data["w.projection_bias"] if prefix == "w." else np.zeros(kernel.shape[-1])
    return weights | {"attention_output/kernel": kernel, "attention_output/bias": bias}


@pytest.mark.parametrize("variant", list(MASKS))
def test_tensorflow_addons(golden, variant):
    data = golden("mha_tfa.npz")
    inputs = inputs_of(data, "float32")
    layer = layer_with(MultiHeadAttention(3, 4, output_shape=10), inputs, tfa_weights(data))
    mask = None if variant == "nomask" else data[MASKS[variant]]
    empty = [(1, 3)] if variant == "fullrow" else []
    check(layer, inputs, mask, data[f"{variant}.out"], data[f"{variant}.coef"], empty)


def test_tensorflow_addons_float64(golden):
    data = golden("mha_tfa.npz")
    inputs = inputs_of(data, "float64")
    layer = layer_with(MultiHeadAttention(3, 4, output_shape=10, dtype="float64"), inputs, tfa_weights(data))
    check(layer, inputs, None, data["nomask.out_f64"], data["nomask.coef_f64"], tolerance=FLOAT64)


def test_tensorflow_addons_two_inputs(golden):
    """Value = key, and the output as wide as they are; the file was made with `mask`."""
    data = golden("mha_tfa.npz")
    inputs = data["query"], data["key"], data["key"]
    layer = layer_with(MultiHeadAttention(3, 4, output_shape=13), inputs, tfa_weights(data, "w.qk."))
    check(layer, inputs, data["mask"], data["qk.out"], data["qk.coef"])
    check(layer, inputs[:2], data["mask"], data["qk.out"], data["qk.coef"])


@pytest.mark.parametrize("variant", ["mode1.nomask", "mode1.mask3d", "mode1.mask2d", "mode0.nomask"])
def test_lsdefine(golden, variant):
    """Mode 0 gives a sentence the mask of another (golden README), so only without one."""
    data = golden("mha_lsdefine.npz")
    inputs = inputs_of(data, "float32")
    kernels = {n: data[f"W{n[0].upper()}"] for n in ("query", "key", "value")}
    layer = MultiHeadAttention(3, 4)
    layer.build(*(x.shape for x in inputs))
    zeros = np.zeros((3, 4))
    layer.set_weights(
        [w for n in ("query", "key", "value") for w in (kernels[n].reshape(12, 3, 4), zeros)]
        + [data["WO"].reshape(3, 4, 12), data["bO"]]
    )
    mode, masked = variant.split(".")
    mask = {"nomask": None, "mask3d": data["mask3d"], "mask2d": data["mask2d"][:, None]}[masked]
    scores = data[f"{variant}.attn"]
    if mode == "mode0":  # (heads * batch, n, m), head-major
        scores = scores.reshape(3, 2, 5, 7).transpose(1, 0, 2, 3)
    else:  # (batch, n, heads * m)
        scores = scores.reshape(2, 5, 3, 7).transpose(0, 2, 1, 3)
    check(layer, inputs, mask, data[f"{variant}.out"], scores)


def interacting_weights(data, bias, kernel):
    weights = {}
    for name, width in (("query", 4), ("key", 4), ("value", 6)):
        letter = name[0].upper()
        weights[f"{name}/kernel"] = data[f"W{letter}"].reshape(-1, 3, width)
        if bias == "bias":
            weights[f"{name}/bias"] = data[f"b{letter}"].reshape(3, width)
    weights["attention_output/kernel"] = data[kernel].reshape(-1, 6, 10)
    if bias == "bias":
        weights["attention_output/bias"] = data["bo"]
    return weights


@pytest.mark.parametrize("masked", ["nomask", "mask"])
@pytest.mark.parametrize("bias", ["bias", "nobias"])
@pytest.mark.parametrize("interaction", ["sum", "pairwise"])
def test_interacting_heads(golden, interaction, bias, masked):
    data = golden("interacting_head.npz")
    inputs = [data[n].astype("float64") for n in ("q", "v", "k")]
    kernel, key = "Wo_eq12", f"eq12.{bias}.{masked}"
    if interaction == "sum":
        kernel, key = "Wo_alg1", f"alg1.{bias}.{masked}.scaled"
    arguments = {"interaction": interaction, "value_dim": 6, "output_shape": 10, "use_bias": bias == "bias"}
    layer = InteractingHeadAttention(3, 4, dtype="float64", **arguments)
    layer = layer_with(layer, inputs, interacting_weights(data, bias, kernel))
    mask = None if masked == "nomask" else data["mask"]
    offset = 0 if bias == "bias" else data["bo"]  # the file adds its output bias in any case
    check(layer, inputs, mask, data[f"{key}.out"] - offset, data[f"{key}.attn"], tolerance=FLOAT64)


def test_interacting_heads_self_attention(golden):
    """Causal, no bias; the output projection left out by making it the identity."""
    data = golden("interacting_head.npz")
    x = data["self.x"].astype("float64")
    weights = {f"{n}/kernel": data[f"self.W{n[0].upper()}"] for n in ("query", "key", "value")}
    weights["attention_output/kernel"] = np.eye(12)
    layer = layer_with(InteractingHeadAttention(3, 4, use_bias=False, dtype="float64"), [x] * 3, weights)
    causal, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_allclose(array(causal), data["self.heads"], atol=FLOAT64)
    np.testing.assert_allclose(array(scores), data["self.attn"], atol=FLOAT64)
    mask = data["self.causal_mask"]
    check(layer, [x, x, x], mask, data["self.heads"], data["self.attn"], tolerance=FLOAT64)

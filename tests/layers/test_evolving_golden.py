"""Golden vectors of eq. 4, of section 3.5, and of the attention in the authors' code for images and time series.

That code calls the paper's alpha beta, and the paper's beta alpha. What of it this layer cannot express: the
time series' LeakyReLU (compared where the convolution is not negative), dropout and activation of the map that goes
to the next block (`ea_dc_cnn`, `ea_dc_model`), and that image blocks without a skip connection leave the first map of a
chain as it is.
"""

import numpy as np
import pytest

from keras_headattn.layers import EvolvingAttention
from keras_headattn.positions import RelativePositions, RelativePositions2D
from tests.layers.harness import array, check_close

DOUBLE = 1e-12


def set_by_name(layer, weights):
    """Each weight by the end of its path, all of them."""
    found = {name: [w for w in layer.weights if w.path.endswith(name)] for name in weights}
    assert sorted(len(ws) for ws in found.values()) == [1] * len(layer.weights)
    for name, value in weights.items():
        found[name][0].assign(value.reshape(found[name][0].shape))
    return layer


def of_logits(logits, kernel=None, bias=None, **arguments):
    """A layer whose logits are `logits` (B, h, n, m), and the query and value for which they are."""
    batch, heads, n, m = logits.shape
    layer = EvolvingAttention(
        heads, key_dim=m, value_dim=1, output_shape=1, use_bias=False, dtype="float64", **arguments
    )
    query = logits.transpose(0, 2, 1, 3).reshape(batch, n, heads * m) * np.sqrt(m)
    value = np.repeat(np.eye(m)[None], batch, axis=0)
    layer.build(query.shape, value.shape, value.shape, logits.shape)
    weights = {
        "query/kernel": np.eye(heads * m),
        "key/kernel": np.repeat(np.eye(m)[:, None], heads, axis=1),
        "value/kernel": np.ones((m, heads, 1)),
        "attention_output/kernel": np.ones((heads, 1)),
    }
    if kernel is not None:
        weights |= {"map_kernel": kernel, "map_bias": bias}
    return set_by_name(layer, weights), query.astype("float64"), value


def check_map(data, name, logits, previous=None, mask=None, **arguments):
    """The map and the scores that a golden file names, where the mask allows."""
    layer, query, value = of_logits(logits, **arguments)
    call = {"return_attention_scores": True, "return_logits": True, "attention_mask": mask, "previous_logits": previous}
    _, scores, carried = layer(query, value, **call)
    allowed = np.broadcast_to(True if mask is None else mask, logits.shape)
    check_close(array(carried)[allowed], data[f"{name}.logit"][allowed], DOUBLE)
    check_close(scores, data[f"{name}.att"], DOUBLE)


@pytest.mark.parametrize("alpha, beta", [(0.5, 1), (0.1, 0.1), (0.5, 0.1), (0, 0.3), (0.4, 0)])
def test_encoder(golden, alpha, beta):
    data = golden("ea_decoder_conv.npz")
    weights = {"kernel": data["enc.kernel_hwio"], "bias": data["enc.bias"]} if beta else {}
    logits, previous = (data[f"enc.{name}_logit"].astype("float64") for name in ("cur", "prev"))
    check_map(data, f"enc.alpha{alpha}.beta{beta}", logits, previous, alpha=alpha, beta=beta, **weights)


@pytest.mark.parametrize("alpha, beta", [(0, 0.1), (0.5, 0.1), (0, 1)])
def test_decoder(golden, alpha, beta):
    data = golden("ea_decoder_conv.npz")
    weights = {"kernel": data["dec.kernel_hwio"], "bias": data["dec.bias"]}
    logits, previous = (data[f"dec.{name}_logit"].astype("float64") for name in ("cur", "prev"))
    mask = data["dec.causal_mask"].astype(bool)
    arguments = {"role": "decoder", "alpha": alpha, "beta": beta}
    check_map(data, f"dec.alpha{alpha}.beta{beta}", logits, previous, mask, **arguments, **weights)


@pytest.mark.parametrize("name, kernel_size", [("dec", 3), ("dec5", 5)])
def test_convolution_of_the_decoder(golden, name, kernel_size):
    data = golden("ea_decoder_conv.npz")
    kernel, bias = data[f"{name}.kernel_hwio"], data["dec.bias"]
    arguments = {"role": "decoder", "alpha": 0.0, "beta": 1.0, "kernel_size": kernel_size}
    layer, query, value = of_logits(data["dec.cur_logit"], kernel, bias, **arguments)
    _, carried = layer(query, value, return_logits=True, use_causal_mask=True)
    causal = np.broadcast_to(np.tri(6, dtype=bool), carried.shape)
    check_close(array(carried)[causal], data[f"{name}.conv_relu_shifted"][causal], DOUBLE)


@pytest.mark.parametrize("beta", [0.1, 1])
def test_cross(golden, beta):
    data = golden("ea_decoder_conv.npz")
    weights = {"kernel": data["encdec.kernel_hwio"], "bias": data["encdec.bias"]}
    arguments = {"role": "cross", "alpha": 0.0, "beta": beta}
    logits = data["encdec.cur_logit_rows_target"].astype("float64")
    check_map(data, f"encdec.down1_target_axis.beta{beta}", logits, **arguments, **weights)


# ------------------------------------------------------------------------------------------- the authors' image code


IMAGE = {"default": (0.5, 1.0), "mix": (0.3, 0.6), "noconv": (0.3, 0.0), "noskip": (0.0, 1.0), "raw": (0.0, 0.0)}


def image_layer(data, call, x, previous, alpha, beta, relative):
    """Its attention alone; channels are projected to key, query and value, in that order."""
    sizes = {"num_heads": 3, "key_dim": 6, "value_dim": 7, "output_shape": 21}
    positions = RelativePositions2D(4, 5) if relative else None
    layer = EvolvingAttention(**sizes, alpha=alpha, beta=beta, relative_positions=positions)
    layer.build(x.shape, x.shape, x.shape, None if previous is None else previous.shape)
    given = {name: data[f"w.call{call}.{name}"] for name in ("kqv_kernel", "kqv_bias", "attout_kernel", "attout_bias")}
    weights = {"attention_output/kernel": given["attout_kernel"], "attention_output/bias": given["attout_bias"]}
    for kind in ("kernel", "bias"):
        parts = np.split(given[f"kqv_{kind}"], [18, 36], axis=-1)
        weights |= {f"{name}/{kind}": part for name, part in zip(("key", "query", "value"), parts, strict=True)}
    if relative:
        weights |= {f"{side}_embeddings": data[f"w.call{call}.r_{side}"] for side in ("height", "width")}
    if beta and (previous is not None or alpha == 0):
        weights |= {f"map_{kind}": data[f"w.call{call}.attconv_{kind}"] for kind in ("kernel", "bias")}
    return set_by_name(layer, weights)


@pytest.mark.parametrize("variant", [*IMAGE, "norel"])
def test_attention_of_image_blocks(golden, variant):
    """Three calls, each given the golden output of the one before."""
    data = golden("ea_aa_conv_s1_ds0.npz")
    alpha, beta = IMAGE.get(variant, IMAGE["default"])
    x, carried = data["x"], None
    for call in range(3):
        if call == 0 and f"{variant}.out0" not in data:  # the first block is not stored, or is not ours
            x, carried = data["default.out0"], data["default.prev_atts0"]
            continue
        flat = x.reshape(2, 20, -1)
        layer = image_layer(data, call, flat, carried, alpha, beta, variant != "norel")
        output, carried = layer(flat, flat, previous_logits=carried, return_logits=True)
        if f"{variant}.out{call}" not in data:
            break
        x = data[f"{variant}.out{call}"]
        check_close(output, x.reshape(2, 20, 40)[..., 19:], 1e-5)
        if f"{variant}.prev_atts{call}" in data:
            check_close(carried, data[f"{variant}.prev_atts{call}"], 1e-5)


# ------------------------------------------------------------------------------------- the authors' time series code


def time_series(data, variant, alpha, beta, dim, previous):
    """Output before its scramble, and map, of the attention; channels are query, key and value."""
    x = data["x"].transpose(0, 2, 1)
    relative = RelativePositions(8) if f"{variant}.key_rel" in data else None
    value_dim = data[f"{variant}.w.qkv_conv.bias"].size // 3 - 2 * dim
    layer = EvolvingAttention(
        3, dim, value_dim, output_shape=3 * value_dim, alpha=alpha, beta=beta, relative_positions=relative
    )
    layer.build(x.shape, x.shape, x.shape, None if previous is None else previous.shape)
    weights = {"attention_output/kernel": np.eye(3 * value_dim), "attention_output/bias": np.zeros(3 * value_dim)}
    for kind, value in (("kernel", data[f"{variant}.w.qkv_conv.weight"][..., 0].T), ("bias", None)):
        value = data[f"{variant}.w.qkv_conv.bias"] if value is None else value
        parts = np.split(value, [3 * dim, 6 * dim], axis=-1)
        weights |= {f"{name}/{kind}": part for name, part in zip(("query", "key", "value"), parts, strict=True)}
    if relative:
        weights["embeddings"] = data[f"{variant}.key_rel"]
    if previous is not None:
        weights["map_kernel"] = data[f"{variant}.w.att_conv.0.weight"].transpose(2, 3, 1, 0)
        weights["map_bias"] = data[f"{variant}.w.att_conv.0.bias"]
    output, carried = set_by_name(layer, weights)(x, x, previous_logits=previous, return_logits=True)
    return array(output), array(carried)


def scrambled(output):
    """(B, L, heads * width) as that code's channels: the axes of (B, heads, L, width) are renamed, not moved."""
    batch, length, channels = output.shape
    return output.reshape(batch, length, 3, -1).transpose(0, 2, 1, 3).reshape(batch, channels, length)


def test_time_series_without_a_convolution(golden):
    data = golden("ea_dc_augconv1d.npz")
    output, carried = time_series(data, "plain", 0.5, 1.0, 5, None)
    check_close(carried, data["plain.logits"], 1e-5)
    check_close(scrambled(output), data["plain.out"][:, 18:], 1e-5)


def test_time_series_with_the_convolution_alone(golden):
    """Where its LeakyReLU is not negative; ours is 0 elsewhere."""
    data = golden("ea_dc_augconv1d.npz")
    _, carried = time_series(data, "evolve", 0.5, 1.0, 5, data["prev_att"])
    assert 0.2 < (carried > 0).mean() < 0.8
    check_close(carried, np.maximum(data["evolve.logits"], 0), 1e-5)


@pytest.mark.parametrize("variant, dim", [("mix", 5), ("norel", 5), ("fullatt", 10)])
def test_time_series_mixed(golden, variant, dim):
    data = golden("ea_dc_augconv1d.npz")
    _, convolved = time_series(data, variant, 0.3, 1.0, dim, data["prev_att"])
    _, carried = time_series(data, variant, 0.3, 0.6, dim, data["prev_att"])
    positive = convolved > 0
    assert 0.2 < positive.mean() < 0.8
    check_close(carried[positive], data[f"{variant}.logits"][positive], 1e-5)

"""Attention-augmented convolution against the code of Wang et al. 2021 and against a PyTorch one.

The former names alpha and beta the other way round; its single projection is split as key, query, value. The latter
scrambles the heads' outputs, which only this file does after it.
"""

import numpy as np
import pytest

from keras_headattn.layers import AugmentedConv2D, EvolvingAttention, MultiHeadAttention
from tests.layers.harness import array

FLOAT32, FLOAT64 = 1e-5, 1e-12
HEADS, KEY_DIM, VALUE_DIM, FILTERS = 3, 6, 7, 40
# Of the paper: share of the previous map, share of the convolution.
ALPHA_BETA = {"default": (0.5, 1.0), "mix": (0.3, 0.6), "noconv": (0.3, 0.0), "noskip": (0.0, 1.0), "raw": (0.0, 0.0)}
FILES = [(1, 0), (1, 1), (2, 0), (2, 1)]


def close(ours, theirs, tolerance):
    theirs = np.asarray(theirs)
    np.testing.assert_allclose(array(ours), theirs, rtol=0, atol=tolerance * max(1, np.abs(theirs).max()))


def assign(layer, weights):
    """Sets all weights by the end of their path."""
    by_path = {weight.path.split("/", 1)[1]: weight for weight in layer.weights}
    assert set(by_path) == set(weights)
    for path, value in weights.items():
        by_path[path].assign(value.reshape(by_path[path].shape))


def split(kqv, order, heads, key_dim, value_dim):
    """A joint projection `(..., 2 * dk + dv)` as `query`, `key` and `value`, each `(..., h, d)`."""
    sizes = [heads * (value_dim if name == "value" else key_dim) for name in order]
    parts = np.split(kqv, np.cumsum(sizes)[:-1], axis=-1)
    return {name: part.reshape(*part.shape[:-1], heads, -1) for name, part in zip(order, parts, strict=True)}


def evolving_weights(data, call, relative, convolves):
    w = {name.split(".")[-1]: data[name] for name in data.files if name.startswith(f"w.call{call}.")}
    weights = {
        "convolution/kernel": w["conv3x3_kernel"],
        "attention/attention_output/kernel": w["attout_kernel"],
        "attention/attention_output/bias": w["attout_bias"],
    }
    for kind in ("kernel", "bias"):
        parts = split(w[f"kqv_{kind}"], ("key", "query", "value"), HEADS, KEY_DIM, VALUE_DIM)
        weights |= {f"attention/{name}/{kind}": value for name, value in parts.items()}
    if relative:
        weights |= {f"attention/relative_positions/{n}_embeddings": w[f"r_{n}"] for n in ("height", "width")}
    if convolves:
        weights |= {f"attention/map_{kind}": w[f"attconv_{kind}"] for kind in ("kernel", "bias")}
    return weights


def check_chain(data, variant, strides, downsample, suffix="", dtype="float32", tolerance=FLOAT32):
    """Each call is on the output and the map of the one before.

    Without previous maps (`noskip`) every call of ours convolves, but their first does not: it is left out.
    """
    alpha, beta = ALPHA_BETA.get(variant, ALPHA_BETA["default"])
    relative, first = variant != "norel", int(variant == "noskip")
    attention = EvolvingAttention(HEADS, KEY_DIM, VALUE_DIM, alpha=alpha, beta=beta)
    x, carried = data["default.out0" if first else "x"].astype(dtype), None
    last = max(call for call in range(3) if f"{variant}.out{call}{suffix}" in data.files)
    for call in range(first, last + 1):
        layer = AugmentedConv2D(
            FILTERS,
            3,
            attention,
            strides=strides if call == 0 else 1,
            downsample=bool(downsample),
            upsampling="legacy",
            relative_positions=relative,
            dtype=dtype,
        )
        layer.build(x.shape, None if carried is None else carried.shape)
        assign(layer, evolving_weights(data, call, relative, beta > 0 and call > 0))
        x, carried = layer(x, previous_logits=carried, return_logits=True)
        for name, value in (("out", x), ("prev_atts", carried)):
            if f"{variant}.{name}{call}{suffix}" in data.files:
                close(value, data[f"{variant}.{name}{call}{suffix}"], tolerance)


@pytest.mark.parametrize("variant", [*ALPHA_BETA, "norel"])
@pytest.mark.parametrize("strides, downsample", FILES)
def test_evolving(golden, strides, downsample, variant):
    check_chain(golden(f"ea_aa_conv_s{strides}_ds{downsample}.npz"), variant, strides, downsample)


@pytest.mark.parametrize("variant", ["default", "mix"])
@pytest.mark.parametrize("strides, downsample", FILES)
def test_evolving_float64(golden, strides, downsample, variant):
    data = golden(f"ea_aa_conv_s{strides}_ds{downsample}.npz")
    check_chain(data, variant, strides, downsample, "_f64", "float64", FLOAT64)


def torch_layer(data, patches, relative, dtype):
    """A layer over patches of pixels: their projection to queries, keys and values is a convolution of them."""
    size = data["w.qkv_conv.weight"].shape[-1]
    conv = data["w.conv_out.weight"]
    layer = AugmentedConv2D(
        22, 3 if size == 1 else 1, MultiHeadAttention(3, 5, 4), relative_positions=relative, dtype=dtype
    )
    layer.build(patches.shape)
    kernel = data["w.qkv_conv.weight"].transpose(2, 3, 1, 0).reshape(patches.shape[-1], -1)
    weights = {"convolution/kernel": conv.transpose(2, 3, 1, 0)}
    for kind, joint in (("kernel", kernel), ("bias", data["w.qkv_conv.bias"])):
        parts = split(joint, ("query", "key", "value"), 3, 5, 4)
        weights |= {f"attention/{name}/{kind}": value for name, value in parts.items()}
    if relative:
        for side in ("height", "width"):
            weights[f"attention/relative_positions/{side}_embeddings"] = data[f"w.key_rel_{side[0]}"]
    weights["attention/attention_output/kernel"] = data["w.attn_out.weight"][:, :, 0, 0].T
    weights["attention/attention_output/bias"] = data["w.attn_out.bias"]
    assign(layer, weights)
    return layer


def torch_patches(x, size, strides):
    """`(B, h, w, size * size * C)`: the pixels that a convolution sees at each place."""
    if size == 1:
        return x
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1] // strides, x.shape[2] // strides
    rows = [
        padded[:, i : i + strides * height : strides, j : j + strides * width : strides]
        for i in range(size)
        for j in range(size)
    ]
    return np.concatenate(rows, axis=-1)


def scrambled(layer, patches, data):
    """Channels and pixels mixed up before the output projection, as the PyTorch code does."""
    kernel, bias = layer.attention.output_dense.kernel, layer.attention.output_dense.bias
    kernel.assign(np.eye(12).reshape(3, 4, 12))
    bias.assign(np.zeros(12))
    heads = array(layer(patches))[..., 10:]
    batch, height, width, _ = heads.shape
    heads = heads.reshape(batch, height * width, 3, 4).transpose(0, 2, 1, 3)
    mixed = heads.reshape(batch, 12, height, width)
    kernel = data["w.attn_out.weight"][:, :, 0, 0]
    return np.einsum("oc,bchw->bohw", kernel, mixed) + data["w.attn_out.bias"][:, None, None]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name, strides, relative",
    [("s1", 1, True), ("s1", 1, False), ("s2", 2, True), ("s2", 2, False), ("in_paper", 1, True)],
)
def test_pytorch(golden, name, strides, dtype, relative):
    data = golden(f"aa_conv_torch_{name}.npz")
    prefix = "" if relative else "norel."
    suffix, tolerance = ("_f64", FLOAT64) if dtype == "float64" else ("", FLOAT32)
    patches = torch_patches(data["x"].transpose(0, 2, 3, 1).astype(dtype), data["w.qkv_conv.weight"].shape[-1], strides)
    layer = torch_layer(data, patches, relative, dtype)
    result = array(layer(patches)).transpose(0, 3, 1, 2)
    convolved = result[:, :10] + data["w.conv_out.bias"][:, None, None]
    if relative and dtype == "float64":
        close(np.concatenate([convolved, result[:, 10:]], axis=1), data["np_unscrambled.out_f64"], tolerance)
    theirs = np.concatenate([convolved, scrambled(layer, patches, data)], axis=1)
    close(theirs, data[f"{prefix}out{suffix}"], tolerance)

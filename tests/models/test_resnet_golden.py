"""Bottleneck blocks against the code of Wang et al. 2021: outputs, maps and moving statistics."""

import keras
import numpy as np
import pytest

from keras_headattn.layers import EvolvingAttention
from keras_headattn.layers._template import Template
from keras_headattn.models._resnet.blocks import MOMENTUM, Convolution, bottleneck_block
from tests.layers.test_augmented_golden import assign, close, split

# Outputs after six batch normalisations in float32, up to 19; their own code is 1.2e-5 from float64.
TOLERANCE = 2e-6
# Their numbers of convolutions and normalisations, in order of creation.
BLOCKS = {
    "block0": (("0", "", ""), ("1", "_1", "_1"), ("2", None, "_2"), ("3", "_2", "_3")),
    "block1": (("1", "_3", "_4"), ("2", None, "_5"), ("3", "_4", "_6")),
}


@pytest.fixture
def model_and_data(golden):
    data = golden("ea_aa_block_ds0.npz")
    template = Template("attention", EvolvingAttention(3, 6, 2, alpha=0.5, beta=0.6))
    convolution = Convolution(24, template)
    inputs = keras.Input(data["x"].shape[1:])
    x, first_map = bottleneck_block(inputs, None, convolution, 2, True, "block0")
    y, second_map = bottleneck_block(x, first_map, convolution, 1, False, "block1")
    model = keras.Model(inputs, [x, y, first_map, second_map])
    for block, parts in BLOCKS.items():
        for part, conv, norm in parts:
            if conv is not None:
                model.get_layer(f"{block}_{part}_conv").set_weights([data[f"w.conv2d{conv}/kernel"]])
            names = ("gamma", "beta", "moving_mean", "moving_variance")
            weights = [data[f"w.batch_normalization{norm}/{name}"] for name in names]
            model.get_layer(f"{block}_{part}_bn").set_weights(weights)
        assign(
            model.get_layer(f"{block}_2_conv"), attention_weights(data, f"w.asconv_1_{block[-1]}_0", block == "block1")
        )
    return model, data


def attention_weights(data, scope, evolves):
    last = "conv2d_3" if evolves else "conv2d_2"
    weights = {
        "convolution/kernel": data[f"{scope}/conv2d/kernel"],
        "attention/relative_positions/height_embeddings": data[f"{scope}/r_height"],
        "attention/relative_positions/width_embeddings": data[f"{scope}/r_width"],
    }
    for kind in ("kernel", "bias"):
        parts = split(data[f"{scope}/conv2d_1/{kind}"], ("key", "query", "value"), 3, 6, 2)
        weights |= {f"attention/{name}/{kind}": value for name, value in parts.items()}
        weights[f"attention/attention_output/{kind}"] = data[f"{scope}/{last}/{kind}"]
        if evolves:
            weights[f"attention/map_{kind}"] = data[f"{scope}/conv2d_2/{kind}"]
    return weights


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_outputs_and_maps(model_and_data, mode):
    model, data = model_and_data
    results = model(data["x"], training=mode == "train")
    for name, result in zip(("block0", "block1", "prev_atts0", "prev_atts1"), results, strict=True):
        close(result, data[f"{mode}.{name}"], TOLERANCE)
        if name.startswith("block"):
            close(result, data[f"{mode}.{name}_npf64"], TOLERANCE)


def test_moving_statistics(model_and_data):
    """Theirs are of the unbiased variance, Keras's of the biased one: n - 1 in place of n pixels."""
    model, data = model_and_data
    before = {layer.name: layer.get_weights() for layer in model.layers if layer.name.endswith("_bn")}
    model(data["x"], training=True)
    for block, parts in BLOCKS.items():
        for part, _, norm in parts:
            layer = model.get_layer(f"{block}_{part}_bn")
            pixels = np.prod(layer.input.shape[1:3]) * len(data["x"])
            close(layer.moving_mean, data[f"train.after.batch_normalization{norm}/moving_mean"], TOLERANCE)
            kept = MOMENTUM * before[layer.name][3]
            unbiased = kept + (layer.moving_variance - kept) * pixels / (pixels - 1)
            close(unbiased, data[f"train.after.batch_normalization{norm}/moving_variance"], TOLERANCE)

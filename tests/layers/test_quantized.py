"""Quantized layers in files: each loads with its quantization, and gives the outputs it gave."""

import json
import zipfile

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.utils import flatten_layers
from tests.layers.harness import CASES, HEADS, KEY_DIM, array, self_input

pytestmark = pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")  # inputs have none
BY_NAME = {name: next(case for case in CASES if case.layer is cls) for name, cls in layers.ATTENTIONS.items()}


def quantized_layers(model):
    return {layer.name: layer.quantization_mode for layer in flatten_layers(model) if layer.quantization_mode}


def of(layer):
    x = keras.Input((None, self_input().shape[-1]))
    return keras.Model(x, layer(x, x))


def build_configuration(path):
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("config.json"))["config"]["layers"][1]["build_config"]


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "int8") for name in layers.ATTENTIONS), ("evolving", "int4"), ("evolving", "float8")]
)
def test_every_attention(name, mode, tmp_path):
    model, x = of(BY_NAME[name].make()), self_input()
    model.quantize(mode)
    before = array(model(x))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert quantized_layers(loaded) == quantized_layers(model) and mode in quantized_layers(model).values()
    np.testing.assert_array_equal(array(loaded(x)), before)


def test_a_loaded_one_is_saved_again(tmp_path):
    model, x = of(layers.MultiHeadAttention(HEADS, KEY_DIM)), self_input()
    model.quantize("int8")
    before = array(model(x))
    for path in (tmp_path / "first.keras", tmp_path / "second.keras"):
        model.save(path)
        model = keras.saving.load_model(path)
    np.testing.assert_array_equal(array(model(x)), before)


def test_the_settings_of_a_quantization_are_kept(tmp_path):
    model = of(layers.MultiHeadAttention(HEADS, KEY_DIM))
    model.quantize(config=keras.quantizers.Int4QuantizationConfig(block_size=4), filters="value|output")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert quantized_layers(loaded) == {"value": "int4", "attention_output": "int4"}
    assert loaded.layers[1].value_dense.quantization_config.block_size == 4


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_other_precisions(policy, tmp_path):
    model, x = of(layers.MultiHeadAttention(HEADS, KEY_DIM, dtype=policy)), self_input()
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(keras.saving.load_model(tmp_path / "model.keras")(x)), array(model(x)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.EncoderBlock(layers.MultiHeadAttention(HEADS, KEY_DIM), intermediate_dim=16),
        lambda: layers.FeedForward(16, gated=True),
        lambda: layers.AugmentedConv1D(8, 3, layers.MultiHeadAttention(2, 2)),
    ],
)
def test_layers_around_attention(make, tmp_path):
    inputs = keras.Input((7, 12))
    model, x = keras.Model(inputs, make()(inputs)), self_input(length=7)
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert quantized_layers(loaded)
    np.testing.assert_array_equal(array(loaded(x)), array(model(x)))


def test_files_of_float_models_are_as_before(tmp_path):
    of(layers.MultiHeadAttention(HEADS, KEY_DIM)).save(tmp_path / "model.keras")
    assert set(build_configuration(tmp_path / "model.keras")) == {"shapes_dict"}

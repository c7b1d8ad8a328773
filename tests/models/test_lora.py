"""LoRA of whole models: what is trained, files, optimizers, and formats that have no LoRA."""

import functools

import keras
import numpy as np
import pytest

from keras_headattn.interop import copy_attention, to_hugging_face
from keras_headattn.layers import MultiHeadAttention, enable_lora, merge_lora
from keras_headattn.models import T5, CausalLM, EncoderClassifier
from keras_headattn.optimizers import AdamWeightDecay, Repulsive, layerwise_rates
from tests.layers.harness import array, randomize
from tests.models.encoders import make as make_encoder
from tests.models.small import make, sentences
from tests.refusals import refused

IDS = np.array([[3, 4, 5, 0], [6, 7, 8, 9]], "int32")


def classifier():
    model = EncoderClassifier(make_encoder(randomly=False, dropout=0.0, attention_dropout=0.0), 3, dropout=0.0)
    model.build()
    return randomize(model)


def t5():
    model = T5(13, 12, 16, num_layers=1, num_heads=3, key_dim=4)
    model.build()
    return randomize(model)


def causal_lm():
    model = CausalLM(13, 1, 12, 16, num_heads=3, tie_output=False)
    model.build()
    return randomize(model)


MODELS = {
    "Bert": (make_encoder, IDS, lambda model: model, 16),
    "EncoderClassifier": (classifier, IDS, lambda model: model.encoder, 18),
    "Transformer": (make, sentences(), lambda model: model, 24),
    "CausalLM": (causal_lm, IDS, lambda model: model, 8),
    "T5": (t5, sentences(), lambda model: model, 26),  # with the tables of positions of both sides
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model(name, tmp_path):
    build, inputs, part, trained = MODELS[name]
    model = build()
    outputs = functools.partial(keras.tree.map_structure, array)
    before, number = outputs(model(inputs)), len(model.weights)
    enable_lora(part(model), 2, alpha=4)
    keras.tree.map_structure(np.testing.assert_array_equal, outputs(model(inputs)), before)
    assert len(model.trainable_weights) == trained
    for weight in model.trainable_weights:
        if "lora" in weight.name:
            weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    adapted = outputs(model(inputs))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    merge_lora(model)
    assert len(model.weights) == number
    loaded, plain = keras.saving.load_model(tmp_path / "model.keras"), build()
    plain.load_weights(tmp_path / "model.weights.h5")
    for each in (model, loaded, plain):
        keras.tree.map_structure(np.testing.assert_array_equal, outputs(each(inputs)), adapted)


def test_rates_of_layers():
    """With gradients of one all first steps are equal but for the rates, of the layers' depths."""
    model = classifier()
    enable_lora(model.encoder, 2)
    optimizer = AdamWeightDecay(0.1, weight_decay=0.0, rates=layerwise_rates(2, 0.5))
    before = {weight.path: array(weight) for weight in model.weights}
    optimizer.build(model.trainable_weights)
    optimizer.apply([keras.ops.ones(weight.shape) for weight in model.trainable_weights])
    steps = {weight.path: np.abs(array(weight) - before[weight.path]).max() for weight in model.weights}
    head = steps[model.output_projection.bias.path]
    for path, step in steps.items():
        depth = next((depth for depth in (1, 2) if f"block_{2 - depth}/" in path), None)
        expected = head if "output_projection" in path else 0 if "lora" not in path else head * 0.5 ** (depth + 1)
        assert step == pytest.approx(expected, rel=1e-4), path


def test_particles_need_whole_kernels():
    model = classifier()
    enable_lora(model.encoder, 2)
    optimizer = Repulsive(keras.optimizers.Adam(), verbose=False)
    with refused("which LoRA freezes", "projections="):
        optimizer.build(model.trainable_weights)


def test_other_formats_take_merged_weights(tmp_path):
    model = classifier()
    enable_lora(model.encoder, 2)
    with refused("merge_lora", "encoder"):
        to_hugging_face(model, tmp_path / "new")
    layer = MultiHeadAttention(3, 4)
    stock = keras.layers.MultiHeadAttention(3, 4)
    for each in (layer, stock):
        each.build((2, 5, 12), (2, 5, 12))
    enable_lora(layer, 2)
    with refused("`merge_lora`", "'multi_head"):
        copy_attention(layer, stock)

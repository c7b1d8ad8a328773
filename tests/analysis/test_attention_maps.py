"""Maps read off a model as it runs: those of the layers, and nothing of the model is changed."""

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.analysis import attention_maps
from keras_headattn.layers import EvolvingAttention, InteractingHeadAttention, MultiHeadAttention
from keras_headattn.models import ResNet, Transformer

HEADS = 2
ROLES = {"attention": "encoder", "decoder_attention": "decoder", "cross_attention": "cross"}


def sentences(length, seed=0):
    return np.random.default_rng(seed).integers(1, 9, (3, length)).astype("int32")


def transformer(make):
    templates = {name: make(role) for name, role in ROLES.items()}
    model = Transformer(9, num_layers=2, hidden_dim=8, intermediate_dim=8, **templates)
    model.build()
    return model


def softmax(logits):
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def test_they_are_what_the_model_returns():
    model = transformer(lambda role: MultiHeadAttention(HEADS, 4))
    inputs = {"source": sentences(5), "target": sentences(4, 1)}
    logits, expected = model(inputs, return_intermediates=True)
    recorded = attention_maps(model, inputs)
    paths = [f"encoder_{i}/attention" for i in range(2)]
    paths += [f"decoder_{i}/{kind}" for i in range(2) for kind in ("attention", "cross_attention")]
    assert [path.split("/", 1)[1] for path in recorded] == paths
    assert [*expected] == paths
    for path in ("encoder_1/attention", "decoder_1/cross_attention"):
        maps = recorded[f"{model.name}/{path}"]
        np.testing.assert_array_equal(maps.weights, expected[path]["weights"])
        assert maps.logits is None and maps.convolution is None
    np.testing.assert_allclose(model(inputs), logits, atol=1e-5)  # the fused path again


def test_parts_of_evolving_attention():
    def make(role):
        return EvolvingAttention(HEADS, 4, role=role, alpha=0.4 if role == "encoder" else 0, beta=0.3)

    model = transformer(make)
    recorded = attention_maps(model, {"source": sentences(5), "target": sentences(4, 1)})
    first, second = (recorded[f"{model.name}/encoder_{i}/attention"] for i in range(2))
    assert first.convolution is None and first.self_attention is None  # the first of the chain
    np.testing.assert_allclose(softmax(second.logits), second.weights, atol=1e-6)
    np.testing.assert_allclose(0.3 * second.convolution + 0.7 * second.self_attention, second.logits, atol=1e-6)
    assert second.convolution.min() > -1e-6 and second.convolution.max() > 0  # a ReLU's
    cross = recorded[f"{model.name}/decoder_0/cross_attention"]
    assert cross.convolution.shape == (3, HEADS, 4, 5)
    masked = recorded[f"{model.name}/decoder_0/attention"]
    assert masked.convolution.min() > -1e-6 and not masked.self_attention[:, :, 0, 1:].any()


def test_a_functional_model_with_images():
    attention = EvolvingAttention(HEADS, 20, alpha=0.5, beta=1.0)
    model = ResNet([1, 1, 1], attention=attention, filters=20, small_images=True, input_shape=(8, 8, 3), classes=4)
    recorded = attention_maps(model, np.random.default_rng(0).random((2, 8, 8, 3)))
    sizes = [maps.weights.shape for maps in recorded.values()]
    assert all(shape[:2] == (2, HEADS) and shape[2] == shape[3] for shape in sizes) and len(sizes) == 6
    assert any(maps.convolution is not None for maps in recorded.values())


@pytest.mark.parametrize("kind", [MultiHeadAttention, keras.layers.MultiHeadAttention])
def test_layers_of_the_same_path_are_all_there(kind):
    def tower(heads):
        x = keras.Input((5, 8))
        return keras.Model(x, kind(heads, 4, name="attention")(x, x))

    x, towers = keras.Input((5, 8)), [tower(2), tower(3)]
    model, sample = keras.Model(x, [part(x) for part in towers]), np.random.default_rng(0).random((1, 5, 8))
    maps = attention_maps(model, sample)
    assert {path: part.weights.shape[1] for path, part in maps.items()} == {"attention": 2, "attention_1": 3}
    for part, path in zip(towers, ("attention", "attention_1"), strict=True):
        np.testing.assert_array_equal(attention_maps(part, sample)["attention"].weights, maps[path].weights)
    with layers.capture_intermediates() as intermediates:
        model(sample)
    assert intermediates.keys() == (maps.keys() if kind is MultiHeadAttention else set())


def test_pairs_of_heads():
    x = keras.Input((5, 8))
    layer = InteractingHeadAttention(HEADS, 4, interaction="pairwise", name="pairs")
    maps = attention_maps(keras.Model(x, layer(x, x)), np.ones((1, 5, 8)))
    assert maps["pairs"].weights.shape == (1, HEADS, HEADS, 5, 5)

"""Blocks and the whole model against slow float64 transcriptions of Vaswani et al. 2017."""

import math

import numpy as np
import pytest

from keras_headattn.layers import DecoderBlock, EncoderBlock
from tests.models.small import CASES, WIDTH, array, check_close, make, randomize, sentences

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2))),
    "swish": lambda x: x / (1 + np.exp(-x)),
}
each_norm = pytest.mark.parametrize("normalization", ["post", "pre"])
each_activation = pytest.mark.parametrize("activation", ACTIVATIONS)


class Weights:
    """Float64 weights by the end of their path: `weights["feed_forward/inner", x]` is a dense layer."""

    def __init__(self, layer):
        # The first part of the path is the layer itself.
        self.arrays = {v.path.split("/", 1)[1]: array(v).astype("float64") for v in layer.weights}

    def __getitem__(self, name):
        return self.arrays[name]

    def within(self, name):
        part = object.__new__(Weights)
        part.arrays = {key[len(name) + 1 :]: x for key, x in self.arrays.items() if key.startswith(name + "/")}
        return part


def layer_norm(weights, x):
    centred = x - x.mean()
    return weights["gamma"] * centred / np.sqrt((centred**2).mean() + 1e-6) + weights["beta"]


def attention(weights, queries, keys, allowed):
    """One query and one head at a time: (n, D), (m, D), (n, m) boolean -> (n, D)."""
    output = np.zeros_like(queries)
    heads, width = weights["query/bias"].shape
    for i, x in enumerate(queries):
        output[i] = weights["attention_output/bias"]
        if not allowed[i].any():
            continue
        seen = keys[allowed[i]]
        for h in range(heads):
            query, key, value = (
                y @ weights[f"{name}/kernel"][:, h] + weights[f"{name}/bias"][h]
                for name, y in (("query", x), ("key", seen), ("value", seen))
            )
            exponents = np.exp(key @ query / np.sqrt(width))
            output[i] += (exponents / exponents.sum()) @ value @ weights["attention_output/kernel"][h]
    return output


def feed_forward(weights, x, activation):
    hidden = ACTIVATIONS[activation](x @ weights["inner/kernel"] + weights["inner/bias"])
    return hidden @ weights["outer/kernel"] + weights["outer/bias"]


def block(weights, x, sublayers, normalization):
    """`LayerNorm(x + sublayer(x))`, or `x + sublayer(LayerNorm(x))`, for each named sublayer in turn."""
    for name, sublayer in sublayers.items():
        norm = weights.within(f"{name}_norm")
        if normalization == "pre":
            x = x + sublayer(weights.within(name), np.stack([layer_norm(norm, row) for row in x]))
        else:
            x = np.stack([layer_norm(norm, row) for row in x + sublayer(weights.within(name), x)])
    return x


def encoder_block(weights, x, real, activation, normalization):
    allowed = np.tile(real, (len(x), 1))
    sublayers = {
        "attention": lambda w, y: attention(w, y, y, allowed),
        "feed_forward": lambda w, y: feed_forward(w, y, activation),
    }
    return block(weights, x, sublayers, normalization)


def decoder_block(weights, x, memory, real, activation, normalization):
    sublayers = {
        "attention": lambda w, y: attention(w, y, y, np.tril(np.ones((len(x), len(x)), bool))),
        "cross_attention": lambda w, y: attention(w, y, memory, np.tile(real, (len(x), 1))),
        "feed_forward": lambda w, y: feed_forward(w, y, activation),
    }
    return block(weights, x, sublayers, normalization)


def transformer(model, source, target):
    """Logits of one sentence by the equations, for sinusoidal positions and a tied output layer."""
    weights = Weights(model)
    real, normalization, activation = source != 0, model.normalization, model.activation

    def embed(table, tokens):
        wavelengths = 10_000 ** (np.arange(WIDTH // 2) / (WIDTH // 2 - 1))
        angles = np.arange(len(tokens))[:, None] / wavelengths
        return table[tokens] * np.sqrt(WIDTH) + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def normalise(name, x):
        return np.stack([layer_norm(weights.within(name), row) for row in x]) if normalization == "pre" else x

    x = embed(weights["source_embedding/embeddings"], source)
    for i in range(model.num_layers):
        x = encoder_block(weights.within(f"encoder_{i}"), x, real, activation, normalization)
    memory = normalise("encoder_norm", x)
    table = weights["target_embedding/embeddings"]
    x = embed(table, target)
    for i in range(model.num_decoder_layers):
        x = decoder_block(weights.within(f"decoder_{i}"), x, memory, real, activation, normalization)
    return normalise("decoder_norm", x) @ table.T


def random_states(seed, length):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, length, WIDTH)).astype("float32"), rng.random((2, length)) > 0.3


@each_norm
@each_activation
def test_encoder_block(normalization, activation):
    x, real = random_states(0, 5)
    real[1] = False
    layer = EncoderBlock(CASES[0].make(), 10, activation=activation, normalization=normalization)
    layer.build(x.shape)
    weights = Weights(randomize(layer))
    expected = [encoder_block(weights, x[b].astype("float64"), real[b], activation, normalization) for b in range(2)]
    check_close(layer(x, real), np.stack(expected), 3e-6)


@each_norm
@each_activation
def test_decoder_block(normalization, activation):
    x, _ = random_states(0, 4)
    memory, real = random_states(1, 5)
    real[1] = False
    layer = DecoderBlock(CASES[0].make(), 10, activation=activation, normalization=normalization)
    layer.build(x.shape, memory.shape)
    weights = Weights(randomize(layer))
    expected = [
        decoder_block(weights, x[b].astype("float64"), memory[b], real[b], activation, normalization) for b in range(2)
    ]
    check_close(layer(x, memory, real), np.stack(expected), 3e-6)


def test_decoder_block_for_memory_of_another_width():
    x, memory = np.ones((1, 3, WIDTH), "float32"), np.ones((1, 4, 7), "float32")
    layer = DecoderBlock(CASES[0].make(), 10, cross_attention=CASES[3].make())
    layer.build(x.shape, memory.shape)
    assert tuple(layer(x, memory).shape) == x.shape
    assert layer.cross_attention.key_dense.kernel.shape[0] == 7


@each_norm
@each_activation
def test_whole_model(normalization, activation):
    model, inputs = make(num_layers=2, normalization=normalization, activation=activation), sentences()
    expected = [transformer(model, inputs["source"][b], inputs["target"][b]) for b in range(2)]
    check_close(model(inputs), np.stack(expected), 5e-6)

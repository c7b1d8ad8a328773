"""The benchmarks' Transformer from layers of Keras alone."""

import keras
from keras import layers, ops

from benchmarks.sizes import DROPOUT, FEED_FORWARD, HEADS, LABEL_SMOOTHING, LAYERS, VOCABULARY, WIDTH


@keras.saving.register_keras_serializable("benchmarks")
class AddPositions(layers.Layer):
    """Scales embeddings and adds sinusoidal positions."""

    def call(self, x):
        half = WIDTH // 2
        frequencies = 10_000.0 ** (-ops.arange(half, dtype="float32") / (half - 1))
        angles = ops.arange(x.shape[1], dtype="float32")[:, None] * frequencies
        return x * WIDTH**0.5 + ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def make_stock(length):
    """Makes a model from token ids `{"source", "target"}` to logits: post-norm, ReLU, tied embeddings."""
    inputs = {name: keras.Input((length,), dtype="int32", name=name) for name in ("source", "target")}
    embedding = layers.ReversibleEmbedding(VOCABULARY, WIDTH, embeddings_initializer="glorot_uniform")
    embed = lambda tokens: layers.Dropout(DROPOUT)(AddPositions()(embedding(tokens)))  # noqa: E731
    mask = ops.not_equal(inputs["source"], 0)[:, None, :]
    memory = embed(inputs["source"])
    for _ in range(LAYERS):
        memory = _add(memory, _attention()(memory, memory, attention_mask=mask))
        memory = _feed_forward(memory)
    x = embed(inputs["target"])
    for _ in range(LAYERS):
        x = _add(x, _attention()(x, x, use_causal_mask=True))
        x = _add(x, _attention()(x, memory, attention_mask=mask))
        x = _feed_forward(x)
    return keras.Model(inputs, embedding(x, reverse=True))


def smoothed_crossentropy(labels, logits):
    """Computes the loss from one-hot labels, as Keras smooths no others."""
    return keras.losses.categorical_crossentropy(
        ops.one_hot(labels, VOCABULARY), logits, from_logits=True, label_smoothing=LABEL_SMOOTHING
    )


def _attention():
    return layers.MultiHeadAttention(HEADS, WIDTH // HEADS)


def _add(x, y):
    return layers.LayerNormalization(epsilon=1e-6)(layers.add([x, layers.Dropout(DROPOUT)(y)]))


def _feed_forward(x):
    return _add(x, layers.Dense(WIDTH)(layers.Dense(FEED_FORWARD, "relu")(x)))

"""Attention-augmented convolution: its parts, its shapes, and what it refuses. Parity: test_augmented_golden.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.layers import AugmentedConv2D, EvolvingAttention, MultiHeadAttention, augmented_widths
from keras_headattn.ops import resize_bilinear
from tests.layers.harness import array, check_close, randomize

WIDTH = 7
EVOLVING = {"num_heads": 3, "key_dim": 4, "value_dim": 2, "alpha": 0.4, "beta": 0.7}


def images(height=7, width=6, batch=2, dtype="float32"):
    return np.random.default_rng(0).normal(size=(batch, height, width, WIDTH)).astype(dtype)


def made(attention, previous_logits_shape=None, shape=(None, 7, 6, WIDTH), **arguments):
    """A built layer of 20 filters more than those of attention, with random weights."""
    filters = 20 + attention.num_heads * attention.value_dim
    layer = AugmentedConv2D(filters, 3, attention, **arguments)
    layer.build(shape, previous_logits_shape)
    return randomize(layer)


TEMPLATES = [
    layers.MultiHeadAttention(3, 4, 2, use_gate=True),
    layers.TalkingHeadsAttention(3, 4, 2, key_heads=2),
    layers.InteractingHeadAttention(3, 4, 2),
    layers.InteractingHeadAttention(3, 4, 2, interaction="pairwise"),
    layers.LuongAttention(key_dim=4, value_dim=2, score_mode="general"),
    layers.RealFormerAttention(3, 4, 2),
    layers.SynthesizerAttention(3, 4, value_dim=2, max_length=42),
    layers.EvolvingAttention(3, 4, 2, beta=1.0, convolve_first=True),
]


@pytest.mark.parametrize("strides, downsample", [(1, False), (2, False), (1, True), (2, True)])
@pytest.mark.parametrize("attention", TEMPLATES, ids=lambda attention: type(attention).__name__)
def test_is_a_convolution_beside_attention(attention, strides, downsample):
    """Any attention layer; odd height, even width."""
    x = images()
    layer = made(attention, strides=strides, downsample=downsample)
    pooled = x
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    convolved = keras.ops.conv(padded, layer.convolution.kernel, strides, padding="valid")
    for stride in [strides] * (strides > 1) + [2] * downsample:
        pooled = keras.ops.average_pool(pooled, 3, stride, padding="same")
    pixels = np.reshape(pooled, (2, -1, WIDTH))
    attended = np.reshape(layer.attention(pixels, pixels), (*pooled.shape[:3], -1))
    if downsample:
        attended = resize_bilinear(attended, *convolved.shape[1:3])
    check_close(layer(x), np.concatenate([convolved, attended], axis=-1))


def test_average_leaves_out_the_border():
    """The mean at a corner is of the pixels that are there."""
    layer = made(MultiHeadAttention(1, 4, use_bias=False), strides=2)
    constant = np.ones((1, 7, 6, WIDTH), "float32")
    attended = array(layer(constant))[..., 20:]
    np.testing.assert_allclose(attended, np.broadcast_to(attended[:, :1, :1], attended.shape), atol=1e-5)
    assert np.abs(attended).max() > 0.01


@pytest.mark.parametrize("strides, downsample", [(1, False), (2, True)])
def test_map_is_carried_on(strides, downsample):
    first = made(EvolvingAttention(**EVOLVING), strides=strides, downsample=downsample)
    x = images()
    y, scores, carried = first(x, return_logits=True, return_attention_scores=True)
    assert tuple(carried.shape[1:]) == first.compute_logits_shape((None, 7, 6, WIDTH))[1:]
    second = made(EvolvingAttention(**EVOLVING), carried.shape, strides=strides, downsample=downsample)
    names = {weight.name for weight in second.weights} - {weight.name for weight in first.weights}
    assert names == {"map_kernel", "map_bias"}
    output, evolved = second(x, previous_logits=carried, return_logits=True)
    assert np.abs(array(evolved) - array(carried)).max() > 0.01
    other, _ = second(x, previous_logits=carried + 1, return_logits=True)
    assert np.abs(array(other) - array(output)).max() > 1e-4
    np.testing.assert_allclose(keras.ops.softmax(carried), scores, atol=1e-5)
    np.testing.assert_allclose(y, first(x), atol=1e-6)


def test_map_of_attention_that_has_none():
    layer, given = made(MultiHeadAttention(3, 4)), np.ones((2, 3, 9, 9), "float32")
    assert layer(images(), return_logits=True)[1] is None
    np.testing.assert_array_equal(layer(images(), previous_logits=given, return_logits=True)[1], given)
    assert layer.compute_logits_shape((2, 7, 6, WIDTH)) is None
    assert layer.compute_logits_shape((2, 7, 6, WIDTH), given.shape) == given.shape


def test_symbolic_shapes_and_unknown_batch():
    inputs = keras.Input((7, 6, WIDTH))
    layer = AugmentedConv2D(20, 3, EvolvingAttention(**EVOLVING), strides=2)
    outputs = layer(inputs, return_logits=True, return_attention_scores=True)
    assert [x.shape for x in outputs] == [(None, 4, 3, 20), (None, 3, 12, 12), (None, 3, 12, 12)]
    assert layer.compute_output_shape(inputs.shape) == outputs[0].shape
    model = keras.Model(inputs, outputs)
    for batch in (1, 3):
        assert [x.shape[0] for x in model(images(batch=batch))] == [batch] * 3


def test_relative_positions():
    layer = made(MultiHeadAttention(3, 4), strides=2, downsample=True)
    positions = layer.attention.relative_positions
    assert (positions.height, positions.width) == (2, 2)
    assert positions.height_embeddings.shape == (3, 4)
    assert made(MultiHeadAttention(3, 4), relative_positions=False).attention.relative_positions is None


def test_configuration():
    layer = AugmentedConv2D(
        20,
        3,
        EvolvingAttention(**EVOLVING),
        strides=2,
        downsample=True,
        upsampling="legacy",
        relative_positions=False,
        kernel_initializer="he_normal",
        kernel_regularizer="l2",
        embeddings_regularizer="l1",
        name="augmented",
    )
    copy = AugmentedConv2D.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert copy.template.make().alpha == 0.4
    assert isinstance(copy.kernel_regularizer, keras.regularizers.L2)
    layer(images())
    assert len(layer.losses) == 1


def test_relative_positions_are_regularized():
    plain, layer = (made(MultiHeadAttention(3, 4), embeddings_regularizer=own) for own in (None, "l2"))
    positions = layer.attention.relative_positions
    expected = [0.01 * np.square(weight).sum() for weight in positions.get_weights()]
    np.testing.assert_allclose([float(loss) for loss in layer.losses], expected, rtol=1e-6)
    assert len(expected) == 2 and plain.losses == []
    copy = type(positions).from_config(positions.get_config())
    copy.build((None, 3, None, 4))
    assert len(copy.losses) == 2


def test_attention_of_keras():
    """The stock layer becomes one of this library."""
    layer = made(keras.layers.MultiHeadAttention(3, 4, 2))
    assert type(layer.attention) is MultiHeadAttention and layer.attention_filters == 6


def test_gradients_and_xla():
    layer = made(EvolvingAttention(**EVOLVING), (2, 3, 12, 12), downsample=True)
    x, previous_logits = images(), np.random.default_rng(1).normal(size=(2, 3, 12, 12)).astype("float32")
    weights = layer.trainable_weights

    def loss_and_gradients(x, previous_logits):
        with tf.GradientTape() as tape:
            tape.watch(previous_logits)
            y, carried = layer(x, previous_logits=previous_logits, return_logits=True)
            loss = tf.reduce_sum(y**2) + tf.reduce_sum(carried**3)
        return loss, [
            tf.convert_to_tensor(g) for g in tape.gradient(loss, [previous_logits, *(w.value for w in weights)])
        ]

    inputs = tf.constant(x), tf.constant(previous_logits)
    loss, eager = loss_and_gradients(*inputs)
    compiled_loss, compiled = tf.function(loss_and_gradients, jit_compile=True)(*inputs)
    np.testing.assert_allclose(compiled_loss, loss, rtol=1e-4)
    for name, ours, theirs in zip(["map", *(w.path for w in weights)], compiled, eager, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max(), err_msg=name)
        assert np.abs(theirs).max() > 1e-4, name


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(policy):
    x = images()
    layer = made(EvolvingAttention(**EVOLVING), strides=2, downsample=True)
    half = made(EvolvingAttention(**EVOLVING), strides=2, downsample=True, dtype=policy)
    half.set_weights(layer.get_weights())
    assert {w.dtype for w in half.weights} == {"float32"}
    output = half(x)
    assert output.dtype == policy.removeprefix("mixed_")
    np.testing.assert_allclose(keras.ops.cast(output, "float32"), layer(x), rtol=0.1, atol=0.1)


def test_widths():
    """Bello et al. 2019: shares of the filters, multiples of the heads, and at least 20 key dimensions a head."""
    assert augmented_widths(512, 8) == {"key_dim": 20, "value_dim": 6}
    assert augmented_widths(2048, 8) == {"key_dim": 51, "value_dim": 26}
    assert augmented_widths(128, 8, 0.25, 0.125, min_key_dim=1) == {"key_dim": 4, "value_dim": 2}
    assert augmented_widths(16, 8, 0.25, 0.0) == {"key_dim": 20, "value_dim": 1}

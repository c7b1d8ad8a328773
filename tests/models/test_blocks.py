"""Blocks as layers by themselves: Keras masks, causality, positions of a cache."""

import keras
import numpy as np
import pytest

from keras_headattn.layers import (
    DecoderBlock,
    EncoderBlock,
    EvolvingAttention,
    FeedForward,
    MultiHeadAttention,
    RealFormerAttention,
)
from keras_headattn.positions import LearnedPositions, SinusoidalPositions
from tests.models.small import array, check_close, randomize

WIDTH = 8
TOKENS = np.array([[3, 1, 4, 1, 5], [2, 6, 0, 0, 0]])
REAL = TOKENS != 0
TOLERANCE = 5e-6


def block(cls, normalization="post", **arguments):
    layer = cls(MultiHeadAttention(2, 4), 10, normalization=normalization, **arguments)
    shape = (2, 5, WIDTH)
    layer.build(*[shape] * (1 if cls is EncoderBlock else 2))
    return randomize(layer)


def embedded(tokens=TOKENS):
    """With Keras's mask, and without."""
    layer = keras.layers.Embedding(7, WIDTH, mask_zero=True)
    x = layer(tokens)
    return x, keras.ops.convert_to_tensor(array(x))


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_encoder_honours_and_keeps_the_mask_of_keras(normalization):
    masked, plain = embedded()
    first, second = block(EncoderBlock, normalization), block(EncoderBlock, normalization)
    output = second(first(masked))
    np.testing.assert_array_equal(output._keras_mask, REAL)
    expected = second(first(plain, mask=REAL), mask=REAL)
    check_close(array(output)[REAL], array(expected)[REAL], TOLERANCE)


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_decoder_honours_and_keeps_the_masks_of_keras(normalization):
    target, plain_target = embedded(TOKENS[:, ::-1])  # padding first, which causality does not hide
    memory, plain_memory = embedded()
    layer = block(DecoderBlock, normalization)
    output = layer(target, memory)
    real = REAL[:, ::-1]
    np.testing.assert_array_equal(output._keras_mask, real)
    expected = array(layer(plain_target, plain_memory, memory_mask=REAL, attention_mask=real[:, None]))
    check_close(array(output)[real], expected[real], TOLERANCE)
    output = layer(plain_target, plain_memory, mask=real, memory_mask=REAL)
    check_close(array(output)[real], expected[real], TOLERANCE)


@pytest.mark.parametrize("cls, arguments", [(EncoderBlock, {}), (DecoderBlock, {"cross_attention": []})])
def test_time_distributed_passes_the_mask_on(cls, arguments):
    tokens = np.stack([TOKENS, TOKENS[:, ::-1]], axis=1)  # (B, texts, n)
    layer = cls(MultiHeadAttention(2, 4), intermediate_dim=8, **arguments)
    embedding = keras.layers.Embedding(7, WIDTH, mask_zero=True)
    output = array(keras.layers.TimeDistributed(layer)(embedding(tokens)))
    for text in range(2):
        real = tokens[:, text] > 0
        check_close(output[:, text][real], array(layer(embedding(tokens[:, text])))[real], TOLERANCE)


@pytest.mark.parametrize("cls, arguments", [(FeedForward, (4,)), (SinusoidalPositions, ()), (LearnedPositions, (5,))])
def test_other_parts_keep_the_mask_of_keras(cls, arguments):
    np.testing.assert_array_equal(cls(*arguments)(embedded()[0])._keras_mask, REAL)


def test_attention_mask_without_a_cache_leaves_the_future_hidden():
    x = np.random.default_rng(0).normal(size=(2, 5, WIDTH)).astype("float32")
    layer = block(DecoderBlock)
    expected = array(layer(x, x))
    check_close(layer(x, x, attention_mask=np.ones((2, 5, 5), bool)), expected, TOLERANCE)
    hidden = np.arange(5) != 1
    output = array(layer(x, x, attention_mask=hidden[None, None]))
    check_close(output[:, :1], expected[:, :1], TOLERANCE)
    assert np.abs(output - expected)[:, 1:].max() > 1e-3


def test_positions_default_to_the_rows_of_the_cache():
    """For the cross-attention, too, which has a window."""
    x = np.random.default_rng(0).normal(size=(2, 5, WIDTH)).astype("float32")
    layer = block(DecoderBlock, cross_attention=MultiHeadAttention(2, 4, sliding_window=2))
    expected = array(layer(x, x))
    cache = layer.init_cache(keras.ops.convert_to_tensor(x), 5)
    for index in range(5):
        output, state = layer(x[:, index : index + 1], cache=cache, index=index, return_state=True)
        cache = state["cache"]
        check_close(array(output)[:, 0], expected[:, index], TOLERANCE)


def test_decoder_block_in_a_functional_model():
    """Built by the shapes of what it is called with."""
    x, memory = keras.Input((5, 8)), keras.Input((7, 12))
    outputs = DecoderBlock(MultiHeadAttention(2, 4), intermediate_dim=16)(x, memory)
    assert tuple(outputs.shape) == (None, 5, 8)


def test_maps_go_from_block_to_block_in_a_functional_model():
    x = keras.Input((5, 8))
    first, second = (EncoderBlock(EvolvingAttention(2, 4), intermediate_dim=16) for _ in range(2))
    y, state = first(x, return_state=True)
    y, state = second(y, previous_logits=state["logits"], return_state=True)
    second_map = state["logits"]["attention"]
    assert tuple(second_map.shape) == (None, 2, 5, 5)
    assert first.attention.map_kernel is None and second.attention.map_kernel is not None
    inputs = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
    outputs = keras.Model(x, [y, second_map])(inputs)
    assert all(np.isfinite(output).all() for output in outputs)


def test_blocks_give_a_layer_its_role():
    """But for one whose template has a role of its own."""
    decoder = DecoderBlock(EvolvingAttention(2, 4), 10, cross_attention=EvolvingAttention(2, 4))
    decoder.build((None, 5, WIDTH))
    encoder = EncoderBlock(EvolvingAttention(2, 4, role="decoder"), 10)
    encoder.build((None, 5, WIDTH))
    roles = decoder.attention.role, decoder.cross_attention.role, encoder.attention.role
    assert roles == ("decoder", "cross", "decoder")


@pytest.mark.parametrize("cls", [EncoderBlock, DecoderBlock])
def test_the_feed_forward_layer_is_regularized(cls):
    """Its kernels and nothing else, also from the configuration; one that is given keeps what it has."""
    given = FeedForward(10, gated=True, kernel_regularizer=keras.regularizers.L1(0.3))
    for feed_forward, number, penalty in ((None, 2, lambda w: 0.01 * w**2), (given, 3, lambda w: 0.3 * np.abs(w))):
        width = 10 if feed_forward is None else None
        layer = cls(MultiHeadAttention(2, 4), width, feed_forward=feed_forward, kernel_regularizer="l2")
        for one in (layer, cls.from_config(layer.get_config())):
            one.build(*[(2, 5, WIDTH)] * (1 if cls is EncoderBlock else 2))
            kernels = [array(weight) for weight in one.feed_forward.weights if weight.name == "kernel"]
            expected = [penalty(kernel).sum() for kernel in kernels]
            np.testing.assert_allclose([float(loss) for loss in one.losses], expected, rtol=1e-6)
            assert len(expected) == number


def chain(attention, depths, passes=False):
    """A functional model of encoder blocks, which pass their scores on or do not."""
    inputs = keras.Input((5, WIDTH))
    x, scores = inputs, None
    for depth in depths:
        layer = EncoderBlock(attention, 10, depth=depth)
        if passes:
            x, state = layer(x, previous_logits=scores, return_state=True)
            scores = state["logits"]
        else:
            x = layer(x)
    return keras.Model(inputs, x)


@pytest.mark.parametrize("attention", [EvolvingAttention(2, 4), RealFormerAttention(2, 4)], ids=["evolving", "real"])
def test_scores_that_are_not_passed_on_are_a_warning(attention):
    for depths, count in (((0, 1, 2), 2), ((None,), 1), ((None, None), 2)):
        with pytest.warns(UserWarning, match="`previous_logits`") as found:
            model = chain(attention, depths)
        assert len(found) == count
        model(np.zeros((2, 5, WIDTH)))  # once per layer
    for depths in ((0, 1, 2), (0,), (None, None)):  # warnings are errors
        chain(attention, depths, passes=True)(np.zeros((2, 5, WIDTH)))
    chain(EvolvingAttention(2, 4, alpha=0.0), (0, 1))
    chain(MultiHeadAttention(2, 4), (None, 1))


def test_a_layer_of_a_decoder_that_gets_no_scores_warns():
    x = np.zeros((2, 5, WIDTH))
    with pytest.warns(UserWarning, match="`previous_logits`") as found:
        DecoderBlock(RealFormerAttention(2, 4), 10, depth=1)(x, x)
    assert len(found) == 2  # one for each attention
    with pytest.warns(UserWarning, match="`previous_logits`"):
        RealFormerAttention(2, 4, depth=1)(x, x)

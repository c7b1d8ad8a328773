"""Additive attention that pools a sequence: its equations, masks, precision, compilation and files."""

import json

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import SelfAttentivePooling
from tests.layers.harness import array, check_close, randomize

BATCH, LENGTH, WIDTH, HIDDEN, HEADS = 3, 6, 5, 8, 4
few = hypothesis.settings(max_examples=30, deadline=None)


def inputs(dtype="float32", length=LENGTH):
    return np.random.default_rng(0).normal(size=(BATCH, length, WIDTH)).astype(dtype)


def padding():
    """The first sequence is whole, the second has four tokens, the third none."""
    return np.arange(LENGTH) < np.array([[LENGTH], [4], [0]])


def make(**arguments):
    layer = SelfAttentivePooling(**{"num_heads": HEADS, "hidden_dim": HIDDEN, **arguments})
    layer.build((None, None, WIDTH))
    return randomize(layer)


# ----------------------------------------------------------------------------------------------- equations


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-13)])
def test_golden(golden, dtype, tolerance):
    data = golden("repulsive_regularisers.npz")
    layer = SelfAttentivePooling(HEADS, HIDDEN, dtype=dtype)
    layer.build(data["add_H"].shape)
    layer.hidden_kernel.assign(data["add_W"].T)
    layer.head_kernel.assign(data["add_V"])
    z, weights = layer(data["add_H"].astype(dtype), return_attention_scores=True)
    check_close(weights, data["add_A"], tolerance)
    check_close(z, data["add_Z"], tolerance)


@pytest.mark.parametrize("mask", [None, padding()], ids=["whole", "padded"])
def test_equations(mask):
    layer, x = make(dtype="float64"), inputs("float64")
    z, weights = layer(x, mask=mask, return_attention_scores=True)
    w, v = array(layer.hidden_kernel), array(layer.head_kernel)
    for b, rows in enumerate(x):
        real = np.ones(LENGTH, bool) if mask is None else mask[b]
        for h in range(HEADS):
            scores = np.exp([v[:, h] @ np.tanh(row @ w) for row in rows]) * real
            expected = scores / max(scores.sum(), 1e-300)
            np.testing.assert_allclose(array(weights)[b, h], expected, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(array(z)[b, h], expected @ rows, rtol=1e-12, atol=1e-14)


@few
@hypothesis.given(
    arrays.arrays("float64", (2, 5, WIDTH), elements=st.floats(-1e3, 1e3)), st.permutations(range(5)), st.data()
)
def test_properties(x, order, data):
    """Weights are a distribution over real tokens, whose order and padding change nothing."""
    mask = data.draw(arrays.arrays("bool", (2, 5)))
    layer = make(dtype="float64")
    z, weights = layer(x, mask=mask, return_attention_scores=True)
    weights = array(weights)
    assert (weights >= 0).all() and not weights[~np.broadcast_to(mask[:, None], weights.shape)].any()
    np.testing.assert_allclose(weights.sum(-1), np.repeat(mask.any(-1)[:, None], HEADS, 1), atol=1e-12)
    check_close(layer(x[:, order], mask=mask[:, order]), z, 1e-12)
    check_close(layer(np.where(mask[..., None], x, 7.0), mask=mask), z, 1e-12)


# --------------------------------------------------------------------------------------------------- masks


def test_keras_mask_goes_in_and_not_out():
    ids = np.where(padding(), 3, 0)
    tokens = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, WIDTH, mask_zero=True)(tokens)
    layer = SelfAttentivePooling(HEADS, HIDDEN)
    z, weights = layer(embedded, return_attention_scores=True)
    z, weights = keras.Model(tokens, [z, weights])(ids)
    assert not array(weights)[~np.broadcast_to(padding()[:, None], weights.shape)].any()
    assert not array(z)[2].any() and array(z)[:2].any()
    assert layer.compute_mask(ids, ids != 0) is None
    keras.Model(tokens, keras.layers.LSTM(3)(layer(embedded)))(ids)  # a mask of another length would be an error


def test_gradient_of_padding_is_zero():
    layer, x = make(), tf.Variable(inputs())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x, mask=padding()) ** 2)
    gradients = tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])
    assert all(np.isfinite(array(gradient)).all() and array(gradient).any() for gradient in gradients)
    assert not array(gradients[0])[~padding()].any()


# --------------------------------------------------------------------------------- running, dtypes, dropout


def test_eager_equals_graph_equals_xla():
    layer, x, mask = make(), inputs(), padding()
    expected = layer(x, mask=mask, return_attention_scores=True)
    signature = [tf.TensorSpec((None, None, WIDTH)), tf.TensorSpec((None, None), tf.bool)]

    def call(x, mask):
        return layer(x, mask=mask, return_attention_scores=True)

    for function in (tf.function(call, signature), tf.function(call, jit_compile=True)):
        for got, want in zip(function(x, mask), expected, strict=True):
            check_close(got, want, 1e-5)
    check_close(layer(x, mask=mask), expected[0])


@pytest.mark.parametrize("dtype, tolerance", [("mixed_float16", 1e-2), ("mixed_bfloat16", 8e-2)])
def test_half_precision(dtype, tolerance):
    x, mask = inputs(), padding()
    expected = make()(x, mask=mask, return_attention_scores=True)
    for got, want in zip(make(dtype=dtype)(x, mask=mask, return_attention_scores=True), expected, strict=True):
        assert keras.backend.standardize_dtype(got.dtype) == dtype.removeprefix("mixed_")
        check_close(got, want, tolerance)
    _, weights = make(dtype=dtype)(np.zeros((1, 3000, WIDTH)), return_attention_scores=True)
    np.testing.assert_allclose(array(weights).astype("float64").sum(-1), 1, atol=4e-3)  # softmax in float32


def test_gradients_against_finite_differences():
    layer, x = make(dtype="float64"), tf.Variable(inputs("float64"))
    direction = np.random.default_rng(8).normal(size=(BATCH, HEADS, WIDTH))

    def loss():
        return tf.reduce_sum(layer(x, mask=padding()) * direction)

    variables = [x, *(v.value for v in layer.trainable_variables)]
    with tf.GradientTape() as tape:
        value = loss()
    for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
        start = variable.numpy()
        for i in np.random.default_rng(9).integers(start.size, size=3):
            shift = np.where(np.arange(start.size) == i, 1e-5, 0.0).reshape(start.shape)
            variable.assign(start + shift)
            above = float(loss())
            variable.assign(start - shift)
            slope = (above - float(loss())) / 2e-5
            variable.assign(start)
            assert array(gradient).flat[i] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_dropout():
    x = inputs()
    layer, again, calm = make(dropout=0.5, seed=3), make(dropout=0.5, seed=3), make()
    first, weights = layer(x, training=True, return_attention_scores=True)
    np.testing.assert_array_equal(array(first), array(again(x, training=True)))
    assert np.abs(array(first) - array(layer(x, training=True))).max() > 1e-3
    check_close(weights, calm(x, return_attention_scores=True)[1])
    check_close(layer(x), calm(x))


# ------------------------------------------------------------------------------------- config, files, shapes


def test_config_and_file(tmp_path):
    layer = SelfAttentivePooling(
        HEADS,
        HIDDEN,
        dropout=0.25,
        kernel_initializer="he_normal",
        kernel_regularizer="l2",
        kernel_constraint="unit_norm",
        seed=7,
        dtype="mixed_bfloat16",
    )
    config = json.loads(json.dumps(layer.get_config()))
    assert json.dumps(SelfAttentivePooling.from_config(config).get_config()) == json.dumps(layer.get_config())
    model = keras.Sequential([keras.Input((None, WIDTH)), layer])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(inputs())), array(model(inputs())))
    assert loaded.layers[0].head_kernel.heads.axis == 1
    squares = sum(0.01 * np.square(array(v)).sum() for v in layer.weights)
    assert float(sum(layer.losses)) == pytest.approx(squares, rel=1e-5)


@pytest.mark.parametrize("length", [None, LENGTH])
def test_shapes(length):
    x = keras.Input((length, WIDTH))
    layer = SelfAttentivePooling(HEADS, HIDDEN)
    z, weights = layer(x, return_attention_scores=True)
    assert (z.shape, weights.shape) == ((None, HEADS, WIDTH), (None, HEADS, length))
    assert layer.compute_output_shape(x.shape) == layer(x).shape == z.shape
    assert layer(inputs()[:0]).shape == (0, HEADS, WIDTH)
    np.testing.assert_array_equal(array(layer(inputs(length=1), return_attention_scores=True)[1]), 1)

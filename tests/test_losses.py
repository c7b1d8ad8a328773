"""Label-smoothed cross-entropy against its equation in float64."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.losses import LabelSmoothedCrossentropy

CLASSES = 7
each_smoothing = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])


def batch(scale=2.0, dtype="float32"):
    rng = np.random.default_rng(0)
    return rng.integers(0, CLASSES, (3, 4)), rng.normal(scale=scale, size=(3, 4, CLASSES)).astype(dtype)


def probabilities(logits):
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def smoothed(labels, smoothing):
    return (1 - smoothing) * np.eye(CLASSES)[labels] + smoothing / CLASSES


def equation(labels, logits, smoothing):
    """Cross-entropy of the smoothed labels, token by token: `(B, m)`."""
    return -(smoothed(labels, smoothing) * np.log(probabilities(logits.astype("float64")))).sum(-1)


@each_smoothing
def test_value(smoothing):
    labels, logits = batch()
    expected = equation(labels, logits, smoothing)
    np.testing.assert_allclose(LabelSmoothedCrossentropy(smoothing)(labels, logits), expected.mean(), rtol=1e-6)
    by_token = LabelSmoothedCrossentropy(smoothing, reduction=None)(labels, logits)
    np.testing.assert_allclose(by_token, expected, rtol=1e-5)


@each_smoothing
def test_gradient(smoothing):
    """Probabilities less smoothed labels."""
    labels, logits = batch()
    logits = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = LabelSmoothedCrossentropy(smoothing, reduction="sum")(labels, logits)
    expected = probabilities(logits.numpy().astype("float64")) - smoothed(labels, smoothing)
    np.testing.assert_allclose(tape.gradient(loss, logits), expected, atol=2e-6)


@each_smoothing
def test_sample_weights(smoothing):
    """Padding of weight 0, weights whose mean is 1: the mean over the tokens, whatever the padding holds."""
    labels, logits = batch()
    real = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]], "float32")
    weights = real * real.size / real.sum()
    expected = equation(labels, logits, smoothing)[real == 1].mean()
    logits[real == 0] = 1e4
    labels[real == 0] = 0
    loss = LabelSmoothedCrossentropy(smoothing)(labels, logits, sample_weight=weights)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@each_smoothing
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_logits(smoothing, dtype):
    labels, logits = batch(scale=30.0)
    half = tf.cast(logits, dtype)
    loss = LabelSmoothedCrossentropy(smoothing)(labels, half)
    assert loss.dtype == tf.float32
    expected = equation(labels, tf.cast(half, tf.float64).numpy(), smoothing).mean()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_mixed_precision_policy():
    keras.config.set_dtype_policy("mixed_float16")
    labels, logits = batch()
    loss = LabelSmoothedCrossentropy()(labels, logits)
    assert loss.dtype == tf.float32
    np.testing.assert_allclose(loss, equation(labels, logits, 0.1).mean(), rtol=1e-6)


@each_smoothing
def test_extreme_logits(smoothing):
    labels, logits = np.array([[0, 1]]), np.zeros((1, 2, CLASSES), "float32")
    logits[..., 0] = 1e4
    loss = LabelSmoothedCrossentropy(smoothing, reduction=None)(labels, logits)
    worst = 1e4 * (1 - smoothing + smoothing * (CLASSES - 1) / CLASSES)
    best = 1e4 * smoothing * (CLASSES - 1) / CLASSES
    # The second label gets smoothing / V of its class and all but that of the first.
    np.testing.assert_allclose(loss, [[best, worst]], rtol=1e-5, atol=1e-6)


def test_large_vocabulary():
    """Every label keeps its class: labels pass through float32 on their way."""
    labels = np.array([[0, 31_999, 16_385]])
    logits = np.zeros((1, 3, 32_000), "float32")
    logits[0, range(3), labels[0]] = 20.0
    loss = LabelSmoothedCrossentropy(0.0, reduction=None)(labels, logits)
    np.testing.assert_allclose(loss, np.log1p(31_999 * np.exp(-20.0)), atol=2e-6)


def test_labels_are_not_rounded_where_keras_computes_in_bfloat16():
    labels = np.array([[513]])
    logits = np.zeros((1, 1, 600), "float32")
    logits[0, 0, 513] = 20.0
    keras.config.set_floatx("bfloat16")
    try:
        loss = LabelSmoothedCrossentropy(0.0)(labels, logits)
    finally:
        keras.config.set_floatx("float32")
    assert loss.dtype == tf.float32
    np.testing.assert_allclose(loss, np.log1p(599 * np.exp(-20.0)), atol=2e-6)


@each_smoothing
def test_graph_and_xla(smoothing):
    labels, logits = batch()
    loss = LabelSmoothedCrossentropy(smoothing)
    expected = loss(labels, logits)
    for jit_compile in (False, True):
        np.testing.assert_allclose(tf.function(loss, jit_compile=jit_compile)(labels, logits), expected, rtol=1e-6)


def test_config_round_trip():
    loss = LabelSmoothedCrossentropy(0.25, reduction="sum", name="nll")
    config = json.loads(json.dumps(keras.losses.serialize(loss)))
    clone = keras.losses.deserialize(config)
    assert type(clone) is LabelSmoothedCrossentropy
    assert (clone.label_smoothing, clone.reduction, clone.name) == (0.25, "sum", "nll")


def test_labels_that_do_not_count():
    labels, logits = batch()
    expected = LabelSmoothedCrossentropy(reduction=None)(labels, logits)
    labels[0, 0], weights = -100, np.ones(labels.shape)
    weights[0, 0] = 0
    np.testing.assert_allclose(
        LabelSmoothedCrossentropy()(labels, logits, sample_weight=weights),
        (np.sum(expected) - expected[0, 0]) / labels.size,
        rtol=1e-6,
    )
    whole = LabelSmoothedCrossentropy()(labels, logits)
    np.testing.assert_allclose(whole, np.delete(expected, 0).sum() / labels.size, rtol=1e-6)
    np.testing.assert_allclose(LabelSmoothedCrossentropy(reduction=None)(labels[1:, :, None], logits[1:]), expected[1:])
    labels[0, 0] = logits.shape[-1]
    assert np.isnan(LabelSmoothedCrossentropy()(labels, logits))

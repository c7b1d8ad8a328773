"""Cross-entropy in chunks against that of all logits."""

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.ops import linear_crossentropy
from tests.layers.harness import check_close

WIDTH, CLASSES = 6, 9
RANDOM = np.random.default_rng(0)
KERNEL, BIAS = RANDOM.normal(size=(WIDTH, CLASSES)), RANDOM.normal(size=CLASSES)


def batch(*shape):
    random = np.random.default_rng(1)
    return random.normal(size=(*shape, WIDTH)), random.integers(0, CLASSES, shape)


def oracle(states, labels, smoothing, bias):
    """Losses, and where the label is the first of the likeliest classes, in NumPy."""
    logits = states @ KERNEL + bias
    log_softmax = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    targets = (1 - smoothing) * np.eye(CLASSES)[labels] + smoothing / CLASSES
    return -(targets * log_softmax).sum(-1), logits.argmax(-1) == labels


@pytest.mark.parametrize("chunk_size", [1, 4, 6, 100])
@pytest.mark.parametrize("shape", [(2, 7), (12,), (3, 1, 4)])
@pytest.mark.parametrize("smoothing, bias", [(0.0, None), (0.2, BIAS)])
def test_values(shape, chunk_size, smoothing, bias):
    states, labels = batch(*shape)
    losses, is_right = linear_crossentropy(states, KERNEL, labels, bias, smoothing, chunk_size)
    expected = oracle(states, labels, smoothing, 0 if bias is None else bias)
    assert losses.dtype == "float32" and is_right.dtype == "bool"
    np.testing.assert_allclose(losses, expected[0], rtol=1e-5)
    np.testing.assert_array_equal(is_right, expected[1])


def gradients(function, *tensors):
    tensors = [tf.constant(x, "float32") for x in tensors]
    weights = tf.constant(np.random.default_rng(2).normal(size=tensors[0].shape[:-1]), "float32")
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        loss = tf.reduce_sum(weights * function(*tensors))
    return tape.gradient(loss, tensors)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients(smoothing):
    states, labels = batch(2, 7)

    def in_chunks(states, kernel, bias):
        return linear_crossentropy(states, kernel, labels, bias, smoothing, chunk_size=4)[0]

    def at_once(states, kernel, bias):
        return LabelSmoothedCrossentropy(smoothing, reduction=None)(labels, states @ kernel + bias)

    found, expected = (gradients(each, states, KERNEL, BIAS) for each in (in_chunks, at_once))
    for one, other in zip(found, expected, strict=True):
        check_close(one, other, 2e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_unknown_numbers_of_tokens(jit_compile):
    signature = [tf.TensorSpec((None, None, WIDTH), "float64"), tf.TensorSpec((None, None), "int64")]
    call = tf.function(
        lambda states, labels: linear_crossentropy(states, KERNEL, labels, chunk_size=4),
        signature,
        jit_compile=jit_compile,
        autograph=False,
    )
    for shape in ((2, 7), (1, 1), (2, 2), (0, 3)):
        states, labels = batch(*shape)
        losses, is_right = call(states, labels)
        expected = oracle(states, labels, 0.0, 0)
        np.testing.assert_allclose(losses, expected[0], rtol=1e-5)
        np.testing.assert_array_equal(is_right, expected[1])


def test_of_equal_logits_the_first_is_the_likeliest():
    states = np.zeros((1, 3, WIDTH))
    assert linear_crossentropy(states, KERNEL, np.array([[0, 1, 0]]))[1].numpy().tolist() == [[True, False, True]]


def test_labels_outside_the_vocabulary():
    states, _ = batch(1, 2)
    states = tf.constant(states)
    with tf.GradientTape() as tape:
        tape.watch(states)
        losses, is_right = linear_crossentropy(states, KERNEL, np.array([[-100, CLASSES]]), label_smoothing=0.1)
        ignored = losses[0, 0]
    assert ignored == 0 and np.isnan(losses[0, 1]) and not np.any(is_right)
    assert not np.any(tape.gradient(ignored, states))


def test_sums_gradients_of_16_bits_in_32():
    """Each of 512 states adds a little to the gradient of a kernel of equal numbers."""
    states, labels = np.full((512, 4), 0.25), np.zeros(512, "int32")
    kernel = tf.constant(np.full((4, 3), 0.5), "bfloat16")
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        losses, _ = linear_crossentropy(tf.cast(states, "bfloat16"), kernel, labels, chunk_size=1)
        loss = tf.reduce_sum(losses)
    found = tf.cast(tape.gradient(loss, kernel), "float32")
    np.testing.assert_allclose(found, np.tile(512 * 0.25 * np.array([-2 / 3, 1 / 3, 1 / 3]), (4, 1)), rtol=4e-3)

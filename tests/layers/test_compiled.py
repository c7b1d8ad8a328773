"""Every layer in a graph and compiled: a call, a loop of decoding, gradients, a step of training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from tests.layers.harness import (
    BATCH,
    CASES,
    KEYS,
    KINDS,
    QUERIES,
    QUERY_WIDTH,
    VALUE_WIDTH,
    array,
    build,
    check_close,
    check_slopes,
    cross_inputs,
    each,
    each_causal_layer,
    each_computation,
    each_kind,
    each_layer,
    each_path,
    random_mask,
    randomize,
    self_input,
)

STEPS = 3
SLICE_GRADIENT = "StridedSliceGrad"


@each([case for case in KINDS if "query_chunk_size" not in case.arguments])
def test_gradients_of_slices_are_small(case):
    """The gradient of a slice fills a tensor as large as what was sliced, which takes longer than a split's."""
    x = tf.constant(self_input())
    layer = build(case.make(), x)

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, x)
        return tape.gradient(output, [x, *(variable.value for variable in layer.trainable_variables)])

    operations = gradients.get_concrete_function(x).graph.get_operations()
    sizes = [operation.outputs[0].shape.num_elements() for operation in operations if operation.type == SLICE_GRADIENT]
    assert max(sizes, default=0) < x.shape.num_elements()


@each_computation
def test_eager_equals_graph_equals_xla(case):
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[0, 1] = False

    def call(query, value, key, mask):
        output = layer(query, value, key, attention_mask=mask, use_causal_mask=True)
        return output, *layer(query, value, key, attention_mask=mask, return_attention_scores=True)

    signature = [tf.TensorSpec((None, None, x.shape[-1])) for x in inputs]
    signature.append(tf.TensorSpec((None, None, None), tf.bool))
    expected = call(*inputs, mask)
    for compiled in (tf.function(call, signature), tf.function(call, jit_compile=True)):
        for got, want in zip(compiled(*inputs, mask), expected, strict=True):
            check_close(got, want, 1e-5)


@each_causal_layer
def test_steps_in_a_compiled_loop(case):
    """With a cache, two rows a step, at a place that is a tensor."""
    x = self_input(length=2 * STEPS)
    layer = build(case.make(), x)

    @tf.function(jit_compile=True)
    def loop(x):
        cache = layer.init_cache(BATCH, 8)
        outputs = tf.TensorArray("float32", STEPS, element_shape=(BATCH, 2, QUERY_WIDTH))
        for i in tf.range(STEPS):
            piece = tf.gather(x, 2 * i + tf.range(2), axis=1)
            output, cache = layer(piece, piece, cache=cache, index=2 * i, use_causal_mask=True)
            outputs = outputs.write(i, output)
        return outputs.stack()

    outputs = array(loop(x)).transpose(1, 0, 2, 3).reshape(x.shape)
    check_close(outputs, layer(x, x, use_causal_mask=True), 5e-6)


@each_causal_layer
def test_number_of_rows_unknown_in_the_graph(case):
    x = self_input(length=2 * STEPS)
    layer = build(case.make(), x)
    cache = layer.init_cache(BATCH, 8)

    @tf.function(input_signature=[tf.TensorSpec((BATCH, None, QUERY_WIDTH))])
    def call(x):
        return layer(x, x, cache=cache, index=0, use_causal_mask=True)[0]

    check_close(call(x), layer(x, x, use_causal_mask=True), 5e-6)


@pytest.mark.parametrize("case", CASES[:3:2], ids=lambda case: case.name)  # fused, and with a map
def test_gradients_are_finite_when_compiled(case):
    inputs = cross_inputs()
    layer = build(case.make(use_bias=False), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[0, 1] = False

    @tf.function(jit_compile=True)
    def call(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs[0])
            output = layer(*inputs, attention_mask=mask)
        return output, tape.gradient(output, inputs[0])

    output, gradient = call(*map(tf.constant, inputs))
    assert not array(output)[0, 1].any() and array(output)[0, 2].any()
    assert np.isfinite(array(gradient)).all()
    assert not array(gradient)[0, 1].any() and array(gradient)[0, 2].any()


@each_layer
def test_gradients_against_finite_differences(case):
    """In float64, two coordinates of every weight and input; asking for scores makes no difference."""
    inputs = [tf.Variable(x) for x in cross_inputs(dtype="float64")]
    layer = build(case.make(dtype="float64"), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[0, 2] = False
    direction = np.random.default_rng(8).normal(size=(BATCH, QUERIES, QUERY_WIDTH))
    variables = [v.value for v in layer.trainable_variables] + inputs

    @tf.function
    def loss():
        return tf.reduce_sum(layer(*inputs, attention_mask=mask) * direction)

    with tf.GradientTape() as tape:
        value = loss()
    with tf.GradientTape() as tape_with_scores:
        output, _ = layer(*inputs, attention_mask=mask, return_attention_scores=True)
        with_scores = tf.reduce_sum(output * direction)
    # Zero: of what has a part in training alone.
    gradients = tape.gradient(value, variables, unconnected_gradients="zero")
    gradients = [tf.convert_to_tensor(g).numpy() for g in gradients]
    again = tape_with_scores.gradient(with_scores, variables, unconnected_gradients="zero")
    for got, want in zip(again, gradients, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(got).numpy(), want, rtol=1e-9, atol=1e-12)

    check_slopes(loss, variables, gradients, rel=1e-6, abs=1e-8)


@each_kind
def test_one_step_of_fit_changes_every_weight(case):
    """All but biases that cancel: the key's in the softmax, and that of mixed weights in their normalisation."""
    query, value = keras.Input((None, QUERY_WIDTH)), keras.Input((None, VALUE_WIDTH))
    layer = case.make(use_gate=True)
    model = keras.Model([query, value], layer(query, value))
    inputs = cross_inputs()[:2]
    randomize(layer)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = layer.get_weights()
    history = model.fit(list(inputs), self_input(seed=2), epochs=1, batch_size=BATCH, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    still = {
        "/".join(variable.path.split("/")[1:])
        for variable, old in zip(layer.weights, before, strict=True)
        if np.abs(variable.numpy() - old).max() < 1e-6
    }
    cancelling = {"key/bias"} if case.key_bias_cancels else set()
    assert still == cancelling | ({"mixing_bias"} if case.layer is layers.ReAttention else set())


@each_path
def test_dropout_in_a_graph_draws_anew(case):
    inputs = cross_inputs()
    layer = build(case.make(dropout=0.5, seed=3), *inputs)
    step = tf.function(lambda *xs: layer(*xs, training=True))
    assert np.abs(array(step(*inputs)) - array(step(*inputs))).max() > 1e-3

"""Eager, graph and compiled; scores on request; gradients, a step of training, dropout: of every layer."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.harness import (
    BATCH,
    CASES,
    KEY_WIDTH,
    KEYS,
    KINDS,
    QUERIES,
    QUERY_WIDTH,
    VALUE_WIDTH,
    array,
    build,
    check_close,
    cross_inputs,
    each,
    each_computation,
    each_kind,
    each_layer,
    each_path,
    output_bias,
    random_mask,
    randomize,
    self_input,
)

# --------------------------------------------------------------------------------- eager, graph and compiled


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


# -------------------------------------------------------------------------------------------------- scores


@each_kind
def test_scores_never_change_the_output(case):
    inputs = cross_inputs()
    layer = build(case.make(dropout=0.5), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 2] = False
    for call in ({}, {"attention_mask": mask}, {"use_causal_mask": True}):
        output, scores = layer(*inputs, return_attention_scores=True, **call)
        assert tuple(scores.shape) == (BATCH, *case.map_axes, QUERIES, KEYS)
        check_close(output, layer(*inputs, **call))


@each([case for case in KINDS if "query_chunk_size" not in case.arguments])  # each chunk draws what it drops
def test_scores_never_change_the_output_in_training(case):
    inputs = cross_inputs()
    with_scores, without = (build(case.make(dropout=0.5, seed=3), *inputs) for _ in range(2))
    for _ in range(2):  # the second draw too
        output, scores = with_scores(*inputs, return_attention_scores=True, training=True)
        check_close(output, without(*inputs, training=True))
    if case.alike_in_training:
        _, undropped = with_scores(*inputs, return_attention_scores=True)
        check_close(scores, undropped)


# ------------------------------------------------------------------------------------------------- training


def check_lengths_of_zero(case, batch, queries, keys, dtype="float32", compiled=lambda call: call):
    layer = case.make(dtype=dtype)
    layer.build(*((None, None, width) for width in (QUERY_WIDTH, VALUE_WIDTH, KEY_WIDTH)))
    randomize(layer)
    shapes = (batch, queries, QUERY_WIDTH), (batch, keys, VALUE_WIDTH), (batch, keys, KEY_WIDTH)
    inputs = [tf.ones(shape, layer.compute_dtype) for shape in shapes]
    sources = [*inputs, *(variable.value for variable in layer.trainable_variables)]

    @compiled
    def run():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = layer(*inputs)
        gradients = tape.gradient(output, sources, unconnected_gradients="zero")
        return output, [tf.convert_to_tensor(gradient) for gradient in gradients]

    output, gradients = run()
    assert output.shape == (batch, queries, QUERY_WIDTH)
    for got, source in zip((output, *gradients), (output, *sources), strict=True):
        assert np.isfinite(array(got)).all() and got.shape == source.shape
    if not keys:
        assert (array(output) == array(keras.ops.cast(output_bias(layer), output.dtype))).all()


ZEROS = [(BATCH, 0, KEYS), (BATCH, QUERIES, 0), (0, QUERIES, KEYS), (0, 0, 0)]


@each_kind
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1")  # sinks without keys
def test_without_queries_or_keys(case):
    for sizes in ZEROS:
        check_lengths_of_zero(case, *sizes)


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
def test_evolving_attention_without_queries_or_keys(role):
    case = next(case for case in CASES if case.name == "evolving")
    case = dataclasses.replace(case, arguments={**case.arguments, "role": role})
    for sizes in ZEROS:
        for dtype in ("float64", "mixed_bfloat16"):
            check_lengths_of_zero(case, *sizes, dtype)
    check_lengths_of_zero(case, *ZEROS[-1], compiled=tf.function)
    check_lengths_of_zero(case, *ZEROS[0], compiled=tf.function(jit_compile=True))


@pytest.mark.parametrize("mixture", ["dense", "random"])
def test_synthesizer_without_queries_or_keys(mixture):
    case = next(case for case in CASES if case.name == "synthesizer")
    case = dataclasses.replace(case, arguments={**case.arguments, "max_length": 9, "mixture": mixture})
    for sizes in ZEROS:
        check_lengths_of_zero(case, *sizes)
    check_lengths_of_zero(case, *ZEROS[-1], compiled=tf.function(jit_compile=True))


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

    step, rng = 1e-5, np.random.default_rng(9)
    for variable, gradient in zip(variables, gradients, strict=True):
        start = variable.numpy()
        for i in rng.integers(start.size, size=2):
            shift = np.where(np.arange(start.size) == i, step, 0.0).reshape(start.shape)
            variable.assign(start + shift)
            above = float(loss())
            variable.assign(start - shift)
            slope = (above - float(loss())) / (2 * step)
            variable.assign(start)
            assert gradient.flat[i] == pytest.approx(slope, rel=1e-6, abs=1e-8), variable.name


@each_kind
def test_one_step_of_fit_changes_every_weight(case):
    """All but the key bias, where it cancels in the softmax."""
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
    assert still == ({"key/bias"} if case.key_bias_cancels else set())


@each_layer
def test_regularizers_constraints_and_frozen_layers(case):
    inputs = cross_inputs()
    penalties = {"kernel_regularizer": "l2", "bias_regularizer": "l2", "kernel_constraint": "non_neg"}
    layer = build(case.make(**penalties), *inputs)
    kernels = [v for v in layer.trainable_variables if v.path.endswith("/kernel")]
    biases = [v for v in layer.trainable_variables if v.path.endswith("/bias")]
    assert len(kernels) == len(biases) == 3 + case.has_output + bool(case.arguments.get("use_gate"))
    layer(*inputs)
    # Of a variant's own matrices too, but not of positions, of shares, of mixtures, of norms and of sinks.
    free = "embeddings", "mixture_logits", "log_weights", "centres", "log_variances", "norm_scale", "sinks"
    free += ("lambda_vectors",)
    penalized = [v for v in layer.trainable_variables if not v.path.endswith(free)]
    squares = sum(0.01 * np.square(v.numpy()).sum() for v in penalized)
    assert float(sum(layer.losses)) == pytest.approx(squares, rel=1e-5)
    assert all(v.constraint is not None for v in kernels)
    layer.trainable = False
    assert layer.trainable_variables == []


# -------------------------------------------------------------------------------------------------- dropout


@each_kind
def test_dropout_is_seeded(case):
    inputs = cross_inputs()
    first, again, other = (build(case.make(dropout=0.5, seed=seed), *inputs) for seed in (3, 3, 4))
    calm = build(case.make(), *inputs)
    one, two = (array(first(*inputs, training=True)) for _ in range(2))
    np.testing.assert_array_equal(one, array(again(*inputs, training=True)))
    assert np.abs(one - two).max() > 1e-3
    assert np.abs(one - array(other(*inputs, training=True))).max() > 1e-3
    for training in (False, None):
        check_close(first(*inputs, training=training), calm(*inputs))


@each_path
def test_dropout_in_a_graph_draws_anew(case):
    inputs = cross_inputs()
    layer = build(case.make(dropout=0.5, seed=3), *inputs)
    step = tf.function(lambda *xs: layer(*xs, training=True))
    assert np.abs(array(step(*inputs)) - array(step(*inputs))).max() > 1e-3


@each_kind
def test_dropout_keeps_the_mean(case):
    """Weights are dropped and the others scaled up: on average nothing changes."""
    if not case.alike_in_training:
        pytest.skip("its weights are others in training")
    if case.name == "differential":
        pytest.skip("its head outputs are normalised, whose mean is another")
    query, value, key = (np.repeat(x[:1], 3000, axis=0) for x in cross_inputs())
    layer = build(case.make(dropout=0.4, seed=3), query, value, key)
    dropped = array(layer(query, value, key, training=True))
    error = dropped.std(0) / np.sqrt(len(dropped))
    assert (error > 0).all()
    assert (np.abs(dropped.mean(0) - array(layer(query[:1], value[:1], key[:1]))[0]) < 5 * error).all()

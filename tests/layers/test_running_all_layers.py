"""Scores on request, inputs of no length, regularizers, dropout: of every layer."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
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
    each_kind,
    each_layer,
    output_bias,
    random_mask,
    randomize,
)
from tests.refusals import refused

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
def test_regularizers_constraints_and_frozen_layers(case):
    inputs = cross_inputs()
    penalties = {"kernel_regularizer": "l2", "bias_regularizer": "l2", "kernel_constraint": "non_neg"}
    layer = build(case.make(**penalties), *inputs)
    kernels = [v for v in layer.trainable_variables if v.path.endswith("/kernel")]
    biases = [v for v in layer.trainable_variables if v.path.endswith("/bias")]
    assert len(kernels) == 3 + case.has_output + bool(case.arguments.get("use_gate"))
    assert len(biases) == len(kernels) - len(layer.without_bias)
    layer(*inputs)
    # Of a variant's own matrices too, but not of positions, of shares, of mixtures, of norms and of sinks.
    free = "embeddings", "mixture_logits", "log_weights", "centres", "log_variances", "norm_scale", "sinks"
    free += ("lambda_vectors", "norm_offset")
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
    first.set_weights(calm.get_weights())  # those that training changes by itself
    for training in (False, None):
        check_close(first(*inputs, training=training), calm(*inputs))


@each_kind
def test_dropout_keeps_the_mean(case):
    """Weights are dropped and the others scaled up: on average nothing changes."""
    if not case.alike_in_training:
        pytest.skip("its weights are others in training")
    if case.name in ("differential", "multi_head_explicit"):
        pytest.skip("its head outputs are normalised, whose mean is another")
    query, value, key = (np.repeat(x[:1], 3000, axis=0) for x in cross_inputs())
    layer = build(case.make(dropout=0.4, seed=3), query, value, key)
    dropped = array(layer(query, value, key, training=True))
    error = dropped.std(0) / np.sqrt(len(dropped))
    assert (error > 0).all()
    assert (np.abs(dropped.mean(0) - array(layer(query[:1], value[:1], key[:1]))[0]) < 5 * error).all()


# ------------------------------------------------------------------------------------------------ integers


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=lambda case: case.name)
@pytest.mark.parametrize("which, name", list(enumerate(["query", "value", "key"])))
def test_dtypes(case, which, name):
    """Integers are taken for the numbers that they are, as the stock layer takes them."""
    inputs = [np.round(3 * x) for x in cross_inputs()]
    layer = build(case.make(), *inputs)
    expected = array(layer(*inputs))
    for dtype in ("int32", "int64"):
        given = list(inputs)
        given[which] = tf.cast(inputs[which], dtype)
        check_close(layer(*given), expected)
    given[which] = tf.cast(inputs[which], "complex64")
    with refused(name, "complex64"):
        layer(*given)


def test_integers_in_a_functional_model():
    x, ids = keras.Input((5, 12)), keras.Input((5, 12), dtype="int32")
    assert layers.MultiHeadAttention(3, 4)(x, ids).dtype == "float32"

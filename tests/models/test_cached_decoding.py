"""Decoding with a cache gives what one call on the whole target gives."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.positions import LearnedPositions
from tests.models.small import CASES, array, check_close, each_kind, each_path, make, sentences, shared

TOLERANCE = 5e-6
LENGTH = 6
# Of the caches of a model: a key and a value; positions; rows of a map that goes from block to block; clusters.
COMPILED = ("multi_head", "relative", "evolving_decoder", "disentangled_decoder")


def one_shot(model, inputs):
    return array(model(inputs))


def step_by_step(model, inputs, widths=(1,) * LENGTH, room=LENGTH):
    """Logits of the target, `widths[i]` tokens in step i."""
    cache = model.init_cache(inputs["source"], room)
    logits, index = [], 0
    for width in widths:
        tokens = inputs["target"][:, index : index + width]
        step, cache = model.decode_step(tokens, cache, index)
        logits.append(array(step))
        index += width
    return np.concatenate(logits, axis=1)


@each_kind
def test_step_by_step(case):
    """Token by token, and several tokens a step with room to spare."""
    model, inputs = shared(case.name), sentences()
    expected = one_shot(model, inputs)
    check_close(step_by_step(model, inputs), expected, TOLERANCE)
    check_close(step_by_step(model, inputs, widths=(2, 1, 3), room=9), expected, TOLERANCE)


@each_path
def test_mixed_precision(case):
    model, inputs = make(case, dtype="mixed_float16"), sentences()
    logits = step_by_step(model, inputs, widths=(1, 1, 4))
    assert logits.dtype == "float32"
    check_close(logits, one_shot(model, inputs), 0.02)


@pytest.mark.parametrize("arguments", [
    {"normalization": "pre", "num_layers": 2},
    {"normalization": "sandwich", "num_layers": 2},
    {"positions": LearnedPositions(LENGTH)},
    {"target_vocabulary_size": None, "tie_output": False},
    {"decoder_attention": layers.TalkingHeadsAttention(2, 3), "num_decoder_layers": 3},
    {"cross_attention": layers.LuongAttention(key_dim=5, score_mode="concat"), "num_layers": 2},
    {"decoder_attention": layers.MultiHeadAttention(2, 4, sliding_window=2)},
    {"cross_attention": layers.MultiHeadAttention(2, 4, sliding_window=2)},
    {"attention": layers.MultiHeadAttention(2, 4, value_residual=True), "num_layers": 3},
], ids=[
    "pre_norm", "sandwich", "learned", "one_vocabulary", "other_decoder", "other_cross", "window", "cross_window",
    "value_residual",
])  # fmt: skip
def test_other_models(arguments):
    model, inputs = make(**arguments), sentences()
    check_close(step_by_step(model, inputs), one_shot(model, inputs), TOLERANCE)


def test_source_of_padding_alone():
    model, inputs = make(), sentences()
    inputs["source"][0] = 0
    check_close(step_by_step(model, inputs), one_shot(model, inputs), TOLERANCE)


def test_positions_and_mask_by_hand():
    """Tokens written to rows in another order than they stand in the sentence."""
    model, inputs = make(), sentences()
    order = [0, 2, 4, 1, 3, 5]  # row 1 of the cache holds position 2, ...
    tokens = inputs["target"][:, order]
    position = np.array(order)
    mask = np.tile(position[None, :] <= position[:, None], (2, 1, 1))
    cache = model.init_cache(inputs["source"], LENGTH)
    logits, _ = model.decode_step(tokens, cache, 0, positions=position, attention_mask=mask)
    check_close(logits, one_shot(model, inputs)[:, order], TOLERANCE)


def test_cache_of_the_step_before_is_left_alone():
    """Two continuations of one prefix: each starts from the same cache."""
    model, inputs = make(), sentences()
    cache = model.init_cache(inputs["source"], LENGTH)
    _, cache = model.decode_step(inputs["target"][:, :1], cache, 0)
    first, _ = model.decode_step(inputs["target"][:, 1:2], cache, 1)
    model.decode_step(inputs["target"][:, 3:4], cache, 1)
    again, _ = model.decode_step(inputs["target"][:, 1:2], cache, 1)
    np.testing.assert_array_equal(array(again), array(first))


@pytest.mark.parametrize("name", COMPILED)
def test_eager_equals_graph_equals_xla(name):
    """The index is a tensor: one program for all steps. `tests/layers/test_compiled.py` compiles each layer."""
    model, inputs = shared(name), sentences()
    expected = one_shot(model, inputs)
    traces = []

    def step(tokens, cache, index):
        traces.append(1)
        return model.decode_step(tokens, cache, index)

    for compiled in (False, True):
        function = tf.function(step, jit_compile=compiled)
        cache = model.init_cache(inputs["source"], LENGTH)
        for index in range(LENGTH):
            logits, cache = function(inputs["target"][:, index : index + 1], cache, tf.constant(index))
            check_close(logits[:, 0], expected[:, index], TOLERANCE)
    assert len(traces) == 2


@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "xla"])
def test_whole_model_compiled(compiled):
    model, inputs = make(CASES[3]), sentences()
    function = tf.function(lambda inputs: model(inputs, return_intermediates=True), jit_compile=compiled)
    for got, want in zip(
        tf.nest.flatten(function(inputs)),
        tf.nest.flatten(model(inputs, return_intermediates=True)),
        strict=True,
    ):
        check_close(got, want, TOLERANCE)


@pytest.mark.parametrize("arguments", [{}, {"positions": LearnedPositions(LENGTH)}], ids=["sinusoidal", "learned"])
def test_number_of_tokens_unknown_in_the_graph(arguments):
    model, inputs = make(**arguments), sentences()
    cache = model.init_cache(inputs["source"], LENGTH)
    signature = [tf.TensorSpec((2, None), tf.int32)]
    step = tf.function(lambda tokens: model.decode_step(tokens, cache, 0)[0], input_signature=signature)
    check_close(step(inputs["target"]), one_shot(model, inputs), TOLERANCE)


@each_kind
def test_copies(case):
    """Several translations of a source, which is encoded once, start as if it had been given as often."""
    model, source = shared(case.name), sentences()["source"]
    for found, expected in zip(
        tf.nest.flatten(model.init_cache(source, 9, copies=3)),
        tf.nest.flatten(model.init_cache(np.repeat(source, 3, axis=0), 9)),
        strict=True,
    ):
        check_close(found, expected, TOLERANCE)


def test_size_of_the_cache():
    model, inputs = make(num_decoder_layers=2), sentences()
    cache = model.init_cache(inputs["source"], 9)
    shapes = [tuple(x.shape) for x in tf.nest.flatten(cache["blocks"])]
    assert shapes == [(2, 3, 9, 4), (2, 3, 9, 5), (2, 3, 5, 4), (2, 3, 5, 5)] * 2
    assert keras.backend.standardize_dtype(cache["source_mask"].dtype) == "bool"

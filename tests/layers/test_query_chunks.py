"""Attention in chunks of queries gives what attention at once gives."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from benchmarks.memory import megabytes
from keras_headattn import layers, positions, regularizers
from keras_headattn.layers import _query_chunks
from keras_headattn.training import Model, make_strategy
from tests.layers.harness import CASES, KINDS, array, build, check_close, each, self_input

LENGTH, CHUNK = 11, 3  # four chunks, the last one of two queries
REFUSED = (layers.EvolvingAttention, layers.RealFormerAttention, layers.ReAttention, layers.MultiTokenAttention)
each_that_fits = each([case for case in KINDS if case.layer not in REFUSED and not case.name.endswith("chunks")])

KEY_MASK = np.array([[True] * 9 + [False] * 2, [False] + [True] * 10])
RANDOM = np.random.default_rng(5)
MAP_MASK = RANDOM.random((2, 1, LENGTH, LENGTH)) < 0.6
BIAS = RANDOM.normal(size=(1, 1, LENGTH, LENGTH))
SITUATIONS = {
    "plain": ({}, {}),
    "causal": ({}, {"use_causal_mask": True, "key_mask": KEY_MASK}),
    "window": ({"sliding_window": 3}, {"query_mask": KEY_MASK}),
    "causal window": ({"sliding_window": 3}, {"use_causal_mask": True, "key_mask": KEY_MASK}),
    "map": ({}, {"attention_mask": MAP_MASK, "bias": BIAS, "use_causal_mask": True}),
    "map and window": ({"sliding_window": 4}, {"attention_mask": MAP_MASK}),
    "segments": ({}, {"segment_ids": np.repeat([[1, 2, 3]], [4, 4, 3], axis=1).repeat(2, axis=0)}),
    "queries elsewhere": ({"sliding_window": 4}, {"positions": np.arange(LENGTH) + 2}),
}


def pair(case, **arguments):
    """A layer without and one with chunks, of the same weights."""
    x = self_input(length=LENGTH)
    whole = build(case.make(dtype="float64", **arguments), x)
    chunks = build(case.make(dtype="float64", query_chunk_size=CHUNK, **arguments), x)
    chunks.set_weights(whole.get_weights())
    return whole, chunks


def gradients(layer, x, **call):
    """Output, and gradients of the input and of all weights."""
    x = tf.cast(x, layer.compute_dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, x, **call)
        loss = tf.reduce_sum(tf.sin(y)) + sum(tf.cast(loss, y.dtype) for loss in layer.losses)
    sources = [x, *(variable.value for variable in layer.trainable_variables)]
    return y, *tape.gradient(loss, sources, unconnected_gradients="zero")


@pytest.mark.parametrize("situation", SITUATIONS)
@each_that_fits
def test_outputs_and_gradients(case, situation):
    arguments, call = SITUATIONS[situation]
    whole, chunks = pair(case, **arguments)
    x = self_input(length=LENGTH)
    for one, other in zip(gradients(whole, x, **call), gradients(chunks, x, **call), strict=True):
        check_close(other, one, 1e-10)


@each_that_fits
def test_training(case):
    whole, chunks = pair(case)
    x = self_input(length=LENGTH)
    for one, other in zip(gradients(whole, x, training=True), gradients(chunks, x, training=True), strict=True):
        check_close(other, one, 1e-10)
    for one, other in zip(whole.non_trainable_variables, chunks.non_trainable_variables, strict=True):
        if "seed" not in one.path:
            check_close(other, one, 1e-6)


@each([case for case in CASES if case.name in ("multi_head", "talking", "disentangled", "rotary")])
def test_cross_attention_and_cache(case):
    x, memory = self_input(length=LENGTH), self_input(seed=2, length=7)
    whole, chunks = pair(case)
    check_close(chunks(x, memory), whole(x, memory), 1e-10)
    step = dict(index=2, use_causal_mask=True)
    outputs = [layer(x, x, cache=layer.init_cache(2, 20), **step) for layer in (whole, chunks)]
    for one, other in zip(*map(keras.tree.flatten, outputs), strict=True):
        check_close(other, one, 1e-10)


@each_that_fits
def test_single_precision(case):
    """Gradients differ from exact ones no more than those of the whole map do."""
    x, found = self_input(length=LENGTH).astype("float32"), []
    exact = build(case.make(dtype="float64"), x)
    for dtype, chunk in (("float64", None), ("float32", None), ("float32", CHUNK)):
        layer = build(case.make(dtype=dtype, query_chunk_size=chunk), x)
        layer.set_weights([weight.astype("float32") for weight in exact.get_weights()])
        found.append([array(each).astype("float64") for each in gradients(layer, x, use_causal_mask=True)])
    for exactly, whole, chunks in zip(*found, strict=True):
        scale = np.abs(exactly).max() + 1e-3
        assert np.abs(chunks - exactly).max() < 3 * np.abs(whole - exactly).max() + 2e-6 * scale


@pytest.mark.parametrize("jit_compile", [False, True])
def test_unknown_sizes(jit_compile):
    layer = layers.TalkingHeadsAttention(3, 4, query_chunk_size=CHUNK, dtype="float64")
    whole = layers.TalkingHeadsAttention(3, 4, dtype="float64")
    x = tf.constant(self_input(length=LENGTH), "float64")
    build(layer, x), build(whole, x)
    whole.set_weights(layer.get_weights())
    signature = [tf.TensorSpec((None, None, x.shape[-1]), "float64")]
    call = tf.function(
        lambda x: gradients(layer, x, use_causal_mask=True), signature, jit_compile=jit_compile, autograph=False
    )
    for length in (LENGTH, 1, 2, 6, 0):
        for one, other in zip(gradients(whole, x[:, :length], use_causal_mask=True), call(x[:, :length]), strict=True):
            np.testing.assert_allclose(array(other), array(one), atol=1e-10)


def test_half_precision_sums_gradients_in_32_bits():
    x = self_input(length=64).astype("float32")
    layer = layers.TalkingHeadsAttention(3, 4, query_chunk_size=2, dtype="mixed_bfloat16")
    exact = layers.TalkingHeadsAttention(3, 4)
    build(layer, x), build(exact, x)
    exact.set_weights(layer.get_weights())
    once = layers.TalkingHeadsAttention(3, 4, dtype="mixed_bfloat16")
    build(once, x)
    once.set_weights(layer.get_weights())
    expected, found, rounded = (gradients(each, x)[2:] for each in (exact, layer, once))

    def error(tensors):
        return sum(float(np.square(array(a) - array(b)).sum()) for a, b in zip(tensors, expected, strict=True))

    assert error(found) < 1.5 * error(rounded)


def test_dropout_of_the_recomputation_is_that_of_the_forward_pass():
    layer = layers.MultiHeadAttention(3, 4, dropout=0.5, query_chunk_size=CHUNK, dtype="float64", seed=1)
    x = tf.constant(self_input(length=LENGTH), "float64")
    build(layer, x)
    seed = layer._dropout_layer.seed_generator.state
    start = ops.convert_to_numpy(seed)

    def loss(x):
        seed.assign(start)
        return tf.reduce_sum(tf.sin(layer(x, x, training=True)))

    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(x)
    direction = tf.constant(RANDOM.normal(size=x.shape))
    slope = float(tf.reduce_sum(tape.gradient(value, x) * direction))
    step = 1e-6
    numeric = float(loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    assert slope == pytest.approx(numeric, rel=1e-5)
    assert not np.array_equal(start, ops.convert_to_numpy(seed))  # the next step drops others


def test_dropout_differs_from_chunk_to_chunk():
    layer = layers.MultiHeadAttention(1, 1, dropout=0.5, use_bias=False, query_chunk_size=1, seed=1)
    x = np.ones((1, 40, 1), "float32")
    build(layer, x)
    layer.set_weights([np.ones(w.shape) for w in layer.get_weights()[:4]] + layer.get_weights()[4:])
    y = array(layer(x, x, training=True))[0, :, 0]
    assert len(set(y.round(4))) > 5  # of 40 equal queries, as many of 40 equal weights are dropped by chance
    assert y.mean() == pytest.approx(1.0, abs=0.1)


class Recorder(layers.MultiHeadAttention):
    """Records how many rows and keys a map has."""

    def mix(self, weights, entry, state):
        self.shapes.append(tuple(weights.shape[2:]))
        return super().mix(weights, entry, state)


def shapes_of_maps(length, arguments, **call):
    layer = Recorder(2, 4, **arguments)
    x = self_input(length=length)
    build(layer, x)
    layer.shapes = []
    layer(x, x, **call)
    return set(layer.shapes)


def test_keys_that_masks_hide_are_not_read():
    causal = shapes_of_maps(64, {"query_chunk_size": 4}, use_causal_mask=True)
    assert causal == {(4, keys) for keys in range(8, 72, 8)}
    assert shapes_of_maps(64, {"query_chunk_size": 4, "sliding_window": 5}) == {(4, 12)}
    assert shapes_of_maps(64, {"query_chunk_size": 4, "sliding_window": 5}, use_causal_mask=True) == {(4, 8)}
    assert shapes_of_maps(64, {"query_chunk_size": 4, "sliding_window": 60}) == {(4, 64)}


def test_whole_map_where_it_is_read():
    chunks = {"query_chunk_size": 4}
    assert shapes_of_maps(16, chunks) == {(4, 16)}
    assert shapes_of_maps(16, chunks, return_attention_scores=True) == {(16, 16)}
    assert shapes_of_maps(16, chunks | {"head_regularizer": regularizers.Frobenius()}) == {(16, 16)}
    with layers.capture_intermediates():
        assert shapes_of_maps(16, chunks) == {(16, 16)}
    assert shapes_of_maps(4, chunks) == {(4, 4)}


def test_auto_makes_chunks_of_large_maps(monkeypatch):
    monkeypatch.setattr(_query_chunks, "AUTO_SIZE", 4)
    assert shapes_of_maps(16, {"query_chunk_size": "auto"}) == {(16, 16)}
    monkeypatch.setattr(_query_chunks, "AUTO_BYTES", 4 * 2 * 2 * 16 * 16 - 1)
    assert shapes_of_maps(16, {"query_chunk_size": "auto"}) == {(4, 16)}


def test_positions_of_relative_biases():
    for kind in (positions.ALiBiPositions, positions.BucketPositions, positions.RelativePositions):
        arguments = {"relative_positions": kind(2) if kind is positions.RelativePositions else kind()}
        case = next(case for case in CASES if case.name == "multi_head")
        whole, chunks = pair(case, sliding_window=3, **arguments)
        x = self_input(length=LENGTH)
        for one, other in zip(gradients(whole, x), gradients(chunks, x), strict=True):
            check_close(other, one, 1e-10)


@pytest.mark.slow
def test_memory():
    """The map of 2,048 tokens and 4 heads takes 67 MB, and some copies; in chunks it must take less than half."""
    whole, chunks = (megabytes("talking_heads", 2048, chunk) for chunk in (None, 256))
    assert 2 * chunks < whole


@pytest.mark.slow
def test_memory_of_unknown_lengths():
    """In a graph, in `fit` of several lengths and in a recipe's buckets: 400 MB in whole maps, 60 in chunks."""
    command = [sys.executable, "-m", "tests.layers.chunks_worker"]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    for name, (whole, chunks) in json.loads(run.stdout.splitlines()[-1]).items():
        assert 3 * chunks < whole, name


@pytest.mark.slow
def test_memory_under_a_causal_mask():
    """Segments of a causal map run one after the other in a graph, each in the memory of the one before."""
    how = {"heads": 4, "key_dim": 16, "jit_compile": False}
    whole, causal = (megabytes("multi_head", 2048, 128, is_causal, **how) for is_causal in (False, True))
    assert causal < 1.2 * whole


@pytest.mark.slow
def test_two_replicas_train_as_one():
    x, y = self_input(length=LENGTH).astype("float32"), np.ones((2, LENGTH, 12), "float32")
    histories = []
    for replicas in (1, 2):
        with make_strategy(replicas).scope():
            inputs = keras.Input((LENGTH, x.shape[-1]))
            layer = layers.TalkingHeadsAttention(3, 4, query_chunk_size=CHUNK)
            model = Model(inputs, layer(inputs, inputs, use_causal_mask=True))
            model.set_weights([np.cos(np.arange(w.size)).reshape(w.shape) / 2 for w in model.get_weights()])
            model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=True)
            histories.append(model.fit(x, y, epochs=3, batch_size=2, shuffle=False, verbose=0).history["loss"])
    assert histories[1] == pytest.approx(histories[0], rel=1e-4)

"""Decoding with a cache gives what the whole sequence gives at once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.harness import (
    BATCH,
    KEY_WIDTH,
    KEYS,
    QUERY_WIDTH,
    array,
    build,
    check_close,
    cross_inputs,
    each_causal_layer,
    each_layer_by_content,
    self_input,
)

LENGTH, MAX_LENGTH = 6, 8
TOLERANCE = 5e-6


def decode(layer, x, sizes, step=None, **call):
    """The outputs of `x` cut in pieces of these sizes, and the cache at the end."""
    step = step or layer
    cache = layer.init_cache(BATCH, MAX_LENGTH)
    outputs, index = [], 0
    for size in sizes:
        piece = x[:, index : index + size]
        output, cache = step(piece, piece, cache=cache, index=index, **call)
        outputs.append(array(output))
        index += size
    return np.concatenate(outputs, axis=1), cache


@each_causal_layer
@pytest.mark.parametrize("more", [False, True])
def test_step_by_step_and_in_chunks(case, more):
    x = self_input(length=LENGTH)
    arguments = {"sliding_window": 3, "use_gate": True, "use_bias": False, "dropout": 0.5} if more else {}
    layer = build(case.make(**arguments), x)
    expected = layer(x, x, use_causal_mask=True)
    for sizes in ([1] * LENGTH, [3, 1, 2]):
        output, cache = decode(layer, x, sizes, use_causal_mask=True)
        check_close(output, expected, TOLERANCE)
    assert cache["key"].shape[0] == BATCH and cache["key"].shape[2] == MAX_LENGTH
    assert cache["value"].shape[0] == BATCH and cache["value"].shape[2] == MAX_LENGTH


@each_causal_layer
def test_scores_while_decoding(case):
    """Over all of the cache; 0 where nothing is written yet."""
    x = self_input(length=LENGTH)
    layer = build(case.make(), x)
    expected, expected_scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    cache = layer.init_cache(BATCH, MAX_LENGTH)
    for i in range(LENGTH):
        piece = x[:, i : i + 1]
        output, scores, cache = layer(
            piece, piece, cache=cache, index=i, use_causal_mask=True, return_attention_scores=True
        )
        assert tuple(scores.shape) == (BATCH, *case.map_axes, 1, MAX_LENGTH)
        check_close(output, array(expected)[:, i : i + 1], TOLERANCE)
        check_close(scores[..., :LENGTH], array(expected_scores)[..., i : i + 1, :], TOLERANCE)
        assert not array(scores)[..., i + 1 :].any()


@each_causal_layer
def test_the_cache_is_a_value(case):
    """A call changes neither the cache it is given nor the layer."""
    x = self_input(length=LENGTH)
    layer = build(case.make(), x)
    before, weights = layer.init_cache(BATCH, MAX_LENGTH), len(layer.variables)
    kept = {name: array(tensor) for name, tensor in before.items()}
    first, after = layer(x[:, :2], x[:, :2], cache=before, index=0, use_causal_mask=True)
    assert {*before} == {*after} and {"key", "value"} <= {*before}
    for name, tensor in before.items():
        assert tuple(tensor.shape) == tuple(after[name].shape)
        np.testing.assert_array_equal(array(tensor), kept[name])
    for name in ("key", "value"):
        assert before[name].shape[0] == BATCH and before[name].shape[2] == MAX_LENGTH
        written = np.moveaxis(array(after[name]), 2, 0)
        assert not written[2:].any() and written[:2].any()
    again, _ = layer(x[:, :2], x[:, :2], cache=before, index=0, use_causal_mask=True)
    np.testing.assert_array_equal(array(first), array(again))
    assert len(layer.variables) == weights
    rewritten, _ = layer(x[:, 2:4], x[:, 2:4], cache=after, index=0, use_causal_mask=True)
    check_close(rewritten, layer(x[:, 2:4], x[:, 2:4], use_causal_mask=True), TOLERANCE)


@each_causal_layer
@pytest.mark.parametrize("causal", [True, False])
def test_rows_not_yet_written_are_not_attended_to(case, causal):
    x = self_input(length=LENGTH)
    layer = build(case.make(), x)
    cache = layer.init_cache(BATCH, MAX_LENGTH)
    cache = {name: tensor if tensor.dtype == tf.int32 else tensor + 1e3 for name, tensor in cache.items()}
    output, _ = layer(x[:, :3], x[:, :3], cache=cache, index=0, use_causal_mask=causal)
    check_close(output, layer(x[:, :3], x[:, :3], use_causal_mask=causal), TOLERANCE)


@each_layer_by_content
def test_a_mask_may_name_any_rows_written(case):
    """Also later rows than those of the call: the cache is filled from the back."""
    x = self_input(length=LENGTH)
    layer = build(case.make(), x)
    mask = np.arange(MAX_LENGTH)[None, None] >= 3
    cache = layer.init_cache(BATCH, MAX_LENGTH)
    _, cache = layer(x[:, :3], x[:, :3], cache=cache, index=5, attention_mask=mask)
    output, _ = layer(x[:, 3:5], x[:, 3:5], cache=cache, index=3, attention_mask=mask)
    check_close(output, layer(x[:, 3:5], x[:, :5]), TOLERANCE)


@each_causal_layer
def test_half_precision_cache(case):
    x = self_input(length=LENGTH)
    layer = build(case.make(dtype="mixed_float16"), x)
    output, cache = decode(layer, x, [1] * LENGTH, use_causal_mask=True)
    check_close(output, layer(x, x, use_causal_mask=True), 1e-2)
    dtypes = {name: keras.backend.standardize_dtype(tensor.dtype) for name, tensor in cache.items()}
    assert dtypes.pop("positions", "int32") == "int32"
    assert {*dtypes.values()} == {"float16"}


@each_layer_by_content
def test_beams_share_a_cache(case):
    """Nodes of a tree are written side by side; each attends to its ancestors and itself alone."""
    beams, steps = 2, 3
    parents = np.array([[-1, -1], [0, 0], [3, 2]])  # at step 1 both beams continue beam 0, then they cross
    paths = []
    for step in range(steps):
        for beam in range(beams):
            parent = parents[step, beam]
            paths.append([*(paths[parent] if parent >= 0 else []), step * beams + beam])
    x = self_input(length=beams * steps)
    layer = build(case.make(), x)
    cache = layer.init_cache(BATCH, MAX_LENGTH)
    for step in range(steps):
        index = step * beams
        mask = np.zeros((BATCH, beams, MAX_LENGTH), bool)
        for beam in range(beams):
            mask[:, beam, paths[index + beam]] = True
        nodes = x[:, index : index + beams]
        output, cache = layer(nodes, nodes, cache=cache, index=index, attention_mask=mask)
        for beam in range(beams):
            path = x[:, paths[index + beam]]
            alone = array(layer(path, path, use_causal_mask=True))[:, -1]
            check_close(array(output)[:, beam], alone, TOLERANCE)


@each_causal_layer
def test_prefix_may_be_attended_to_in_full(case):
    """An attention mask rather than the causal flag: a prompt whose tokens see each other."""
    x = self_input(length=LENGTH)
    layer = build(case.make(), x)
    prefix = 3
    mask = np.tri(LENGTH, dtype=bool)
    mask[:prefix, :prefix] = True
    expected = array(layer(x, x, attention_mask=mask[None]))
    padded = np.pad(np.repeat(mask[None], BATCH, 0), ((0, 0), (0, 0), (0, MAX_LENGTH - LENGTH)))
    cache = layer.init_cache(BATCH, MAX_LENGTH)
    for start, stop in ((0, prefix), (prefix, LENGTH)):
        piece = x[:, start:stop]
        output, cache = layer(piece, piece, cache=cache, index=start, attention_mask=padded[:, start:stop])
        check_close(output, expected[:, start:stop], TOLERANCE)


@each_causal_layer
def test_attention_mask_and_causal_flag_together(case):
    """Left padding of one sentence."""
    x = self_input(length=LENGTH)
    layer = build(case.make(), x)
    real = np.ones((BATCH, MAX_LENGTH), bool)
    real[0, :2] = False
    expected = layer(x, x, use_causal_mask=True, attention_mask=real[:, None, :LENGTH])
    output, _ = decode(layer, x, [2, 2, 2], use_causal_mask=True, attention_mask=real[:, None])
    check_close(output, expected, TOLERANCE)


@each_layer_by_content
def test_cross_attention_with_padding(case):
    """Step by step in a graph, all at once eagerly."""
    query, value, key = cross_inputs()
    layer = build(case.make(), query, value, key)
    real = np.arange(KEYS)[None] < np.array([4, 7])[:, None]
    expected, scores = layer(query, value, key, key_mask=real, return_attention_scores=True)
    cache = layer.project_cache(value, key)
    step = tf.function(layer)
    for i in range(query.shape[1]):
        piece = tf.constant(query[:, i : i + 1])
        output = step(piece, cache=cache, key_mask=tf.constant(real))
        check_close(output, array(expected)[:, i : i + 1], TOLERANCE)
    output, cached_scores = layer(query, cache=cache, key_mask=real, return_attention_scores=True)
    check_close(output, expected, TOLERANCE)
    check_close(cached_scores, scores, TOLERANCE)
    check_close(layer(query, cache=cache, attention_mask=real[:, None]), expected, TOLERANCE)


@each_causal_layer
def test_cross_attention_key_defaults_to_value(case):
    query, value, _ = cross_inputs()
    layer = build(case.make(use_gate=True), query, value)
    cache = layer.project_cache(value)
    check_close(layer(query, cache=cache), layer(query, value), TOLERANCE)
    assert cache["key"].shape[0] == BATCH and cache["key"].shape[2] == KEYS
    assert cache["value"].shape[0] == BATCH and cache["value"].shape[2] == KEYS
    assert value.shape[-1] != KEY_WIDTH


@each_causal_layer
def test_symbolic_call_with_a_cache(case):
    """Inside a functional model; the cache comes in and goes out."""
    x = self_input(length=LENGTH)
    layer = build(case.make(), x)
    cache = layer.init_cache(BATCH, MAX_LENGTH)
    token = keras.Input(batch_shape=(BATCH, 1, QUERY_WIDTH))
    state = {name: keras.Input(batch_shape=tuple(t.shape), dtype=t.dtype.name, name=name) for name, t in cache.items()}
    index = keras.Input(batch_shape=(), dtype="int32")
    output, updated = layer(token, token, cache=state, index=index, use_causal_mask=True)
    assert tuple(output.shape) == (BATCH, 1, QUERY_WIDTH)
    assert all(tuple(updated[name].shape) == tuple(tensor.shape) for name, tensor in cache.items())
    model = keras.Model([token, state, index], [output, updated])
    expected = array(layer(x, x, use_causal_mask=True))
    for i in range(2):
        output, cache = model([tf.constant(x[:, i : i + 1]), cache, tf.constant(i)])
        check_close(output, expected[:, i : i + 1], TOLERANCE)

"""`key_lengths` means the same as the mask of keys before them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.harness import (
    BATCH,
    KEYS,
    KINDS,
    QUERIES,
    array,
    build,
    check_close,
    cross_inputs,
    each,
    each_kind,
    each_path,
    output_bias,
    random_mask,
    self_input,
)
from tests.layers.test_query_chunks import REFUSED

LENGTHS = np.array([4, 0])
MASK = np.arange(KEYS) < LENGTHS[:, None]
each_that_fits = each([case for case in KINDS if case.layer not in REFUSED])


def check_same(layer, *inputs, lengths=LENGTHS, mask=MASK, **call):
    """The same results, scores too."""
    results = layer(*inputs, key_lengths=lengths, **call), layer(*inputs, key_mask=mask, **call)
    for one, other in zip(*map(keras.tree.flatten, results), strict=True):
        check_close(one, other, 1e-6)


@each_kind
@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_lengths_are_a_mask_of_keys(case, scores, causal):
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    check_same(layer, *inputs, return_attention_scores=scores, use_causal_mask=causal)
    assert (array(layer(*inputs, key_lengths=LENGTHS))[1] == output_bias(layer)).all()


@each_kind
def test_lengths_with_other_masks(case):
    inputs = cross_inputs()
    layer = build(case.make(sliding_window=4), *inputs)
    keys, values = random_mask((BATCH, KEYS)), random_mask((BATCH, KEYS), 4)
    call = {"value_mask": values, "query_mask": random_mask((BATCH, QUERIES), 5), "use_causal_mask": True}
    call["attention_mask"] = random_mask((BATCH, QUERIES, KEYS))
    output = layer(*inputs, key_lengths=LENGTHS, key_mask=keys, **call)
    check_close(output, layer(*inputs, key_mask=keys & MASK, **call), 1e-6)


@each_that_fits
@pytest.mark.parametrize("causal", [False, True])
def test_lengths_in_chunks(case, causal):
    inputs = cross_inputs()
    whole = build(case.make(query_chunk_size=None), *inputs)
    chunks = build(case.make(query_chunk_size=2), *inputs)
    call = {"key_lengths": LENGTHS, "use_causal_mask": causal}
    check_close(chunks(*inputs, **call), whole(*inputs, **call))
    check_same(chunks, *inputs, use_causal_mask=causal)
    check_same(chunks, *inputs, use_causal_mask=causal, return_attention_scores=True)


@each_path
def test_gradients(case):
    inputs = [tf.constant(x) for x in cross_inputs()]
    layer = build(case.make(), *inputs)

    def gradients(**call):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.sin(layer(*inputs, **call)))
        return tape.gradient(loss, [*inputs, *layer.trainable_weights], unconnected_gradients="zero")

    for one, other in zip(gradients(key_lengths=LENGTHS), gradients(key_mask=MASK), strict=True):
        check_close(one, other, 1e-6)


@each_path
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_lengths_of_any_integers(case, dtype):
    """Also longer ones than the keys."""
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    lengths = np.array([4, KEYS + 2], dtype)
    for given in (lengths, tf.constant(lengths)):
        check_same(layer, *inputs, lengths=given, mask=np.arange(KEYS) < lengths[:, None])


@each([case for case in KINDS if case.causal])
def test_lengths_with_a_cache(case):
    """As a mask of keys: of a whole memory it is read, of new rows it is not."""
    query, value, key = cross_inputs()
    layer = build(case.make(), query, value, key)
    check_same(layer, query, cache=layer.project_cache(value, key))
    x = self_input()
    layer = build(case.make(), x)
    call = {"cache": layer.init_cache(BATCH, KEYS), "index": 0, "use_causal_mask": True}
    check_same(layer, x, x, lengths=np.array([1, 2]), mask=np.arange(QUERIES) < [[1], [2]], **call)


@each_path
def test_queries_of_one_item(case):
    query, value, key = cross_inputs()
    layer = build(case.make(), query, value, key)
    check_same(layer, query[:1], value, key)


@each_path
@pytest.mark.parametrize("jit_compile", [False, True])
def test_lengths_in_a_graph(case, jit_compile):
    query, value, key = cross_inputs()
    layer = build(case.make(), query, value, key)
    signature = [tf.TensorSpec((None, None, x.shape[-1])) for x in (query, value, key)]
    signature.append(tf.TensorSpec((None,), "int32"))
    call = tf.function(
        lambda query, value, key, lengths: layer(query, value, key, key_lengths=lengths),
        signature,
        jit_compile=jit_compile,
    )
    output = call(query, value, key, LENGTHS.astype("int32"))
    check_close(output, layer(query, value, key, key_mask=MASK), 1e-6)


@each_path
def test_lengths_as_input_of_a_model(case):
    inputs = [keras.Input((None, x.shape[-1])) for x in cross_inputs()]
    lengths = keras.Input((), dtype="int32")
    layer = case.make()
    model = keras.Model([*inputs, lengths], layer(*inputs, key_lengths=lengths))
    output = model([*cross_inputs(), LENGTHS.astype("int32")])
    check_close(output, layer(*cross_inputs(), key_mask=MASK), 1e-6)

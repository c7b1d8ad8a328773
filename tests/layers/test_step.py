"""`Attention.step`, for decoders that are not Transformers, gives what a call with a cache gives."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    SIZES,
    array,
    build,
    check_close,
    cross_inputs,
    each_causal_layer,
    each_layer,
    each_path,
    output_bias,
    random_mask,
    self_input,
)

OPTIONS = {"use_gate": True, "qk_norm": True, "sliding_window": 3, "dropout": 0.5}


def memory_of(case, **arguments):
    """A built layer of attention to a memory, its queries, and a cache of the memory."""
    query, value, key = cross_inputs()
    layer = build(case.make(role="cross", **arguments), query, value, key)
    return layer, query, layer.project_cache(value, key)


@each_layer
def test_steps_to_a_memory(case):
    layer, query, cache = memory_of(case)
    mask, by_call = random_mask((BATCH, KEYS)), cache
    for index in range(QUERIES):
        expected, by_call = layer(query[:, index : index + 1], cache=by_call, index=index, key_mask=mask)
        output, cache = layer.step(query[:, index], cache, mask, position=index)
        check_close(output, expected[:, 0])
        assert set(cache) == set(by_call)
        for name in cache:
            check_close(cache[name], by_call[name])


@each_causal_layer
def test_a_step_to_a_cache_of_self_attention(case):
    """Under norm, rotation, gate and window the last query sees what it sees in the whole sequence."""
    if case.make().rows_interact:
        pytest.skip("the cache holds the row of the last query already")
    x = self_input(length=6)
    layer = build(case.make(**OPTIONS), x)
    _, cache = layer(x, x, cache=layer.init_cache(BATCH, 8), index=0, use_causal_mask=True)
    output, _ = layer.step(x[:, -1], cache, np.arange(8)[None] < 6, position=5)
    check_close(output, layer(x, x, use_causal_mask=True)[:, -1], 5e-6)


@each_path
def test_precision(case):
    layer, query, cache = memory_of(case, dtype="mixed_bfloat16")
    output, after = layer.step(query[:, 0], cache)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    assert {name: x.dtype for name, x in after.items()} == {name: x.dtype for name, x in cache.items()}
    check_close(output, layer(query[:, :1], cache=cache)[:, 0], 0.05)


def test_factors_of_the_weights():
    query, value, key = cross_inputs()
    layer = build(layers.MultiHeadAttention(**SIZES), query, value, key)
    cache, kept = layer.project_cache(value, key), np.ones((BATCH, HEADS, KEYS), "float32")
    kept[:, 1] = 0.0
    heads_left = keras.ops.convert_to_tensor([1.0, 0.0, 1.0])[None, :, None]
    expected = layer(query[:, :1], cache={**cache, "value": cache["value"] * heads_left[..., None]})
    check_close(layer.step(query[:, 0], cache, kept=kept)[0], expected[:, 0])
    output, _ = layer.step(query[:, 0], cache, kept=np.zeros((BATCH, 1, KEYS), "float32"))
    check_close(output, np.broadcast_to(output_bias(layer), output.shape))


def test_a_mask_by_head():
    query, value, key = cross_inputs()
    layer = build(layers.TalkingHeadsAttention(**SIZES), query, value, key)
    cache, mask = layer.project_cache(value, key), random_mask((BATCH, HEADS, KEYS))
    expected = layer(query[:, :1], cache=cache, attention_mask=mask[:, :, None])
    check_close(layer.step(query[:, 0], cache, mask)[0], expected[:, 0])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_loop_in_a_graph(jit_compile):
    """Of a layer whose cache changes from step to step."""
    query, value, _ = cross_inputs()
    layer = build(layers.EvolvingAttention(**SIZES, alpha=0.0, role="cross"), query, value)
    cache = layer.project_cache(value)

    @tf.function(jit_compile=jit_compile)
    def loop(query, cache):
        outputs = tf.TensorArray("float32", QUERIES, element_shape=query.shape[::2])
        for i in tf.range(QUERIES):
            output, cache = layer.step(tf.gather(query, i, axis=1), cache, position=i)
            outputs = outputs.write(i, output)
        return outputs.stack()

    outputs = array(loop(tf.constant(query), cache)).swapaxes(0, 1)
    check_close(outputs, layer(query, cache=cache, index=0)[0], 5e-6)

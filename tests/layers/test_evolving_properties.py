"""What evolving attention must do whatever its numbers: padding, causality, gradients, compilation, half precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.layers import EvolvingAttention, RealFormerAttention
from tests.layers.chains import build_chain, run_chain
from tests.layers.harness import (
    BATCH,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    array,
    build,
    check_close,
    check_slopes,
    copy_weights,
    cross_inputs,
    random_mask,
    self_input,
)

ROLES = ("encoder", "decoder", "cross")
few = settings(max_examples=10, deadline=None, derandomize=True)
shares = st.sampled_from([0.0, 0.1, 0.5, 1.0])
mechanisms = st.fixed_dictionaries(
    {"alpha": shares, "beta": shares, "kernel_size": st.sampled_from([1, 3, 5]), "convolve_first": st.booleans()}
)


def blocks_for(x, value=None, number=3, heads=2, layer=EvolvingAttention, **arguments):
    made = [layer(num_heads=heads, key_dim=3, dtype="float64", **arguments) for _ in range(number)]
    return build_chain(made, x, value)


def random(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


# -------------------------------------------------------------------------------------------------------- padding


@few
@given(mechanisms, st.integers(1, 6), st.integers(1, 7), st.sampled_from([0.0, 1.0, -1e3, 1e6]), st.integers(0, 99))
def test_neither_amount_nor_content_of_padding_matters(mechanism, length, amount, content, seed):
    """In the encoder, whose kernel reaches over the last token of a sentence, through a chain of blocks."""
    x = random(seed, 1, length, 8)
    blocks = blocks_for(x, role="encoder", **mechanism)
    expected, _ = run_chain(blocks, x)
    padded = np.pad(x, ((0, 0), (0, amount), (0, 0)), constant_values=content)
    real = np.arange(length + amount)[None] < length
    outputs, _ = run_chain(blocks, padded, query_mask=real, value_mask=real)
    for output, want in zip(outputs, expected, strict=True):
        check_close(array(output)[:, :length], want, 1e-9)


@pytest.mark.parametrize("layer", [EvolvingAttention, RealFormerAttention])
@pytest.mark.parametrize("role", ROLES)
def test_sentences_of_a_batch_do_not_know_of_each_other(role, layer):
    """As each alone, padded in the middle and on the left too; of the decoder the padding is on the right."""
    x, lengths = random(0, 3, 7, 8), (7, 4, 2)
    arguments = {"layer": layer, **({"role": role, "beta": 0.4} if layer is EvolvingAttention else {})}
    blocks = blocks_for(x, **arguments)
    real = np.arange(7)[None] < np.array(lengths)[:, None]
    noise = np.where(real[..., None], x, 1e4)
    outputs, _ = run_chain(blocks, noise, query_mask=real, value_mask=real, use_causal_mask=role == "decoder")
    for b, length in enumerate(lengths):
        alone, _ = run_chain(blocks, x[b : b + 1, :length], use_causal_mask=role == "decoder")
        check_close(array(outputs[-1])[b : b + 1, :length], alone[-1], 1e-9)


def test_masks_of_keras_go_along_the_chain():
    """Of an embedding: the padded queries' rows are 0 before the convolution as well."""
    tokens = keras.Input((None,), dtype="int32")
    states, carried = keras.layers.Embedding(9, QUERY_WIDTH, mask_zero=True)(tokens), None
    for _ in range(3):
        layer = EvolvingAttention(**SIZES, beta=0.5)
        states, carried = layer(states, states, previous_logits=carried, return_logits=True)
    model = keras.Model(tokens, states)
    for variable in model.trainable_variables:
        variable.assign(random(len(variable.path), *variable.shape) * 0.4)
    short, long = np.array([[3, 1, 4, 1]]), np.array([[3, 1, 4, 1, 0, 0, 0]])
    check_close(array(model(long))[:, :4], model(short), 1e-5)


# ------------------------------------------------------------------------------------------------------ causality


def differences(run, x, t, seed):
    """By how much each row of the output of `run` changes when the rows of `x` from `t` on do."""
    changed = x.copy()
    changed[:, t:] = 10 * random(seed + 1, *x[:, t:].shape)
    return np.abs(array(run(changed)) - array(run(x))).max(axis=(0, 2))


@few
@given(mechanisms, st.integers(2, 7), st.data())
def test_decoder_does_not_foresee(mechanism, length, data):
    t, seed = data.draw(st.integers(1, length - 1)), data.draw(st.integers(0, 99))
    x = random(seed, 2, length, 8)
    blocks = blocks_for(x, number=2, role="decoder", **mechanism)
    change = differences(lambda x: run_chain(blocks, x, use_causal_mask=True)[0][-1], x, t, seed)
    assert change[:t].max() < 1e-12
    assert change[t] > 1e-3


@few
@given(mechanisms, st.integers(2, 6), st.integers(1, 6), st.data())
def test_cross_attention_does_not_foresee_targets(mechanism, length, keys, data):
    """Of the source every row may see all."""
    t, seed = data.draw(st.integers(1, length - 1)), data.draw(st.integers(0, 99))
    x, value = random(seed, 2, length, 8), random(seed + 2, 2, keys, 5)
    blocks = blocks_for(x, value, 2, role="cross", **mechanism)
    change = differences(lambda x: run_chain(blocks, x, value)[0][-1], x, t, seed)
    assert change[:t].max() < 1e-12  # that row t does change is in the test below: not where the rectifier is shut
    change = differences(lambda value: run_chain(blocks, x, value)[0][-1], value, 0, seed)
    assert change.min() > 1e-3


@pytest.mark.parametrize("role, reads", [("encoder", (-1, 0, 1)), ("decoder", (0, 1, 2)), ("cross", (0, 1, 2))])
def test_rows_that_a_row_reads(role, reads):
    """Query i alone changes: of one block that convolves only the rows that look at it do, and all of them."""
    x, value = random(0, 1, 7, 8), random(1, 1, 7, 8)
    (block,) = blocks_for(x, value, 1, role=role, alpha=0.0, beta=0.5)
    block.map_bias.assign([3.0, 3.0])  # the rectifier stays open
    changed = x.copy()
    changed[:, 3] += 0.1
    change = np.abs(array(block(changed, value)) - array(block(x, value))).max(axis=(0, 2))
    assert {i for i in range(7) if change[i] > 1e-9} == {3 + offset for offset in reads}


# ------------------------------------------------------------------------------------------------------ gradients


@pytest.mark.parametrize("role", ROLES)
def test_gradients_against_finite_differences(role):
    """Float64, through the maps of two blocks: of the previous map and of every weight."""
    x, value = random(0, BATCH, QUERIES, 8), random(1, BATCH, KEYS, 5)
    previous = tf.Variable(random(2, BATCH, 2, QUERIES, KEYS))
    blocks = [EvolvingAttention(2, 3, dtype="float64", role=role, alpha=0.4, beta=0.5) for _ in range(2)]
    build_chain(blocks, x, value, logits_shape=previous.shape)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[0, 2] = False
    direction = random(3, BATCH, QUERIES, 8)
    variables = [v.value for block in blocks for v in block.trainable_variables] + [previous]
    assert len(variables) == 2 * 10 + 1

    @tf.function
    def loss():
        outputs, maps = run_chain(blocks, x, value, previous=previous, attention_mask=mask)
        return tf.reduce_sum(outputs[-1] * direction) + tf.reduce_sum(tf.where(mask[:, None], maps[-1], 0.0) ** 2)

    with tf.GradientTape() as tape:
        result = loss()
    gradients = [array(gradient) for gradient in tape.gradient(result, variables)]
    check_slopes(loss, variables, gradients, rel=1e-5, abs=1e-7)


def test_gradients_of_the_decoder_kernel_are_of_its_lower_triangle_alone():
    x = tf.constant(self_input())
    layer = build(EvolvingAttention(**SIZES, role="decoder", alpha=0.0, beta=0.9), x)
    with tf.GradientTape() as tape:
        output = layer(x, x, use_causal_mask=True)
    gradient = np.abs(array(tape.gradient(output, layer.map_kernel.value))).max(axis=(2, 3))
    assert (gradient > 0).tolist() == np.tri(3, dtype=bool).tolist()


# ------------------------------------------------------------------------------------- compilation and precision


@pytest.mark.parametrize("role", ROLES)
def test_eager_equals_graph_equals_xla(role):
    """With lengths known to the graph and without."""
    query, value, key = cross_inputs()
    blocks = build_chain([EvolvingAttention(**SIZES, role=role, beta=0.5) for _ in range(3)], query, value, key)
    mask = random_mask((BATCH, QUERIES, KEYS))

    def call(query, value, key, mask):
        outputs, maps = run_chain(blocks, query, value, key, attention_mask=mask)
        return outputs[-1], tf.where(mask[:, None], maps[-1], 0.0)

    signature = [tf.TensorSpec((None, None, x.shape[-1])) for x in (query, value, key)]
    signature.append(tf.TensorSpec((None, None, None), tf.bool))
    expected = call(query, value, key, mask)
    for compiled in (tf.function(call, signature), tf.function(call, jit_compile=True)):
        for got, want in zip(compiled(query, value, key, mask), expected, strict=True):
            check_close(got, want, 1e-5)
    shorter = query[:, :3], value[:, :4], key[:, :4], mask[:, :3, :4]
    for got, want in zip(tf.function(call, signature)(*shorter), call(*shorter), strict=True):
        check_close(got, want, 1e-5)


@pytest.mark.parametrize("dtype, tolerance", [("mixed_float16", 2e-2), ("bfloat16", 1.5e-1)])
@pytest.mark.parametrize("layer", [EvolvingAttention, RealFormerAttention])
def test_half_precision(layer, dtype, tolerance):
    x = self_input()
    arguments = {"beta": 0.5} if layer is EvolvingAttention else {}
    mask = random_mask((BATCH, QUERIES, QUERIES))
    outputs = []
    for policy in (dtype, "float32"):
        blocks = build_chain([layer(**SIZES, **arguments, dtype=policy) for _ in range(3)], x)
        outputs.append(run_chain(blocks, x, attention_mask=mask)[0][-1])
    assert keras.backend.standardize_dtype(outputs[0].dtype) == dtype.removeprefix("mixed_")
    check_close(outputs[0], outputs[1], tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("role", ROLES)
def test_finite_for_large_maps(role, dtype):
    """Logits of 2e4: the kernel sums 9 positions of 3 heads, more than float16 holds."""
    x = self_input()
    plain = build(RealFormerAttention(**SIZES, use_bias=False), x)
    x = x * np.sqrt(2e4 / np.abs(array(plain(x, x, return_logits=True)[1])).max())
    layer = EvolvingAttention(**SIZES, role=role, alpha=0.0, beta=0.5, use_bias=False, dtype=dtype)
    copy_weights(plain, build(layer, x))
    layer.map_kernel.assign(np.full(layer.map_kernel.shape, 10.0))
    output, scores, carried = layer(x, x, return_attention_scores=True, return_logits=True, use_causal_mask=True)
    assert np.abs(array(carried)).max() > 5e3
    for result in (output, scores, carried):
        assert np.isfinite(array(result)).all()

"""Evolving attention and RealFormer against slow transcriptions of their equations, alone and in chains."""

import inspect
import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.layers import EvolvingAttention, MultiHeadAttention, RealFormerAttention, TalkingHeadsAttention
from tests.layers import oracles_evolving
from tests.layers.chains import build_chain, check_maps, realformer, run_chain, slow_chain
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    array,
    build,
    check_close,
    cross_inputs,
    random_mask,
    randomize,
    self_input,
)
from tests.refusals import refused

DOUBLE = 1e-12
ROLES = ("encoder", "decoder", "cross")
MAP = (BATCH, HEADS, QUERIES, QUERIES)
each_role = pytest.mark.parametrize("role", ROLES)


def make(number=3, heads=(HEADS,) * 3, layer=EvolvingAttention, **arguments):
    return [layer(**{**SIZES, "num_heads": h, "dtype": "float64", **arguments}) for h in heads[:number]]


def given(role, dtype="float64"):
    """Inputs of the attention that the role is for: of two sequences for `cross`, else of one."""
    return cross_inputs(dtype=dtype) if role == "cross" else (self_input(dtype=dtype),) * 3


def check_chain(blocks, inputs, mask=None, oracle=None, previous=None, **call):
    """Outputs, scores and, where a query may attend, maps of all blocks."""
    outputs, maps, scores = slow_chain(blocks, *inputs, mask, previous, **({"oracle": oracle} if oracle else {}))
    got_outputs, got_maps = run_chain(blocks, *inputs, previous=previous, **call)
    query, carried = inputs[0], previous
    for i, block in enumerate(blocks):
        check_close(got_outputs[i], outputs[i], DOUBLE)
        check_maps(got_maps[i], maps[i], True if mask is None else mask, DOUBLE)
        output, got_scores = block(query, *inputs[1:], previous_logits=carried, return_attention_scores=True, **call)
        check_close(output, outputs[i], DOUBLE)
        check_close(got_scores, scores[i], DOUBLE)
        query, carried = got_outputs[i], got_maps[i]


# ------------------------------------------------------------------------------------------------------ equations


@each_role
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("alpha, beta", [(0.5, 0.1), (0.0, 0.3), (0.4, 1.0), (0.3, 0.0), (1.0, 0.6), (0.0, 0.0)])
def test_chain_of_three_blocks(role, kernel_size, alpha, beta):
    """Under masks that differ between heads, rows and sentences, with a query that may attend to nothing."""
    inputs = given(role)
    blocks = build_chain(make(role=role, kernel_size=kernel_size, alpha=alpha, beta=beta), *inputs)
    mask = random_mask((BATCH, HEADS, QUERIES, inputs[1].shape[1]))
    mask[1, :, 3] = False
    check_chain(blocks, inputs, mask, attention_mask=mask)


@each_role
def test_without_masks(role):
    inputs = given(role)
    check_chain(build_chain(make(role=role, beta=0.4), *inputs), inputs)


@each_role
def test_masks_of_queries_and_values_and_the_causal_flag(role):
    """Each forbids positions: they are 0 before the convolution, a padded query's row too."""
    inputs = given(role)
    keys = inputs[1].shape[1]
    query_mask, value_mask = random_mask((BATCH, QUERIES)), random_mask((BATCH, keys), 4)
    mask = query_mask[:, :, None] & value_mask[:, None] & np.tri(QUERIES, keys, dtype=bool)
    masks = {"query_mask": query_mask, "value_mask": value_mask, "use_causal_mask": True}
    check_chain(build_chain(make(role=role, beta=0.5), *inputs), inputs, mask[:, None], **masks)


@each_role
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_first_block_that_convolves(role, alpha):
    inputs = given(role)
    mask = random_mask((BATCH, 1, QUERIES, inputs[1].shape[1]))
    blocks = build_chain(make(role=role, alpha=alpha, beta=0.4, convolve_first=True), *inputs)
    assert blocks[0].map_kernel.shape == (3, 3, HEADS, HEADS)
    check_chain(blocks, inputs, mask, attention_mask=mask)


@pytest.mark.parametrize("convolve_first", [False, True])
def test_a_map_of_another_shape_starts_the_chain_again(convolve_first):
    """Of another number of heads (3, 3, 2, 2), and of other lengths."""
    x = self_input(dtype="float64")
    blocks = make(4, (HEADS, HEADS, 2, 2), alpha=0.4, beta=0.3, convolve_first=convolve_first)
    check_chain(build_chain(blocks, x), (x, x, x))
    wider = np.random.default_rng(0).normal(size=(BATCH, HEADS, QUERIES, KEYS))
    (block,) = make(1, alpha=0.4, beta=0.3, convolve_first=convolve_first)
    block.build(x.shape, x.shape, x.shape, wider.shape)
    randomize(block)
    assert hasattr(block, "map_kernel") == convolve_first or block.map_kernel is None
    check_chain([block], (x, x, x), previous=wider)
    check_close(block(x, x, previous_logits=wider), block(x, x), 0)


def test_alpha_of_zero_ignores_the_previous_logits():
    x, rng = self_input(dtype="float64"), np.random.default_rng(0)
    (block,) = build_chain(make(1, alpha=0.0, beta=0.3), x)
    check_close(block(x, x, previous_logits=rng.normal(size=MAP)), block(x, x), DOUBLE)


@pytest.mark.parametrize("causal", [False, True])
def test_realformer(causal):
    inputs = given("cross")
    mask = random_mask((BATCH, 1, QUERIES, KEYS))
    blocks = build_chain(make(layer=RealFormerAttention), *inputs)
    allowed = mask & np.tri(QUERIES, KEYS, dtype=bool) if causal else mask
    check_chain(blocks, inputs, allowed, realformer, attention_mask=mask, use_causal_mask=causal)
    assert [w.path.split("/")[-2] for w in blocks[1].weights[::2]] == ["query", "key", "value", "attention_output"]


def test_realformer_starts_again_at_a_map_of_another_shape():
    x = self_input(dtype="float64")
    check_chain(build_chain(make(4, (HEADS, 2, 2, HEADS), RealFormerAttention), x), (x, x, x), oracle=realformer)


# -------------------------------------------------------------------------------------------------------- weights


PREVIOUS = {
    "none": None,
    "own": MAP,
    "heads": (BATCH, HEADS + 1, QUERIES, QUERIES),
    "queries": (BATCH, HEADS, QUERIES + 1, QUERIES),
    "keys": (BATCH, HEADS, QUERIES, KEYS),
}


@pytest.mark.parametrize("previous", PREVIOUS)
def test_weights_are_there_exactly_if_it_convolves(previous):
    x = self_input()
    plain = build(MultiHeadAttention(**SIZES), x)
    for alpha, beta, first in itertools.product((0.0, 0.5), (0.0, 0.1), (False, True)):
        layer = EvolvingAttention(**SIZES, alpha=alpha, beta=beta, convolve_first=first, kernel_size=5)
        layer.build(x.shape, x.shape, x.shape, PREVIOUS[previous])
        own = {w.path.split("/")[1]: tuple(w.shape) for w in layer.weights if w.path.count("/") == 1}
        expected = {"map_kernel": (5, 5, HEADS, HEADS), "map_bias": (HEADS,)}
        convolves = oracles_evolving.convolves(alpha, beta, previous == "own", first)
        assert own == (expected if convolves else {}), (alpha, beta, first)
        assert layer.count_params() == plain.count_params() + convolves * (25 * HEADS**2 + HEADS)


def test_built_by_its_first_call():
    """Keras passes on the shape of the map it is called with."""
    x = self_input()
    first, second = EvolvingAttention(**SIZES), EvolvingAttention(**SIZES)
    _, carried = first(x, x, return_logits=True)
    second(x, x, previous_logits=carried)
    assert (len(first.weights), len(second.weights)) == (8, 10)


def test_defaults():
    layer = EvolvingAttention(3, 4)
    assert (layer.role, layer.alpha, layer.beta, layer.kernel_size) == (None, 0.5, 0.1, 3)
    assert layer.convolve_first is False
    assert type(layer.map_initializer) is keras.initializers.GlorotUniform


# ----------------------------------------------------------------------------------------- the map as an argument


def test_order_of_results_and_shape_of_the_map():
    """Output, scores, map, cache."""
    query, value, key = cross_inputs()
    layer = build(EvolvingAttention(**SIZES, alpha=0.0, role="cross"), query, value, key)
    shape = (BATCH, HEADS, QUERIES, KEYS)
    assert tuple(layer.compute_logits_shape(query.shape, value.shape)) == shape
    output, scores, carried = layer(query, value, key, return_attention_scores=True, return_logits=True)
    np.testing.assert_allclose(array(scores).sum(-1), 1, rtol=1e-5)
    assert array(carried).min() < 0 and tuple(carried.shape) == shape
    cache = layer.project_cache(value, key)
    results = layer(query, cache=cache, index=0, return_attention_scores=True, return_logits=True)
    for result, expected in zip(results[:3], (output, scores, carried), strict=True):
        check_close(result, expected)
    assert set(cache) == set(results[3])


@pytest.mark.parametrize("layer", [MultiHeadAttention, TalkingHeadsAttention])
def test_a_layer_without_a_map_passes_on_the_one_it_got(layer):
    x = self_input()
    attention, carried = build(layer(**SIZES), x), tf.ones((BATCH, 2, 3, 4))
    output, passed = attention(x, x, previous_logits=carried, return_logits=True)
    assert passed is carried
    check_close(output, attention(x, x))
    output, passed = attention(x, x, return_logits=True)
    assert passed is None
    assert tuple(attention.compute_logits_shape(x.shape, x.shape, carried.shape)) == (BATCH, 2, 3, 4)
    assert attention.compute_logits_shape(x.shape, x.shape) is None


def test_shape_of_the_map_with_unknown_lengths():
    for layer in (EvolvingAttention(3, 4), RealFormerAttention(3, 4)):
        assert tuple(layer.compute_logits_shape((None, None, 8), (None, 7, 8), None)) == (None, 3, None, 7)
        assert tuple(layer.compute_logits_shape((2, 5, 8))) == (2, 3, 5, 5)


@each_role
def test_symbolic_map_is_the_real_one(role):
    x = keras.Input((None, QUERY_WIDTH))
    output, carried = EvolvingAttention(**SIZES, role=role)(x, x, return_logits=True)
    output, carried = EvolvingAttention(**SIZES, role=role)(output, output, previous_logits=carried, return_logits=True)
    assert tuple(carried.shape) == (None, HEADS, None, None)
    real = keras.Model(x, [output, carried])(self_input())
    assert [tuple(r.shape) for r in real] == [(BATCH, QUERIES, QUERY_WIDTH), MAP]


# -------------------------------------------------------------------------------------------------- configuration


UNUSUAL = {"role": "cross", "alpha": 0.25, "beta": 0.75, "kernel_size": 5, "convolve_first": True}


@pytest.mark.parametrize("map_initializer", ["glorot_uniform", "identity", "zeros", keras.initializers.Identity(0.5)])
def test_config_round_trip(map_initializer):
    layer = EvolvingAttention(**SIZES, **UNUSUAL, map_initializer=map_initializer)
    config = json.loads(json.dumps(layer.get_config()))
    assert {name: config[name] for name in UNUSUAL} == UNUSUAL
    assert EvolvingAttention.from_config(config).get_config() == layer.get_config()
    assert set(UNUSUAL) - {"role"} <= set(inspect.signature(EvolvingAttention.__init__).parameters)


@each_role
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_identity_kernel(role, kernel_size):
    """Positive logits pass as they are, but where a shift brings in zeros; without a role as in an encoder."""
    arguments = {**SIZES, "alpha": 0.0, "beta": 1.0, "kernel_size": kernel_size, "map_initializer": "identity"}
    layer, inputs = EvolvingAttention(**arguments, role=role), given(role, "float32")
    logits = EvolvingAttention(**{**arguments, "beta": 0.0})
    for one in (layer, logits):
        one.build(*(x.shape for x in inputs))
    layer.query_dense.set_weights(logits.query_dense.get_weights())
    layer.key_dense.set_weights(logits.key_dense.get_weights())
    expected, evolved = (array(one(*inputs, return_logits=True)[1]) for one in (logits, layer))
    shift = kernel_size // 2
    rows, columns = {"encoder": (0, 0), "decoder": (shift, shift), "cross": (shift, 0)}[role]
    check_close(evolved[:, :, rows:, columns:], np.maximum(expected, 0)[:, :, rows:, columns:])
    if role == "encoder":
        layer = EvolvingAttention(**arguments)
        layer.build(*(x.shape for x in inputs))
        np.testing.assert_array_equal(array(layer.map_kernel)[shift, shift], np.eye(HEADS))
        assert array(layer.map_kernel).sum() == HEADS


def test_initial_kernels():
    """Glorot's by default, whatever the other kernels have; each layer of a template has its own."""
    x = self_input()
    limit = (6 / (2 * 9 * HEADS)) ** 0.5
    layers_ = [EvolvingAttention(**SIZES, alpha=0.0, kernel_initializer="zeros") for _ in range(2)]
    layers_.append(
        EvolvingAttention(**SIZES, alpha=0.0, map_initializer=keras.initializers.TruncatedNormal(stddev=0.02))
    )
    for layer in layers_:
        layer.build(x.shape, x.shape)
    first, second, small = (array(layer.map_kernel) for layer in layers_)
    assert 0.8 * limit < np.abs(first).max() <= limit and not array(layers_[0].query_dense.kernel).any()
    assert np.abs(first - second).max() > 0.1 * limit
    assert 0.02 < np.abs(small).max() <= 0.04


@pytest.mark.parametrize("layer", ["EvolvingAttention", "RealFormerAttention"])
def test_file_of_a_chain(layer, tmp_path):
    x = keras.Input((None, QUERY_WIDTH))
    output, carried = getattr(layers, layer)(**SIZES)(x, x, return_logits=True)
    output = getattr(layers, layer)(**SIZES)(output, output, previous_logits=carried)
    model = keras.Model(x, output)
    randomize(model)
    model.save(tmp_path / "chain.keras")
    loaded = keras.models.load_model(tmp_path / "chain.keras")
    np.testing.assert_array_equal(array(loaded(self_input())), array(model(self_input())))
    assert model.count_params() == loaded.count_params()


def test_an_encoder_does_not_decode_step_by_step():
    """Its rows look at later ones; but with a kernel of 1 they do not."""
    x = self_input()
    layer = build(EvolvingAttention(**SIZES, alpha=0.0), x)
    for make_cache in (lambda: layer.init_cache(BATCH, 8), lambda: layer.project_cache(x)):
        with refused("role", "role=None"):
            make_cache()
    build(EvolvingAttention(**SIZES, alpha=0.0, kernel_size=1), x).init_cache(BATCH, 8)

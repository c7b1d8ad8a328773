"""Grouped queries: the public code's numbers, the stock layer's, and plain attention whose keys are repeated."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.positions import RelativePositions
from tests.layers import oracles, oracles_variants
from tests.layers.harness import (
    BATCH,
    KEYS,
    QUERIES,
    array,
    build,
    check_close,
    copy_weights,
    cross_inputs,
    random_mask,
    randomize,
    self_input,
)
from tests.layers.oracles_variants import DOUBLE

HEADS, KEY_DIM, VALUE_DIM = 4, 4, 5  # the stock layer takes the root of the width in float32
each_number_of_groups = pytest.mark.parametrize("groups", [1, 2, 4])


def make(groups=2, heads=HEADS, **options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", **options}
    return layers.GroupedQueryAttention(heads, KEY_DIM, num_key_value_heads=groups, **options)


# ------------------------------------------------------------------------------------------------ the public code


GOLDEN = {"gqa": {}, "mqa": {}, "mha": {}, "gate": {"use_gate": True}}
GROUPS = {"gqa": 3, "mqa": 1, "mha": 6, "gate": 3}


def golden_inputs(data):
    return [data[name].astype("float64") for name in ("query", "value", "key")]


def golden_weights(data, kind):
    """In the order of the stock layer."""
    order = json.loads(str(data["meta_json"]))["order"][kind.split(".")[0]]
    return {name.replace("/", "."): data[f"{kind}.w.{name}"].astype("float64") for name in order}


def golden_layer(kind, **options):
    groups = GROUPS[kind.split(".")[0]]
    return layers.GroupedQueryAttention(6, 4, num_key_value_heads=groups, dtype="float64", **options)


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_equations_are_the_public_code(golden, kind):
    data = golden("variants_gqa.npz")
    mask = data["attention_mask"] & data["key_mask"][:, None]
    weights = golden_weights(data, kind)
    out, scores = oracles_variants.attention(
        oracles_variants.grouped_query, weights, *golden_inputs(data), mask[:, None]
    )
    check_close(out, data[f"{kind}.out_f64"], DOUBLE)
    check_close(scores, data[f"{kind}.scores_f64"], DOUBLE)


@pytest.mark.parametrize("kind", GOLDEN)
def test_public_code(golden, kind):
    data = golden("variants_gqa.npz")
    inputs, weights = golden_inputs(data), golden_weights(data, kind)
    layer = oracles_variants.layer_with(golden_layer(kind, **GOLDEN[kind]), weights, *inputs)
    assert list(oracles_variants.by_name(layer)) == list(weights)
    masks = {"attention_mask": data["attention_mask"], "key_mask": data["key_mask"]}
    output, scores = layer(*inputs, return_attention_scores=True, **masks)
    check_close(output, data[f"{kind}.out_f64"], DOUBLE)
    check_close(scores, data[f"{kind}.scores_f64"], DOUBLE)
    check_close(layer(*inputs, **masks), data[f"{kind}.out_f64"], DOUBLE)


@pytest.mark.parametrize("kind", ["gqa.self", "mqa.self"])
def test_public_code_of_a_causal_window(golden, kind):
    data = golden("variants_gqa.npz")
    x = data["x"].astype("float64")
    layer = golden_layer(kind, sliding_window=3)
    layer = oracles_variants.layer_with(layer, golden_weights(data, kind), x, x)
    check_close(layer(x, x, use_causal_mask=True), data[f"{kind}.causal_window3.out_f64"], DOUBLE)


# ---------------------------------------------------------------------------------------------------- the stock layer


@pytest.mark.parametrize("options", [{}, {"use_gate": True}, {"use_bias": False}, {"sliding_window": 2}], ids=str)
@each_number_of_groups
def test_stock_layer(options, groups):
    """The weights go from ours to stock and back by `set_weights`."""
    inputs = cross_inputs(dtype="float64")
    stock = keras.layers.GroupQueryAttention(KEY_DIM, HEADS, groups, dtype="float64", **options)
    ours, back = (make(groups, value_dim=None, **options) for _ in range(2))
    for layer in (ours, stock, back):
        layer.build(*(x.shape for x in inputs))
    randomize(ours)
    assert [w.path.split("/")[-2:] for w in ours.weights] == [w.path.split("/")[-2:] for w in stock.weights]
    stock.set_weights(ours.get_weights())
    back.set_weights(stock.get_weights())
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask |= np.eye(QUERIES, KEYS, dtype=bool)  # where a query may attend to nothing the stock layer gives no zeros
    for call in ({}, {"attention_mask": mask}, {"use_causal_mask": True}):
        expected, expected_scores = stock(*inputs, return_attention_scores=True, **call)
        output, scores = back(*inputs, return_attention_scores=True, **call)
        check_close(output, expected, DOUBLE)
        check_close(scores, expected_scores, DOUBLE)
        check_close(back(*inputs, **call), expected, DOUBLE)


# ------------------------------------------------------------------------------------------------------- the equations


@each_number_of_groups
@pytest.mark.parametrize("use_gate", [False, True])
def test_equations(groups, use_gate):
    """With widths that differ, and a query that may attend to nothing."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(groups, use_gate=use_gate), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    for attention_mask in (None, mask, random_mask((BATCH, HEADS, QUERIES, KEYS))):
        oracles_variants.check(layer, oracles_variants.grouped_query, *inputs, attention_mask)
    output, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    bias = array(oracles_variants.by_name(layer)["attention_output.bias"])
    for result in (output, layer(*inputs, attention_mask=mask)):
        assert (array(result)[1, 3] == bias).all()
    assert not array(scores)[1, :, 3].any()


def repeated(layer, x, **options):
    """Plain attention with the same weights, each key and value head standing h / g times in place."""
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64", **options)
    plain.build(x.shape, x.shape)
    weights, groups = oracles_variants.by_name(layer), layer.num_key_value_heads
    for name, variable in oracles_variants.by_name(plain).items():
        value = array(weights[name])
        if name.split(".")[0] in ("key", "value"):
            value = np.repeat(value, HEADS // groups, axis=value.ndim - 2)
        variable.assign(value)
    return plain


@pytest.mark.parametrize(
    "options", [{}, {"use_gate": True}, {"sliding_window": 3}, {"relative_positions": RelativePositions(2)}], ids=str
)
def test_it_is_plain_attention_with_repeated_keys_and_values(options):
    x = self_input(dtype="float64")
    layer = build(make(**options), x)
    plain = repeated(layer, x, **options)
    for call in ({}, {"use_causal_mask": True}):
        expected, expected_scores = plain(x, x, return_attention_scores=True, **call)
        output, scores = layer(x, x, return_attention_scores=True, **call)
        check_close(output, expected, DOUBLE)
        check_close(scores, expected_scores, DOUBLE)
        check_close(layer(x, x, **call), expected, DOUBLE)


def test_as_many_groups_as_heads_is_multi_head_attention():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(HEADS), *inputs)
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64")
    plain.build(*(x.shape for x in inputs))
    copy_weights(layer, plain)
    check_close(layer(*inputs), plain(*inputs), DOUBLE)


def test_order_of_heads():
    """Groups may change places, and query heads within their group."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(use_gate=True), *inputs)
    expected, weights = array(layer(*inputs)), oracles.named_weights(layer)

    def in_order(*orders):
        return oracles_variants.layer_with(make(use_gate=True), oracles_variants.permuted(weights, *orders), *inputs)

    for orders in (([2, 3, 0, 1], [1, 0]), ([1, 0, 2, 3], [0, 1]), ([3, 2, 0, 1], [1, 0])):
        check_close(in_order(*orders)(*inputs), expected, DOUBLE)
    assert np.abs(array(in_order([2, 3, 0, 1], [0, 1])(*inputs)) - expected).max() > 1e-3


# ------------------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("options", [{}, {"sliding_window": 3, "use_gate": True}], ids=str)
@each_number_of_groups
def test_decoding(groups, options):
    x = self_input(dtype="float64", length=6)
    layer = build(make(groups, **options), x)
    cache = oracles_variants.check_decoding(layer, x)
    assert tuple(cache["key"].shape) == (BATCH, groups, 8, KEY_DIM)
    assert tuple(cache["value"].shape) == (BATCH, groups, 8, VALUE_DIM)


@each_number_of_groups
def test_cross_attention_from_a_cache(groups):
    inputs = cross_inputs(dtype="float64")
    cache = oracles_variants.check_cross_decoding(build(make(groups), *inputs), *inputs)
    assert tuple(cache["key"].shape) == (BATCH, groups, KEYS, KEY_DIM)
    assert tuple(cache["value"].shape) == (BATCH, groups, KEYS, VALUE_DIM)


def test_the_cache_is_as_many_times_smaller_as_heads_share_a_key():
    x = self_input(dtype="float64")
    sizes = {}
    for groups in (1, 2, 4):
        layer = build(make(groups), x)
        sizes[groups] = oracles_variants.numbers_a_key(layer.init_cache(BATCH, 8))
        assert oracles_variants.numbers_a_key(layer.project_cache(x)) == sizes[groups]
    plain = build(layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM), x).init_cache(BATCH, 8)
    whole = oracles_variants.numbers_a_key(plain)
    assert sizes == {groups: whole * groups / HEADS for groups in sizes}
    assert layers.GroupedQueryAttention(HEADS, KEY_DIM).num_key_value_heads == 1


# ------------------------------------------------------------------------------------------------------------- training


def test_gradients():
    """That of a key or value head is the sum of what plain attention has for each of its copies."""
    x = self_input(dtype="float64")
    layer = build(make(), x)
    factors = np.random.default_rng(0).normal(size=x.shape)
    found = []
    for one in (layer, repeated(layer, x)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(factors * one(x, x))
        variables = {name: weight.value for name, weight in oracles_variants.by_name(one).items()}
        found.append({name: array(gradient) for name, gradient in tape.gradient(loss, variables).items()})
    for name, gradient in found[0].items():
        expected = found[1][name]
        if name.split(".")[0] in ("key", "value"):
            *outer, _, width = expected.shape
            expected = expected.reshape(*outer, 2, HEADS // 2, width).sum(axis=-2)
        check_close(gradient, expected, DOUBLE)
        assert np.abs(gradient).max() > 1e-3 or name == "key.bias"  # it moves all logits of a row alike


@pytest.mark.parametrize("groups", [1, 2])
def test_heads_for_repulsive(groups):
    """The heads of keys and values are the groups."""
    layer = build(make(groups), *cross_inputs())
    expected = {"query": (1, HEADS), "key": (1, groups), "value": (1, groups), "attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(layer) == expected

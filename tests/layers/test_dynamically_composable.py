"""Dynamically composed heads: the public code's numbers, the equations, and the layers it is at special weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from tests.layers import oracles, oracles_variants
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEY_WIDTH,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    VALUE_DIM,
    array,
    build,
    check_close,
    copy_weights,
    cross_inputs,
    random_mask,
    self_input,
)
from tests.layers.oracles_variants import DOUBLE

DYNAMIC = [f"{side}_{kind}_kernel" for side in ("query", "key") for kind in ("hidden", "composition", "gate")]
VARIANTS = {
    "whole": {},
    "rank_1": {"rank": 1},
    "gates": {"rank": 0},
    "gates_alone": {"rank": 0, "static": False},
    "pre": {"post_compose": False},
    "post": {"pre_compose": False},
    "query": {"key_compose": False},
    "key": {"query_compose": False, "static": False},
    "static": {"query_compose": False, "key_compose": False},
    "released": {"static": False},
}
each_variant = pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)


def make(**options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", **options}
    return layers.DynamicallyComposableAttention(HEADS, KEY_DIM, **options)


def equation(options):
    return oracles_variants.dynamically_composable(**options)


# ------------------------------------------------------------------------------------------------- the public code


PLACES = {"query": [0, 2], "key": [1, 3]}  # of pre-query, pre-key, post-query, post-key


def golden_composition(data, sides=("query", "key")):
    """The weights of both places, in the order pre, post."""
    weights = {}
    for side in sides:
        places = PLACES[side]
        weights[f"{side}_hidden_kernel"] = data["w.dw1"][:, 0, places].astype("float64")
        weights[f"{side}_composition_kernel"] = data["w.qkw"][0, places].astype("float64")
        weights[f"{side}_gate_kernel"] = data["w.dd"].reshape(24, 4, 4)[:, places].astype("float64")
    return weights


def golden_projections(data):
    kernels = data["w.wqkv"].astype("float64").reshape(3, 4, 6, 24).transpose(0, 3, 1, 2)
    weights = {f"{name}.kernel": kernel for name, kernel in zip(("query", "key", "value"), kernels, strict=True)}
    return weights | {"attention_output.kernel": data["w.wo"].astype("float64").T.reshape(4, 6, 24)}


def golden_static(data):
    return {"static_kernel": np.stack([data["w.static_pre"], data["w.static_post"]]).astype("float64")}


WHOLE_SEQUENCE = {
    "causal.nope.out_f64": {"static": False},
    "np.causal.nope.query_wise_out_f64": {"static": False, "key_compose": False},
}


def whole_sequence(data, options):
    sides = ("query",) if options.get("key_compose") is False else ("query", "key")
    return data["x"].astype("float64"), golden_projections(data) | golden_composition(data, sides)


@pytest.mark.parametrize("name", WHOLE_SEQUENCE)
def test_the_equations_are_the_public_code(golden, name):
    data = golden("variants_dcmha.npz")
    x, weights = whole_sequence(data, WHOLE_SEQUENCE[name])
    causal = np.tri(7, dtype=bool)[None, None]
    out, _ = oracles_variants.attention(equation({}), weights, x, x, mask=causal)
    check_close(out, data[name], DOUBLE)


@pytest.mark.parametrize("side, letter", [("query", "q"), ("key", "k")])
def test_the_equations_of_its_parts_are_the_public_code(golden, side, letter):
    data = golden("variants_dcmha.npz")
    weights, rows = golden_composition(data), data[f"cross.{side}"].astype("float64")
    for place, name in enumerate(("pre", "post")):
        for b, i in np.ndindex(rows.shape[:2]):
            found = oracles_variants.composition_of(weights, side, place, rows[b, i], 4)
            for value, kind in zip(found, ("w1", "w2", "dd"), strict=True):
                check_close(value, data[f"cross.{name}_{letter}{kind}_f64"][b, i], DOUBLE)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_the_equations_of_compositions_are_the_public_code(golden, kind):
    data = golden("variants_dcmha.npz")
    weights = golden_composition(data) | (golden_static(data) if kind == "static" else {})
    for b in range(2):
        inputs = {f"inputs.{side}": data[f"cross.{side}"][b].astype("float64") for side in ("query", "key")}
        logits = oracles_variants.compose(weights | inputs, data["cross.logits"][b].astype("float64"), 0)
        check_close(logits, data[f"cross.{kind}.logits_f64"][b], DOUBLE)
        mask = np.repeat(data["cross.mask"][b], 4, axis=0)
        maps = oracles_variants.compose(weights | inputs, oracles_variants.softmaxes({}, logits, mask), 1)
        check_close(maps, data[f"cross.{kind}.weights_f64"][b], DOUBLE)


@pytest.mark.parametrize("name", WHOLE_SEQUENCE)
def test_public_code(golden, name):
    data = golden("variants_dcmha.npz")
    options = WHOLE_SEQUENCE[name]
    x, weights = whole_sequence(data, options)
    layer = layers.DynamicallyComposableAttention(4, 6, use_bias=False, dtype="float64", **options)
    layer = oracles_variants.layer_with(layer, weights, x, x)
    check_close(layer(x, x, use_causal_mask=True), data[name], DOUBLE)


@pytest.mark.parametrize("part", ["both", "pre"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_public_code_of_cross_attention(golden, kind, part):
    """Of given logits: kernels that make each key a row of the identity, and each query its row of logits."""
    data = golden("variants_dcmha.npz")
    query, key = data["cross.query"].astype("float64"), data["cross.key"].astype("float64")
    logits = np.zeros((4, 14, 10))
    for b in range(2):
        logits[:, 7 * b : 7 * b + 7, 5 * b : 5 * b + 5] = data["cross.logits"][b]
    of_query, of_key = (np.linalg.pinv(x.reshape(-1, 24)) for x in (query, key))
    weights = {
        "query.kernel": np.stack([of_query @ head * np.sqrt(10) for head in logits], axis=1),
        "key.kernel": np.stack([of_key] * 4, axis=1),
        "value.kernel": np.ones((24, 4, 1)),
        "attention_output.kernel": np.ones((4, 1, 24)),
        **golden_composition(data),
        **(golden_static(data) if kind == "static" else {}),
    }
    options = {"static": kind == "static", "post_compose": part == "both"}
    if part == "pre":
        for name in weights.keys() & {*DYNAMIC, "static_kernel"}:
            axis = 1 if "hidden" in name or "gate" in name else 0
            weights[name] = np.take(weights[name], [0], axis=axis)
    layer = layers.DynamicallyComposableAttention(4, 10, value_dim=1, use_bias=False, dtype="float64", **options)
    layer = oracles_variants.layer_with(layer, weights, query, key)
    _, scores = layer(query, key, attention_mask=data["cross.mask"], return_attention_scores=True)
    expected = data[f"cross.{kind}.weights_f64"]
    if part == "pre":
        mask = np.broadcast_to(data["cross.mask"], expected.shape)
        pairs = zip(data[f"cross.{kind}.logits_f64"], mask, strict=True)
        expected = np.stack([oracles_variants.softmaxes({}, *pair) for pair in pairs])
    check_close(scores, expected, 1e-11)  # what the pseudoinverses leave


# ---------------------------------------------------------------------------------------------------- the equations


@each_variant
def test_equations(options):
    """With widths that differ, and a query that may attend to nothing."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(**options), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    oracles_variants.check(layer, equation(options), *inputs, mask)
    output, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    assert (array(output)[1, 3] == array(oracles_variants.by_name(layer)["attention_output.bias"])).all()
    assert not array(scores)[1, :, 3].any()
    assert not array(scores)[np.broadcast_to(~mask[:, None], scores.shape)].any()


def test_equations_of_self_attention_and_of_masks_by_head():
    x = self_input(dtype="float64")
    layer = build(make(use_gate=True), x)
    oracles_variants.check(layer, equation({}), x, x)
    oracles_variants.check(layer, equation({}), x, x, None, random_mask((BATCH, HEADS, QUERIES, QUERIES)))
    causal = np.tri(QUERIES, dtype=bool)[None, None]
    oracles_variants.check(layer, equation({}), x, x, mask=causal, use_causal_mask=True)


@each_variant
def test_weights_there_are(options):
    shapes = oracles_variants.own_weights(build(make(**options), *cross_inputs()))
    rank = options.get("rank", 2)
    places = options.get("pre_compose", True) + options.get("post_compose", True)
    hidden, expected = 2 * rank * HEADS, {}
    for side, width in (("query", QUERY_WIDTH), ("key", KEY_WIDTH)):
        if options.get(f"{side}_compose", True):
            expected[f"{side}_gate_kernel"] = (width, places, HEADS)
            if rank:
                expected[f"{side}_hidden_kernel"] = (width, places, hidden)
                expected[f"{side}_composition_kernel"] = (places, hidden, 2 * rank, HEADS)
    if options.get("static", True):
        expected["static_kernel"] = (places, HEADS, HEADS)
    assert shapes == expected


def test_number_and_spread_of_weights():
    """Of width 512 and 8 heads, without the static ones: 86,016 more than plain attention has."""
    layer, plain = layers.DynamicallyComposableAttention(8, 64), layers.MultiHeadAttention(8, 64)
    for one in (layer, plain):
        one.build((None, 5, 512), (None, 5, 512))
    weights = oracles_variants.by_name(layer)
    assert layer.count_params() - plain.count_params() - 2 * 8 * 8 == 86_016
    spread = {"hidden": (2 / (512 + 32)) ** 0.5, "composition": 0.02 / (32**0.5 * (8 + 2))}
    spread["gate"] = 0.005 * (2 / (512 + 8)) ** 0.5
    for side in ("query", "key"):
        for kind, expected in spread.items():
            kernel = array(weights[f"{side}_{kind}_kernel"])
            np.testing.assert_allclose(kernel.std(), expected, rtol=0.1)
            assert abs(kernel.mean()) < 0.1 * expected
    np.testing.assert_allclose(array(weights["static_kernel"]).std(), 0.1 / 8**0.5, rtol=0.3)


# ----------------------------------------------------------------------------- the layers it is at special weights


def without_composition(layer):
    """Neither the dynamic nor the static kind."""
    oracles_variants.set_weights(layer, **dict.fromkeys([name for name in DYNAMIC if "hidden" not in name], 0.0))
    oracles_variants.set_weights(layer, static_kernel=0.0)
    return layer


def check_same(layer, other, *inputs):
    mask = random_mask((BATCH, inputs[0].shape[1], inputs[1].shape[1]))
    mask[0, 2] = False
    for call in ({}, {"attention_mask": mask}, {"use_causal_mask": True}):
        expected, expected_scores = other(*inputs, return_attention_scores=True, **call)
        output, scores = layer(*inputs, return_attention_scores=True, **call)
        check_close(output, expected, DOUBLE)
        check_close(scores, expected_scores, DOUBLE)
        check_close(layer(*inputs, **call), expected, DOUBLE)


def test_multi_head_attention():
    """With second factors, gates and static kernels of 0, whatever the first factors are."""
    inputs = cross_inputs(dtype="float64")
    layer = without_composition(build(make(), *inputs))
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64")
    plain.build(*(x.shape for x in inputs))
    copy_weights(layer, plain)
    check_same(layer, plain, *inputs)


def test_talking_heads():
    """With static kernels that are theirs less the identity."""
    inputs = cross_inputs(dtype="float64")
    layer = without_composition(build(make(), *inputs))
    talking = build(layers.TalkingHeadsAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64"), *inputs, seed=2)
    copy_weights(layer, talking)
    kernels = np.stack([array(talking.pre_softmax_kernel), array(talking.post_softmax_kernel)])
    oracles_variants.set_weights(layer, static_kernel=kernels - np.eye(HEADS))
    check_same(layer, talking, *inputs)


def test_heads_that_interact_by_a_sum():
    """With 1 - I between the heads' logits; theirs are of all queries with one head's keys: of keys that are alike."""
    inputs = cross_inputs(dtype="float64")
    layer = without_composition(build(make(), *inputs))
    weights = oracles_variants.by_name(layer)
    for name, axis in (("key.kernel", 1), ("key.bias", 0)):
        oracles_variants.set_weights(layer, **{name: np.take(array(weights[name]), [0] * HEADS, axis=axis)})
    oracles_variants.set_weights(layer, static_kernel=np.stack([1 - np.eye(HEADS), np.zeros((HEADS, HEADS))]))
    other = layers.InteractingHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64")
    other.build(*(x.shape for x in inputs))
    copy_weights(layer, other)
    check_same(layer, other, *inputs)


AXES = {
    **{f"{side}_composition_kernel": (3,) for side in ("query", "key")},
    **{f"{side}_gate_kernel": (2,) for side in ("query", "key")},
    "static_kernel": (1, 2),
}


def test_order_of_heads():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(), *inputs)
    expected, weights, order = array(layer(*inputs)), oracles.named_weights(layer), [2, 0, 1]
    permuted = oracles_variants.permuted(weights, order, **AXES)
    check_close(oracles_variants.layer_with(make(), permuted, *inputs)(*inputs), expected, DOUBLE)
    for left in AXES:  # one weight in the old order is another layer
        wrong = oracles_variants.layer_with(make(), permuted | {left: weights[left]}, *inputs)
        assert np.abs(array(wrong(*inputs)) - expected).max() > 1e-4


# ------------------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("name", ["whole", "query", "gates", "post"])
def test_decoding(name):
    """The cache has the factors and gates of the keys, of each place: 2R + 1 numbers a head."""
    options, x = VARIANTS[name], self_input(dtype="float64", length=6)
    layer = build(make(**options), x)
    cache = oracles_variants.check_decoding(layer, x)
    assert tuple(cache["key"].shape) == (BATCH, HEADS, 8, KEY_DIM)
    assert tuple(cache["value"].shape) == (BATCH, HEADS, 8, VALUE_DIM)
    places = {"whole": 2, "query": 0, "gates": 2, "post": 1}[name]
    composition = places * (2 * options.get("rank", 2) + 1) * HEADS
    assert oracles_variants.numbers_a_key(cache) == HEADS * (KEY_DIM + VALUE_DIM) + composition


@pytest.mark.parametrize("name", ["whole", "key", "query"])
def test_cross_attention_from_a_cache(name):
    inputs = cross_inputs(dtype="float64")
    oracles_variants.check_cross_decoding(build(make(**VARIANTS[name]), *inputs), *inputs)


# ------------------------------------------------------------------------------------------------------------- training


def test_gradients():
    """They reach every place of every weight."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    gradients = oracles_variants.check_gradients(layer, *inputs, attention_mask=mask)
    for name in (*DYNAMIC, "static_kernel"):
        place = 1 if "hidden" in name or "gate" in name else 0
        for gradient in np.moveaxis(gradients[name], place, 0):
            assert np.abs(gradient).max() > 1e-5, name


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_second_path_to_the_inputs(dynamic):
    """Where all logits are 0, inputs of queries and keys still have a part, in the weights after the softmax."""
    inputs = [tf.constant(x) for x in cross_inputs(dtype="float64")]
    layer = build(make(query_compose=dynamic, key_compose=dynamic), *inputs)
    oracles_variants.set_weights(layer, **{"query.kernel": 0.0, "query.bias": 0.0, "key.kernel": 0.0, "key.bias": 0.0})
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(layer(*inputs) ** 2)
    of_query, of_value, of_key = tape.gradient(loss, inputs, unconnected_gradients="zero")
    assert np.abs(of_value).max() > 1e-3
    for gradient in (of_query, of_key):
        assert (np.abs(gradient).max() > 1e-3) == dynamic


def test_heads_for_repulsive():
    """Those of plain attention; a matrix from heads to heads is no set of them."""
    layer = build(make(), *cross_inputs())
    expected = {"query": (1, HEADS), "key": (1, HEADS), "value": (1, HEADS), "attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(layer) == expected


def test_composed_logits_beyond_float16():
    x = (100 * np.random.default_rng(0).standard_normal((2, 16, 64))).astype("float32")
    for seed in range(3):
        keras.utils.set_random_seed(seed)
        layer = layers.DynamicallyComposableAttention(4, 16, dtype="mixed_float16")
        assert np.isfinite(array(layer(x, x))).all()


# -------------------------------------------------------------------------------------------------------- configuration


def test_configuration():
    options = {"rank": 1, "pre_compose": False, "query_compose": False, "static": False}
    layer = make(**options)
    again = layers.DynamicallyComposableAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert options.items() <= again.get_config().items()
    defaults = layers.DynamicallyComposableAttention(3, 4).get_config()
    everything = dict.fromkeys(("pre_compose", "post_compose", "query_compose", "key_compose", "static"), True)
    assert (everything | {"rank": 2}).items() <= defaults.items()

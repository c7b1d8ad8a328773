"""Differential attention: the numbers of two public codes, the equations, and talking heads that are it."""

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.layers import CallState
from tests.layers import oracles, oracles_variants
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEY_WIDTH,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    VALUE_WIDTH,
    array,
    build,
    check_close,
    copy_weights,
    cross_inputs,
    random_mask,
    self_input,
)
from tests.layers.oracles_variants import DOUBLE

VALUE_DIM = 5


def make(**options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", **options}
    return layers.DifferentialAttention(HEADS, KEY_DIM, **options)


# ------------------------------------------------------------------------------------------------ the public codes


NAMES = {"q": "query", "k": "key", "v": "value"}


def golden_lambdas(data, prefix):
    return np.stack([data[f"{prefix}lambda_{name}"] for name in ("q1", "k1", "q2", "k2")]).astype("float64")


def hugging_face(data):
    """First maps, then second maps; the halves of a value as its maps; a key or value for two heads; no norm weight."""
    kernels = {name: data[f"w.{name}_proj.weight"].astype("float64").T.reshape(20, 2, -1, 6) for name in NAMES}
    pairs = {NAMES[name]: kernel.transpose(0, 2, 1, 3).reshape(20, -1, 12) for name, kernel in kernels.items()}
    return {
        **{f"{name}.kernel": np.repeat(kernel, 4 // kernel.shape[1], axis=1) for name, kernel in pairs.items()},
        "attention_output.kernel": data["w.o_proj.weight"].astype("float64").T.reshape(4, 12, 20),
        "lambda_vectors": golden_lambdas(data, "w."),
        "norm_scale": np.ones(12),
    }


def unilm(data, name):
    """Pairs of maps side by side, which is the order here."""
    kernels = {n: data[f"w.{name}.{n}_proj.weight"].astype("float64").T.reshape(48, -1, 12) for n in NAMES}
    return {
        **{f"{NAMES[n]}.kernel": np.repeat(kernel, 4 // kernel.shape[1], axis=1) for n, kernel in kernels.items()},
        "attention_output.kernel": data[f"w.{name}.out_proj.weight"].astype("float64").T.reshape(4, 12, 48),
        "lambda_vectors": golden_lambdas(data, f"w.{name}."),
        "norm_scale": data[f"w.{name}.subln.weight"].astype("float64"),
    }


GOLDEN = {
    "causal.nope.out_f64": "hugging_face",
    "masked.nope.out_f64": "hugging_face",
    "unilm.causal.nope.out_f64": "unilm",
    "unilm.masked.nope.out_f64": "unilm",
    "unilm_grouped.causal.nope.out_f64": "unilm_grouped",
}


def golden_case(data, name):
    """Input, weights, mask (B or 1, 7, 7)."""
    kind = GOLDEN[name]
    x = data["x" if kind == "hugging_face" else "unilm.x"].astype("float64")
    mask = data["causal_mask"][None] if "causal" in name else data["mask"]
    return x, hugging_face(data) if kind == "hugging_face" else unilm(data, kind), mask


def golden_scores(data, name):
    maps = data[name.replace("out", "maps")]
    return maps[:, :4] - data["lambda_f64"] * maps[:, 4:]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_equations_are_the_public_code(golden, name):
    data = golden("variants_differential.npz")
    x, weights, mask = golden_case(data, name)
    out, scores = oracles_variants.attention(oracles_variants.differential(3), weights, x, x, mask=mask[:, None])
    check_close(out, data[name], DOUBLE)
    if GOLDEN[name] == "hugging_face":
        check_close(scores, golden_scores(data, name), DOUBLE)
        found = oracles_variants.lambda_of(weights["lambda_vectors"], 3)
        np.testing.assert_allclose(found, data["lambda_f64"], rtol=1e-14)


@pytest.mark.parametrize("name", GOLDEN)
def test_public_code(golden, name):
    data = golden("variants_differential.npz")
    x, weights, mask = golden_case(data, name)
    layer = layers.DifferentialAttention(4, 6, depth=3, use_bias=False, dtype="float64")
    layer = oracles_variants.layer_with(layer, weights, x, x)
    for masks in ({"attention_mask": mask}, {"use_causal_mask": True})[: 1 + ("causal" in name)]:
        output, scores = layer(x, x, return_attention_scores=True, **masks)
        check_close(output, data[name], DOUBLE)
        check_close(layer(x, x, **masks), data[name], DOUBLE)
        if GOLDEN[name] == "hugging_face":
            check_close(scores, golden_scores(data, name), DOUBLE)


# ---------------------------------------------------------------------------------------------------- the equations


@pytest.mark.parametrize("options", [{}, {"depth": 2, "use_gate": True}, {"value_dim": None}], ids=str)
def test_equations(options):
    """With widths that differ, and a query that may attend to nothing. The gate comes after the norm."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(**options), *inputs)
    equation = oracles_variants.differential(options.get("depth"))
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    for attention_mask in (None, mask):
        oracles_variants.check(layer, equation, *inputs, attention_mask)
    output, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    assert tuple(scores.shape) == (BATCH, HEADS, QUERIES, KEYS)
    bias = array(oracles_variants.by_name(layer)["attention_output.bias"])
    for result in (output, layer(*inputs, attention_mask=mask)):
        assert (array(result)[1, 3] == bias).all()
    assert not array(scores)[1, :, 3].any()
    assert not array(scores)[np.broadcast_to(~mask[:, None], scores.shape)].any()


def test_weights_there_are():
    """Queries and keys of two maps a head, values twice as wide as one map."""
    layer = build(make(value_dim=None), *cross_inputs())
    shapes = {name: tuple(weight.shape) for name, weight in oracles_variants.by_name(layer).items()}
    assert shapes == {
        "query.kernel": (QUERY_WIDTH, HEADS, 2 * KEY_DIM),
        "query.bias": (HEADS, 2 * KEY_DIM),
        "key.kernel": (KEY_WIDTH, HEADS, 2 * KEY_DIM),
        "key.bias": (HEADS, 2 * KEY_DIM),
        "value.kernel": (VALUE_WIDTH, HEADS, 2 * KEY_DIM),
        "value.bias": (HEADS, 2 * KEY_DIM),
        "attention_output.kernel": (HEADS, 2 * KEY_DIM, QUERY_WIDTH),
        "attention_output.bias": (QUERY_WIDTH,),
        "lambda_vectors": (4, KEY_DIM),
        "norm_scale": (2 * KEY_DIM,),
    }
    assert layer.lambda_vectors is oracles_variants.by_name(layer)["lambda_vectors"]
    assert layer.norm_scale is oracles_variants.by_name(layer)["norm_scale"]
    wide = layers.DifferentialAttention(2, 1000)
    wide.build((1, 2, 4), (1, 2, 4))
    vectors = array(wide.lambda_vectors)
    np.testing.assert_allclose(vectors.std(), 0.1, rtol=0.1)
    assert abs(vectors.mean()) < 0.01
    assert (array(wide.norm_scale) == 1).all()


# ------------------------------------------------------------------------------------------------------------- lambda


@pytest.mark.parametrize("depth, expected", [(None, 0.2), (0, 0.2), (1, 0.356), (2, 0.471), (3, 0.556), (100, 0.8)])
def test_lambda_of_vectors_of_zeros(depth, expected):
    """Each row of two softmaxes sums to 1 - lambda; one less lambda0 is the size of the normed heads, too."""
    x = self_input(dtype="float64")
    layer = build(make(depth=depth, value_dim=2, output_shape=2 * HEADS, use_bias=False), x)
    kernel = np.eye(2 * HEADS).reshape(HEADS, 2, 2 * HEADS)
    values = 1e4 * array(layer.value_dense.kernel)  # beside which the norm's epsilon is nothing
    oracles_variants.set_weights(
        layer, lambda_vectors=0.0, norm_scale=1.0, **{"attention_output.kernel": kernel, "value.kernel": values}
    )
    output, scores = layer(x, x, return_attention_scores=True)
    np.testing.assert_allclose(array(scores).sum(-1), 1 - expected, atol=5e-4)
    sizes = np.sqrt((array(output).reshape(BATCH, QUERIES, HEADS, 2) ** 2).mean(-1))
    np.testing.assert_allclose(sizes, 1 - expected, atol=5e-4)


def talking(layer, *inputs):
    """Talking heads with its projections: 2h softmaxes of the maps as they are, h heads of their differences."""
    other = layers.TalkingHeadsAttention(
        2 * HEADS,
        KEY_DIM,
        value_heads=HEADS,
        value_dim=layer.value_dim,
        output_shape=HEADS * layer.value_dim,
        dtype="float64",
    )
    other.build(*(x.shape for x in inputs))
    weights, width = oracles.named_weights(layer), layer.value_dim
    post = np.zeros((2 * HEADS, HEADS))
    for i in range(HEADS):
        post[2 * i, i] = 1
        post[2 * i + 1, i] = -oracles_variants.lambda_of(weights["lambda_vectors"], layer.depth)
    projections = {}
    for name in ("query", "key"):
        kernel, bias = weights[f"{name}.kernel"], weights[f"{name}.bias"]
        projections[f"{name}.kernel"] = kernel.reshape(-1, 2 * HEADS, KEY_DIM)
        projections[f"{name}.bias"] = bias.reshape(2 * HEADS, KEY_DIM)
    oracles_variants.set_weights(
        other,
        **projections,
        **{name: weights[name] for name in ("value.kernel", "value.bias")},
        **{"attention_output.kernel": np.eye(HEADS * width).reshape(HEADS, width, -1), "attention_output.bias": 0.0},
        pre_softmax_kernel=np.eye(2 * HEADS),
        post_softmax_kernel=post,
    )
    return other


def test_talking_heads():
    """But for the norm: their heads, normed, are those of this layer."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(depth=1), *inputs)
    other, weights = talking(layer, *inputs), oracles.named_weights(layer)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[0, 2] = False
    for call in ({}, {"attention_mask": mask}, {"use_causal_mask": True}):
        heads, expected_scores = other(*inputs, return_attention_scores=True, **call)
        heads = array(heads).reshape(BATCH, QUERIES, HEADS, VALUE_DIM)
        normed = oracles_variants.head_norm(heads, weights["norm_scale"], 1)
        expected = np.einsum("bnhe,hed->bnd", normed, weights["attention_output.kernel"])
        expected += weights["attention_output.bias"]
        output, scores = layer(*inputs, return_attention_scores=True, **call)
        check_close(scores, expected_scores, DOUBLE)
        check_close(output, expected, DOUBLE)
        check_close(layer(*inputs, **call), expected, DOUBLE)


def test_two_maps_that_are_equal():
    """They leave 1 - lambda of one map, and the norm takes that factor away."""
    x = self_input(dtype="float64")
    layer = build(make(), x)
    weights = oracles.named_weights(layer)
    for name in ("query.kernel", "query.bias", "key.kernel", "key.bias"):
        first = weights[name][..., :KEY_DIM]
        oracles_variants.set_weights(layer, **{name: np.concatenate([first, first], axis=-1)})
    oracles_variants.set_weights(layer, **{"value.kernel": 1e4 * weights["value.kernel"]})  # epsilon is nothing
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64")
    plain.build(x.shape, x.shape)
    for name in ("query", "key"):
        for kind in ("kernel", "bias"):
            oracles_variants.set_weights(plain, **{f"{name}.{kind}": weights[f"{name}.{kind}"][..., :KEY_DIM]})
    _, map_of_one = plain(x, x, return_attention_scores=True)
    outputs = []
    for vectors in (np.zeros((4, KEY_DIM)), np.array([[-0.6], [0.2], [0.5], [0.1]]) * np.ones(KEY_DIM)):
        oracles_variants.set_weights(layer, lambda_vectors=vectors)
        left = 1 - oracles_variants.lambda_of(vectors, 0)
        output, scores = layer(x, x, return_attention_scores=True)
        assert left > 0.5
        check_close(scores, left * array(map_of_one), DOUBLE)
        outputs.append(output)
    assert left > 1
    check_close(outputs[0], outputs[1], 1e-10)


# ----------------------------------------------------------------------------------------------------------- order


def test_order_of_heads():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(), *inputs)
    expected, weights = array(layer(*inputs)), oracles.named_weights(layer)
    permuted = oracles_variants.permuted(weights, [2, 0, 1])
    check_close(oracles_variants.layer_with(make(), permuted, *inputs)(*inputs), expected, DOUBLE)
    exchanged = dict(weights)  # the two maps of a head are not alike
    for name in ("query.kernel", "query.bias", "key.kernel", "key.bias"):
        exchanged[name] = np.roll(weights[name], KEY_DIM, axis=-1)
    other = oracles_variants.layer_with(make(), exchanged, *inputs)
    assert np.abs(array(other(*inputs)) - expected).max() > 1e-3


# ------------------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("options", [{}, {"depth": 2, "sliding_window": 3, "use_gate": True}], ids=str)
def test_decoding(options):
    x = self_input(dtype="float64", length=6)
    layer = build(make(**options), x)
    cache = oracles_variants.check_decoding(layer, x)
    assert tuple(cache["value"].shape) == (BATCH, HEADS, 8, VALUE_DIM)
    assert oracles_variants.numbers_a_key(cache) == HEADS * (2 * KEY_DIM + VALUE_DIM)


# ------------------------------------------------------------------------------------------------------------- training


def test_gradients():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(depth=1), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    gradients = oracles_variants.check_gradients(layer, *inputs, attention_mask=mask)
    assert np.abs(gradients["norm_scale"]).min() > 1e-3
    for of_vector in gradients["lambda_vectors"]:
        assert np.abs(of_vector).max() > 1e-3


def test_weights_are_dropped_after_the_subtraction():
    """One-hot values show which: half of the entries, and the others as they were, but for the norm of their row."""
    x = np.eye(12)[None]
    layer = layers.DifferentialAttention(
        2, 4, value_dim=12, output_shape=24, dropout=0.5, use_bias=False, seed=0, dtype="float64"
    )
    build(layer, x)
    one_hot = {"value.kernel": np.eye(12)[:, None], "attention_output.kernel": np.eye(24).reshape(2, 12, 24)}
    oracles_variants.set_weights(layer, norm_scale=1.0, **one_hot)
    output, scores = layer(x, x, training=True, return_attention_scores=True)
    heads = array(output).reshape(12, 2, 12).transpose(1, 0, 2)
    kept = heads != 0
    assert 0.35 < kept.mean() < 0.65
    scores = array(scores)[0]
    assert (scores != 0).all()
    for i, r in np.ndindex(2, 12):
        ratios = heads[i, r, kept[i, r]] / scores[i, r, kept[i, r]]
        assert (ratios > 0).all()
        np.testing.assert_allclose(ratios, ratios[:1].repeat(len(ratios)), rtol=1e-10)


def test_heads_for_repulsive():
    """A head is a pair of maps."""
    layer = build(make(), *cross_inputs())
    expected = {"query": (1, HEADS), "key": (1, HEADS), "value": (1, HEADS), "attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(layer) == expected


# -------------------------------------------------------------------------------------------------------- configuration


def test_a_copy_gives_the_same():
    x = self_input(dtype="float64")
    layer = build(make(depth=2), x)
    again = layers.DifferentialAttention.from_config(layer.get_config())
    again.build(x.shape, x.shape)
    copy_weights(layer, again)
    check_close(again(x, x), layer(x, x), DOUBLE)


# ------------------------------------------------------------------------------------------------- the second version


@pytest.mark.parametrize("options", [{}, {"qk_norm": True, "use_gate": "head"}, {"query_chunk_size": 2}], ids=str)
def test_equations_per_token(options):
    x, mask = self_input(dtype="float64"), random_mask((BATCH, QUERIES, QUERIES))
    mask[1, 2] = False
    layer = build(make(per_token=True, **options), x)
    query, key, value = (array(layer.project(name, x, CallState())) for name in ("query", "key", "value"))
    assert query.shape[1] == 2 * HEADS and key.shape[1] == value.shape[1] == HEADS
    query, key = (layer.apply_positions(side, x, np.arange(QUERIES)) for side, x in (("query", query), ("key", key)))
    share = 1 / (1 + np.exp(-x @ array(layer.lambda_kernel)))
    gates = array(layer.project("gate", x, CallState())) if "use_gate" in options else np.ones((BATCH, HEADS, 1, 1))
    expected = np.zeros((BATCH, HEADS, QUERIES, layer.value_dim))
    for b, h in np.ndindex(BATCH, HEADS):
        parts = []
        for i in (2 * h, 2 * h + 1):
            logits = array(query)[b, i] @ array(key)[b, h].T * KEY_DIM**-0.5
            maps = np.exp(logits) * mask[b]
            maps = maps / np.maximum(maps.sum(axis=1, keepdims=True), 1e-300)
            parts.append(maps @ value[b, h])
        expected[b, h] = gates[b, h] * (parts[0] - share[b, :, h : h + 1] * parts[1])
    merged = np.einsum("bhnd,hdo->bno", expected, array(layer.output_dense.kernel)) + array(layer.output_dense.bias)
    check_close(layer(x, x, attention_mask=mask), merged, DOUBLE)
    output, weights = layer(x, x, attention_mask=mask, return_attention_scores=True)
    check_close(output, merged, DOUBLE)
    assert weights.shape == (BATCH, 2 * HEADS, QUERIES, QUERIES)


def test_decoding_per_token():
    x = self_input(dtype="float64")
    layer = build(make(per_token=True), x)
    whole, cache, steps = layer(x, x, use_causal_mask=True), layer.init_cache(BATCH, QUERIES), []
    for i in range(QUERIES):
        piece = x[:, i : i + 1]
        output, cache = layer(piece, piece, cache=cache, index=i, use_causal_mask=True)
        steps.append(output)
    check_close(np.concatenate(steps, axis=1), array(whole), DOUBLE)
    assert cache["key"].shape == (BATCH, HEADS, QUERIES, KEY_DIM)
    assert layers.DifferentialAttention.from_config(layer.get_config()).per_token

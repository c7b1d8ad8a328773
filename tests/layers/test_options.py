"""What every layer can be told: QK-norm, a soft-cap, sinks, a bias of the logits, segments in one row."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.positions import RelativePositions, RotaryPositions
from tests.layers import oracles, oracles_variants
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    KINDS,
    QUERIES,
    SIZES,
    array,
    build,
    check_close,
    copy_weights,
    cross_inputs,
    each,
    each_layer_by_content,
    random_mask,
    self_input,
)
from tests.layers.oracles_variants import DOUBLE

CAP = 0.7
ALL = {"qk_norm": True, "attn_logits_soft_cap": CAP, "use_sinks": True}
OPTIONS = {"qk_norm": {"qk_norm": True}, "cap": {"attn_logits_soft_cap": CAP}, "sinks": {"use_sinks": True}, "all": ALL}
# The class, its arguments, its equation, and over how many heads its softmax is.
LAYERS = {
    "multi_head": ("MultiHeadAttention", SIZES, oracles_variants.grouped_query, HEADS),
    "grouped_query": (
        "GroupedQueryAttention",
        {**SIZES, "num_heads": 4, "num_key_value_heads": 2},
        oracles_variants.grouped_query,
        4,
    ),
    "dynamically_composable": (
        "DynamicallyComposableAttention",
        SIZES,
        oracles_variants.dynamically_composable(),
        HEADS,
    ),
    "differential": ("DifferentialAttention", SIZES, oracles_variants.differential(), 2 * HEADS),
    "mixture_of_heads": (
        "MixtureOfHeadsAttention",
        {**SIZES, "num_heads": 4},
        oracles_variants.mixture_of_heads(1, 2),
        4,
    ),
    "re_attention": ("ReAttention", SIZES, oracles_variants.re_attention(), HEADS),
    "knocking_heads": ("KnockingHeadsAttention", SIZES, oracles_variants.knocking_heads, HEADS),
    "multi_token": (
        "MultiTokenAttention",
        {**SIZES, "logits_kernel_size": (3, 5), "weights_kernel_size": (2, 3), "mix_logits": True},
        oracles_variants.multi_token(),
        HEADS,
    ),
    "multi_head_explicit": (
        "MultiHeadExplicitAttention",
        {**SIZES, "num_components": 2},
        oracles_variants.multi_head_explicit,
        HEADS,
    ),
    "collaborative": (
        "CollaborativeAttention",
        {**SIZES, "shared_dim": KEY_DIM},
        oracles_variants.collaborative(KEY_DIM),
        HEADS,
    ),
    "interleaved": (
        "InterleavedHeadAttention",
        {**SIZES, "num_pseudo_tokens": 2},
        oracles_variants.interleaved(),
        HEADS,
    ),
    "paired_heads": ("PairedHeadsAttention", {**SIZES, "num_heads": 4}, oracles_variants.paired_heads, 4),
}
each_equation = pytest.mark.parametrize("name", LAYERS)
# Multi-token attention reads the rows before a query, whose order counts; its own tests compare these.
each_of_rows_alone = pytest.mark.parametrize("name", [name for name in LAYERS if name != "multi_token"])


def make(name="multi_head", **options):
    kind, arguments, *_ = LAYERS[name]
    return getattr(layers, kind)(**{**arguments, "dtype": "float64", **options})


def random_bias(*shape):
    return np.random.default_rng(5).normal(size=shape)


# -------------------------------------------------------------------------------------------------------- the equations


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@each_equation
def test_equations(name, options):
    """With a bias, which is not capped, under a mask of which one row is empty."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(name, **options), *inputs)
    _, _, equation, heads = LAYERS[name]
    mask, bias = random_mask((BATCH, QUERIES, KEYS)), random_bias(BATCH, 1, QUERIES, KEYS)
    mask[1, 3] = False
    cap = options.get("attn_logits_soft_cap")
    assert ("sinks" in oracles_variants.by_name(layer)) == ("use_sinks" in options)
    oracles_variants.check(layer, equation, *inputs, mask, cap=cap, bias=bias)
    output, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    assert (array(output)[1, 3] == array(oracles_variants.by_name(layer)["attention_output.bias"])).all()
    assert not array(scores)[1, :, 3].any()


@each_equation
def test_weights_there_are(name):
    """One scale for all heads, a sink for each map that has a softmax; the projections' order is as ever."""
    heads = LAYERS[name][-1]
    x = self_input()
    layer, plain = build(make(name, use_gate=True, **ALL), x), build(make(name, use_gate=True), x)
    shapes, plain_shapes = (oracles_variants.own_weights(one) for one in (layer, plain))
    added = {"query_norm_scale": (KEY_DIM,), "key_norm_scale": (KEY_DIM,), "sinks": (heads,)}
    assert shapes == plain_shapes | added and not plain_shapes.keys() & added.keys()
    orders = [[n for n in oracles_variants.by_name(one) if "." in n] for one in (layer, plain)]
    assert orders[0] == orders[1]


def test_first_values_of_weights():
    layer = layers.MultiHeadAttention(500, 1, qk_norm=True, use_sinks=True)
    layer.build((1, 2, 4), (1, 2, 4))
    weights = oracles_variants.by_name(layer)
    assert (array(weights["query_norm_scale"]) == 1).all() and (array(weights["key_norm_scale"]) == 1).all()
    np.testing.assert_allclose(array(weights["sinks"]).std(), 0.02, rtol=0.15)


# ------------------------------------------------------------------------------------------------------ the public code


def golden_layer(data, **options):
    """Projections that take the heads as they are out of one input `(B, n, 48)`, queries first, and leave them so."""
    layer = layers.GroupedQueryAttention(
        6, 4, num_key_value_heads=3, use_bias=False, output_shape=24, dtype="float64", **options
    )
    weights, start = {}, 0
    for name, heads in (("query", 6), ("key", 3), ("value", 3)):
        weights[f"{name}.kernel"] = np.eye(48)[:, start : start + 4 * heads].reshape(48, heads, 4)
        start += 4 * heads
    weights["attention_output.kernel"] = np.eye(24).reshape(6, 4, 24)
    if options.get("qk_norm"):
        weights |= {f"{side}_norm_scale": data[f"qk_norm.{side}_scale"].astype("float64") for side in ("query", "key")}
    if options.get("use_sinks"):
        weights["sinks"] = data["sinks"].astype("float64")
    return oracles_variants.layer_with(layer, weights, *[np.zeros((2, 7, 48))] * 2)


def golden_input(data, query="q", key="k", value="v"):
    """A query input and a key input; where there are as many queries as keys they are one."""
    parts = [data[name].astype("float64").transpose(0, 2, 1, 3) for name in (query, key, value)]
    parts = [part.reshape(*part.shape[:2], -1) for part in parts]
    keys = np.concatenate([np.zeros((2, 7, 24)), *parts[1:]], axis=-1)
    if parts[0].shape[1] == 7:
        keys[..., :24] = parts[0]
        return keys, keys
    return np.pad(parts[0], ((0, 0), (0, 0), (0, 24))), keys


def check_golden(layer, inputs, maps, heads, **call):
    output, scores = layer(*inputs, return_attention_scores=True, **call)
    heads = heads.transpose(0, 2, 1, 3).reshape(*heads.shape[::2], 24)
    check_close(scores, maps, DOUBLE)
    check_close(output, heads, DOUBLE)
    check_close(layer(*inputs, **call), heads, DOUBLE)


GOLDEN = {"softcap": {"attn_logits_soft_cap": 1.3}, "sinks": {"use_sinks": True}, "off_by_one": {"use_sinks": True}}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_equations_are_the_public_code(golden, name):
    data = golden("variants_options.npz")
    weights = {"softcap": {}, "sinks": {"sinks": data["sinks"]}, "off_by_one": {"sinks": np.zeros(6)}}[name]
    for b in range(2):
        query, key, value = (data[n][b].astype("float64").swapaxes(0, 1) for n in "qkv")
        mask = np.repeat(data["mask"][b], 6, axis=0)
        cap = 1.3 if name == "softcap" else None
        maps, heads = oracles_variants.grouped_query(weights, query, key, value, mask, cap)
        check_close(maps, data[f"{name}.maps_f64"][b], DOUBLE)
        check_close(heads, data[f"{name}.heads_f64"][b].swapaxes(0, 1), DOUBLE)


def test_the_equations_of_qk_norm_are_the_public_code(golden):
    data = golden("variants_options.npz")
    scales = {f"{side}_norm_scale": data[f"qk_norm.{side}_scale"].astype("float64") for side in ("query", "key")}
    for b, i in np.ndindex(2, 6):
        found = oracles_variants.dot(scales, data["q"][b, i].astype("float64"), data["k"][b, i // 2].astype("float64"))
        expected = data["qk_norm.q_f64"][b, i] @ data["qk_norm.k_f64"][b, i // 2].T * 4**-0.5
        check_close(found, expected, DOUBLE)


@pytest.mark.parametrize("name", GOLDEN)
def test_public_code(golden, name):
    data = golden("variants_options.npz")
    layer = golden_layer(data, **GOLDEN[name])
    if name == "off_by_one":
        oracles_variants.set_weights(layer, sinks=0.0)
    maps, heads = data[f"{name}.maps_f64"], data[f"{name}.heads_f64"]
    check_golden(layer, golden_input(data), maps, heads, attention_mask=data["mask"])


def test_public_code_of_qk_norm(golden):
    """As a layer without it has for queries and keys that are normed."""
    data = golden("variants_options.npz")
    plain, layer = golden_layer(data), golden_layer(data, qk_norm=True)
    normed = golden_input(data, "qk_norm.q_f64", "qk_norm.k_f64")
    expected, expected_scores = plain(*normed, attention_mask=data["mask"], return_attention_scores=True)
    inputs = golden_input(data)
    output, scores = layer(*inputs, attention_mask=data["mask"], return_attention_scores=True)
    check_close(scores, expected_scores, DOUBLE)
    check_close(output, expected, DOUBLE)
    check_close(layer(*inputs, attention_mask=data["mask"]), expected, DOUBLE)
    assert np.abs(array(plain(*inputs, attention_mask=data["mask"])) - array(expected)).max() > 1e-2


def test_segments_of_golden_vectors(golden):
    data = golden("variants_options.npz")
    maps, heads = (data[f"np.segments.causal.{name}_f64"] for name in ("maps", "heads"))
    inputs = golden_input(data, "segments.q")
    call = {"segment_ids": data["segment_ids"].astype("int32"), "use_causal_mask": True}
    check_golden(golden_layer(data), inputs, maps, heads, **call)


# ----------------------------------------------------------------------------------------------------------- each layer


# Those without options of their own. Rows of an evolving map read those before them, of whatever segment.
each_layer = each([case for case in KINDS if case.name != "options"])
SEGMENTED = [case for case in KINDS if case.name != "options" and not case.make().rows_interact]
each_layer_by_segment = each(SEGMENTED)


def pair(case, x, **options):
    """A layer with options and one without, that have the same weights."""
    layer, plain = build(case.make(dtype="float64", **options), x), build(case.make(dtype="float64"), x)
    copy_weights(plain, layer)
    return layer, plain


@each_layer
def test_no_bias_one_segment_and_no_limit_change_nothing(case):
    x = self_input(dtype="float64")
    layer, plain = pair(case, x, attn_logits_soft_cap=1e7, use_sinks=True)
    oracles_variants.set_weights(layer, sinks=-1e9)
    call = {"bias": np.zeros((1, 1, QUERIES, QUERIES))}
    if not layer.rows_interact:
        call["segment_ids"] = np.ones((BATCH, QUERIES), "int32")
    expected, expected_scores = plain(x, x, return_attention_scores=True)
    output, scores = layer(x, x, return_attention_scores=True, **call)
    check_close(output, expected, 1e-10)
    check_close(scores, expected_scores, 1e-10)
    check_close(layer(x, x, **call), expected, 1e-10)


SETTINGS = {
    "qk_norm": ({"qk_norm": True}, {}),
    "cap": ({"attn_logits_soft_cap": 0.1}, {}),
    "sinks": ({"use_sinks": True}, {}),
    "bias": ({}, {"bias": random_bias(BATCH, 1, QUERIES, QUERIES)}),
    "segments": ({}, {"segment_ids": np.arange(QUERIES)[None].repeat(BATCH, 0) // 3}),
}


@each_layer
def test_each_changes_outputs_alike_with_and_without_scores(case):
    x = self_input(dtype="float64")
    plain = build(case.make(dtype="float64"), x)
    expected = array(plain(x, x))
    for setting, (options, call) in SETTINGS.items():
        if setting == "segments" and plain.rows_interact:
            continue
        layer = plain
        if options:
            layer = build(case.make(dtype="float64", **options), x)
            copy_weights(plain, layer)
        output, _ = layer(x, x, return_attention_scores=True, **call)
        check_close(layer(x, x, **call), output, DOUBLE)
        # The norm of explicit heads takes away nearly all that a sink does.
        least = 1e-4 if (case.name, setting) == ("multi_head_explicit", "sinks") else 1e-3
        assert np.abs(array(output) - expected).max() > least, setting


# -------------------------------------------------------------------------------------------------------------- QK-norm


def test_qk_norm_keeps_the_scale():
    """Of rows of mean square 1 the logits are d^-0.5 times their products, here 2 and 0."""
    x = np.array([[[1, 1, 1, 1], [1, -1, 1, -1]]], "float64")
    layer = layers.MultiHeadAttention(1, 4, use_bias=False, qk_norm=True, dtype="float64")
    layer.build(x.shape, x.shape)
    for name in ("query", "key"):
        oracles_variants.set_weights(layer, **{f"{name}.kernel": np.eye(4)[:, None]})
    _, scores = layer(x, x, return_attention_scores=True)
    own = np.exp(2) / (np.exp(2) + 1)
    np.testing.assert_allclose(array(scores)[0, 0], [[own, 1 - own], [1 - own, own]], atol=1e-6)
    for name in ("query", "key"):  # whose size is of no account
        oracles_variants.set_weights(layer, **{f"{name}.kernel": 7 * np.eye(4)[:, None]})
    np.testing.assert_allclose(array(layer(x, x, return_attention_scores=True)[1]), array(scores), atol=1e-5)
    oracles_variants.set_weights(layer, query_norm_scale=3.0)
    own = np.exp(6) / (np.exp(6) + 1)
    np.testing.assert_allclose(array(layer(x, x, return_attention_scores=True)[1])[0, 0, 0, 0], own, atol=1e-5)


def test_qk_norm_has_an_epsilon():
    x = self_input(dtype="float64")
    layer = build(make(qk_norm=0.5), x)
    weights, normed = oracles.named_weights(layer), {}
    for side in ("query", "key"):
        heads = oracles.project(weights, side, x)
        normed[side] = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 0.5) * weights[f"{side}_norm_scale"]
    logits = np.exp(np.einsum("bnhd,bmhd->bhnm", normed["query"], normed["key"]) / np.sqrt(KEY_DIM))
    _, scores = layer(x, x, return_attention_scores=True)
    check_close(scores, logits / logits.sum(-1, keepdims=True), DOUBLE)
    plain = build(make(qk_norm=True), x)
    copy_weights(layer, plain)
    assert np.abs(array(plain(x, x)) - array(layer(x, x))).max() > 1e-3
    same = build(make(qk_norm=1e-6), x)
    copy_weights(layer, same)
    np.testing.assert_array_equal(array(same(x, x)), array(plain(x, x)))


def test_a_cache_has_keys_that_are_normed():
    query, value, key = cross_inputs(dtype="float64")
    layer = build(make(qk_norm=True), query, value, key)
    oracles_variants.set_weights(layer, key_norm_scale=1.0)
    cache = layer.project_cache(value, key)
    np.testing.assert_allclose((array(cache["key"]) ** 2).mean(3), 1, atol=1e-3)


# ------------------------------------------------------------------------------------------------------------- soft-cap


def test_relative_positions_are_not_capped():
    x = self_input(dtype="float64")
    layer = build(make(attn_logits_soft_cap=CAP, relative_positions=RelativePositions(2)), x)
    weights = oracles.named_weights(layer)
    (table,) = (weight for name, weight in weights.items() if name.endswith("embeddings"))
    query = oracles.project(weights, "query", x)
    bias = np.zeros((BATCH, HEADS, QUERIES, QUERIES))
    for b, h, i, j in np.ndindex(bias.shape):
        bias[b, h, i, j] = query[b, i, h] @ table[np.clip(j - i, -2, 2) + 2] / np.sqrt(KEY_DIM)
    expected, scores = oracles_variants.attention(oracles_variants.grouped_query, weights, x, x, cap=CAP, bias=bias)
    output, found = layer(x, x, return_attention_scores=True)
    check_close(found, scores, DOUBLE)
    check_close(output, expected, DOUBLE)


# ---------------------------------------------------------------------------------------------------------------- sinks


@pytest.mark.parametrize("masked", [False, True])
def test_a_sink_is_a_column_that_is_dropped(masked):
    """As one key more, of no value, whose logit is a bias."""
    query, value, key = cross_inputs(dtype="float64")
    layer = build(make(use_sinks=True, use_bias=False), query, value, key)
    plain = make(use_bias=False)
    plain.build(query.shape, value.shape, key.shape)
    copy_weights(layer, plain)
    mask = random_mask((BATCH, QUERIES, KEYS)) if masked else np.ones((BATCH, QUERIES, KEYS), bool)
    more = [np.pad(x, ((0, 0), (0, 1), (0, 0))) for x in (value, key)]
    bias = np.zeros((1, HEADS, 1, KEYS + 1))
    bias[0, :, 0, -1] = array(oracles_variants.by_name(layer)["sinks"])
    call = {"attention_mask": np.pad(mask, ((0, 0), (0, 0), (0, 1)), constant_values=True), "bias": bias}
    expected, expected_scores = plain(query, *more, return_attention_scores=True, **call)
    masks = {"attention_mask": mask} if masked else {}
    output, scores = layer(query, value, key, return_attention_scores=True, **masks)
    check_close(scores, array(expected_scores)[..., :-1], DOUBLE)
    check_close(output, expected, DOUBLE)
    check_close(layer(query, value, key, **masks), expected, DOUBLE)


def test_weights_with_sinks_are_plain_ones_times_a_sigmoid():
    inputs = cross_inputs(dtype="float64")
    layer, plain = build(make(use_sinks=True), *inputs), make()
    plain.build(*(x.shape for x in inputs))
    copy_weights(layer, plain)
    weights = oracles.named_weights(layer)
    query, key = (oracles.project(weights, name, x) for name, x in (("query", inputs[0]), ("key", inputs[2])))
    logits = np.einsum("bnhd,bmhd->bhnm", query, key) / np.sqrt(KEY_DIM)
    mask = random_mask((BATCH, QUERIES, KEYS))
    total = np.log(np.sum(np.exp(logits) * mask[:, None], axis=-1, keepdims=True))
    share = 1 / (1 + np.exp(weights["sinks"][:, None, None] - total))
    call = {"attention_mask": mask, "return_attention_scores": True}
    (_, scores), (_, plain_scores) = layer(*inputs, **call), plain(*inputs, **call)
    check_close(scores, array(plain_scores) * share, DOUBLE)
    assert array(scores).sum(-1).max() < 1


@pytest.mark.parametrize("sink", [-1e4, 1e4])
def test_sinks_far_away(sink):
    """They take all or nothing, and nothing overflows."""
    inputs = cross_inputs()
    layer, plain = build(make(use_sinks=True, dtype="float32"), *inputs), make(dtype="float32")
    plain.build(*(x.shape for x in inputs))
    copy_weights(layer, plain)
    oracles_variants.set_weights(layer, sinks=sink)
    bias = array(oracles_variants.by_name(layer)["attention_output.bias"])
    expected = array(plain(*inputs)) if sink < 0 else np.broadcast_to(bias, (BATCH, QUERIES, len(bias)))
    check_close(layer(*inputs), expected)
    check_close(layer(*inputs, return_attention_scores=True)[0], expected)


# ----------------------------------------------------------------------------------------------------------------- bias


@pytest.mark.parametrize(
    "shape",
    [
        (BATCH, HEADS, QUERIES, KEYS),
        (1, HEADS, QUERIES, KEYS),
        (HEADS, 1, KEYS),
        (BATCH, 1, 1, KEYS),
        (QUERIES, KEYS),
    ],
)
def test_shapes_of_a_bias(shape):
    inputs = cross_inputs(dtype="float64")
    layer, mask = build(make(), *inputs), random_mask((BATCH, QUERIES, KEYS))
    oracles_variants.check(layer, oracles_variants.grouped_query, *inputs, mask, bias=random_bias(*shape))


def test_a_bias_of_whole_rows_changes_nothing():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(), *inputs)
    check_close(layer(*inputs, bias=random_bias(BATCH, HEADS, QUERIES, 1)), layer(*inputs), DOUBLE)


def test_a_bias_does_not_open_what_a_mask_forbids():
    inputs = cross_inputs(dtype="float64")
    layer, mask = build(make(), *inputs), random_mask((BATCH, QUERIES, KEYS))
    bias = np.where(mask, 0.0, 1e6)[:, None]
    check_close(layer(*inputs, attention_mask=mask, bias=bias), layer(*inputs, attention_mask=mask), DOUBLE)


def mixed(weights, maps, place):
    if "static_kernel" in weights:
        return oracles_variants.compose(weights, maps, place)
    kernel = weights[("pre_softmax_kernel", "post_softmax_kernel")[place]]
    return np.einsum("hnm,hg->gnm", maps, kernel)


@pytest.mark.parametrize("kind", ["TalkingHeadsAttention", "DynamicallyComposableAttention"])
def test_what_mixes_heads_mixes_the_bias_too(kind):
    """It is added before: as if it were in the logits, which here are 0 but for it."""
    x, bias = self_input(dtype="float64"), random_bias(BATCH, HEADS, QUERIES, QUERIES)
    layer = build(getattr(layers, kind)(**SIZES, dtype="float64"), x)
    oracles_variants.set_weights(layer, **{"query.kernel": 0.0, "query.bias": 0.0})
    weights = oracles.named_weights(layer)
    _, scores = layer(x, x, bias=bias, return_attention_scores=True)
    for b in range(BATCH):
        of_one = weights | {"inputs.query": x[b], "inputs.key": x[b]}
        plain = oracles_variants.softmaxes({}, mixed(of_one, bias[b], 0), np.ones(bias.shape[1:], bool))
        check_close(scores[b], mixed(of_one, plain, 1), DOUBLE)


# ------------------------------------------------------------------------------------------------- a gate for each head


@each(KINDS)
def test_one_gate_a_head(case):
    """That of each number, with kernels repeated; with a large bias there is none."""
    x = self_input(dtype="float64")
    layer = build(case.make(use_gate="head", dtype="float64"), x)
    wide = build(case.make(use_gate=True, dtype="float64"), x)
    weights = oracles.named_weights(layer)
    assert weights["gate.kernel"].shape == (x.shape[-1], layer.merged_heads, 1)
    repeated = {name: np.repeat(weights[f"gate.{name}"], layer.value_dim, axis=-1) for name in ("kernel", "bias")}
    oracles_variants.set_weights(wide, **(weights | {f"gate.{name}": value for name, value in repeated.items()}))
    check_close(layer(x, x), wide(x, x), DOUBLE)
    oracles_variants.set_weights(layer, **{"gate.bias": 50.0})
    plain = build(case.make(dtype="float64"), x)
    copy_weights(layer, plain)
    check_close(layer(x, x), plain(x, x), DOUBLE)


def test_one_gate_a_head_in_the_public_code(golden):
    """Of grouped queries with rotary positions; its query kernel has, by group, queries and then gates."""
    data = golden("variants_reattention_gate.npz")
    x = data["gate.x"].astype("float64")
    for kind, use_gate, width in (("headwise", "head", 1), ("elementwise", True, 4)):
        prefix = f"gate.{kind}.w."
        weights = {name.removeprefix(prefix): data[name].astype("float64") for name in data if name.startswith(prefix)}
        layer = layers.GroupedQueryAttention(
            6,
            4,
            num_key_value_heads=3,
            use_gate=use_gate,
            qk_norm=True,
            relative_positions=RotaryPositions(),
            dtype="float64",
        )
        layer.build(x.shape, x.shape)
        for ours, theirs in (("kernel", "weight"), ("bias", "bias")):
            queries, gates = np.split(weights[f"q_proj.{theirs}"].reshape(3, 2 * (4 + width), -1), [8], axis=1)
            parts = {"query": queries.reshape(6, 4, -1), "gate": gates.reshape(6, width, -1)}
            parts |= {side: weights[f"{side[0]}_proj.{theirs}"].reshape(3, 4, -1) for side in ("key", "value")}
            for side, part in parts.items():
                value = part.transpose(2, 0, 1) if ours == "kernel" else part[..., 0]
                oracles_variants.set_weights(layer, **{f"{side}.{ours}": value})
        output = weights["o_proj.weight"].T.reshape(6, 4, 10)
        norms = {f"{side}_norm_scale": weights[f"{side[0]}_norm.weight"] for side in ("query", "key")}
        oracles_variants.set_weights(
            layer, **norms, **{"attention_output.kernel": output, "attention_output.bias": weights["o_proj.bias"]}
        )
        found, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
        check_close(found, data[f"gate.{kind}.out_f64"], DOUBLE)
        check_close(scores, data[f"gate.{kind}.maps_f64"], DOUBLE)


@each_equation
def test_steps_of_decoding_with_one_gate_a_head(name):
    x = self_input(dtype="float64", length=6)
    layer = build(make(name, use_gate="head"), x)
    oracles_variants.check_decoding(layer, x)
    kernels, cache = layer.decoding_kernels(), layer.init_cache(BATCH, 6)
    output, _ = layer(x, x, cache=cache, index=0, use_causal_mask=True, kernels=kernels)
    check_close(output, layer(x, x, use_causal_mask=True), DOUBLE)


def test_heads_of_gates_for_repulsive():
    """Those of one number a head are marked, on the axis of the heads; others are not, as before."""
    x = self_input()
    found = oracles_variants.heads_found(build(make(use_gate="head"), x))
    plain = {"query": (1, HEADS), "key": (1, HEADS), "value": (1, HEADS), "attention_output": (0, HEADS)}
    assert found == plain | {"gate": (1, HEADS)}
    assert oracles_variants.heads_found(build(make(use_gate=True), x)) == plain


# ------------------------------------------------------------------------------------------------------------- segments


IDS = np.array([[4, 4, 0, 0, 0, 9], [2, 1, 1, 2, 2, 1]], "int32")  # those of the second row stand in one another


@each_layer_by_segment
def test_segments_are_a_mask(case):
    """With the other masks."""
    x = self_input(dtype="float64", length=6)
    layer = build(case.make(dtype="float64"), x)
    same = IDS[:, :, None] == IDS[:, None]
    real = random_mask((BATCH, 6))
    call = {"query_mask": real, "value_mask": real, "use_causal_mask": True, "return_attention_scores": True}
    expected, expected_scores = layer(x, x, attention_mask=same, **call)
    output, scores = layer(x, x, segment_ids=IDS, **call)
    check_close(output, expected, DOUBLE)
    check_close(scores, expected_scores, DOUBLE)
    mask = random_mask((BATCH, 6, 6))
    check_close(layer(x, x, segment_ids=IDS, attention_mask=mask), layer(x, x, attention_mask=mask & same), DOUBLE)


def check_alone(layer, x, **call):
    output = array(layer(x, x, segment_ids=IDS, **call))
    for b, ids in enumerate(IDS):
        for segment in np.unique(ids):
            rows = ids == segment
            alone = x[b : b + 1, rows]
            check_close(output[b : b + 1, rows], layer(alone, alone, **call), DOUBLE)


@each_layer_by_content
def test_each_segment_is_as_if_alone(case):
    x = self_input(dtype="float64", length=6)
    check_alone(build(case.make(dtype="float64"), x), x)


@each_of_rows_alone
def test_each_segment_of_a_layer_with_options_is_as_if_alone(name):
    x = self_input(dtype="float64", length=6)
    check_alone(build(make(name, **ALL), x), x, use_causal_mask=True)


# --------------------------------------------------------------------------------------------------- decoding, training


@each_equation
def test_decoding(name):
    x = self_input(dtype="float64", length=6)
    oracles_variants.check_decoding(build(make(name, **ALL), x), x, random_bias(BATCH, 1, 6, 8))


@each_of_rows_alone
def test_cross_attention_from_a_cache(name):
    inputs = cross_inputs(dtype="float64")
    oracles_variants.check_cross_decoding(build(make(name, **ALL), *inputs), *inputs)


@each_equation
def test_gradients(name):
    inputs = cross_inputs(dtype="float64")
    layer = build(make(name, **ALL), *inputs)
    gradients = oracles_variants.check_gradients(layer, *inputs, key_mask=random_mask((BATCH, KEYS)))
    for weight in ("query_norm_scale", "key_norm_scale", "sinks"):
        assert np.abs(gradients[weight]).min() > 1e-5, weight


@pytest.mark.parametrize("scores", [False, True])
def test_gradients_of_a_bias(scores):
    """Zeros where the mask forbids; those of a row add up to nothing."""
    inputs, mask = cross_inputs(dtype="float64"), random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    layer, bias = build(make(), *inputs), tf.constant(random_bias(BATCH, HEADS, QUERIES, KEYS))
    with tf.GradientTape() as tape:
        tape.watch(bias)
        result = layer(*inputs, attention_mask=mask, bias=bias, return_attention_scores=scores)
        loss = tf.reduce_sum((result[0] if scores else result) ** 2)
    gradient = array(tape.gradient(loss, bias))
    assert not gradient[np.broadcast_to(~mask[:, None], gradient.shape)].any()
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=1e-12)


# --------------------------------------------------------------------------------------------------------------- scale


@each([case for case in KINDS if case.name not in ("options", "synthesizer")])
def test_scale(case):
    """Twice the scale is twice the queries, but of those that are normalised or make other logits than products."""
    x = self_input()
    layer = build(case.make(), x, x, x)
    scaled = build(case.make(scale=2 * layer.scale), x, x, x)
    copy_weights(layer, scaled)
    plain = array(layer(x, x))
    content = [layer.content_kernel] if case.name == "collaborative" else []  # in place of the bias of queries
    for weight in (*layer.query_dense.weights, *content):
        weight.assign(2 * array(weight))
    check_close(scaled(x, x), layer(x, x))
    assert np.abs(array(layer(x, x)) - plain).max() > 1e-2


# -------------------------------------------------------------------------------------------------------- configuration


def test_configuration():
    plain = {"qk_norm": False, "attn_logits_soft_cap": None, "use_sinks": False}
    for options in (plain, {**ALL, "scale": 1.0}, {"qk_norm": 0.01}):
        layer = layers.MultiHeadAttention(**SIZES, **options)
        again = layers.MultiHeadAttention.from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
        assert options.items() <= again.get_config().items()
    assert plain.items() <= make().get_config().items()


def test_in_a_compiled_functional_model():
    """Bias and segments are inputs as the rest, of lengths that are not known."""
    x, bias = self_input(), random_bias(BATCH, HEADS, QUERIES, QUERIES).astype("float32")
    ids = np.arange(QUERIES)[None].repeat(BATCH, 0).astype("int32") // 2
    tokens, segments = keras.Input((None, x.shape[-1])), keras.Input((None,), dtype="int32")
    added = keras.Input((HEADS, None, None))
    layer = make(dtype="float32", **ALL)
    model = keras.Model([tokens, segments, added], layer(tokens, tokens, bias=added, segment_ids=segments))
    expected = layer(x, x, bias=bias, segment_ids=ids)
    check_close(tf.function(model, jit_compile=True)([x, ids, bias]), expected, 1e-5)

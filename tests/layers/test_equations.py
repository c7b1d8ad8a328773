"""Every layer against a slow float64 transcription of its equations."""

import numpy as np
import pytest

from keras_headattn import layers
from tests.layers import oracles, oracles_disentangled, oracles_evolving
from tests.layers.harness import (
    BATCH,
    CASES,
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
    each,
    random_mask,
    self_input,
)

DOUBLE = 1e-13
# Compared with oracles of their own, in oracles_variants.py and tests/positions.
ELSEWHERE = ("grouped_query", "multi_query", "dynamically_composable", "differential", "rotary", "options")
ELSEWHERE += ("differential_per_token", "mixture_of_heads", "re_attention")
ELSEWHERE += ("knocking_heads", "knocking_heads_linear", "multi_head_explicit", "collaborative")
ELSEWHERE += ("multi_token", "multi_token_normed", "interleaved", "paired_heads")
each_layer = each([case for case in CASES if case.name not in ELSEWHERE])


def equations(case):
    if case.layer is layers.DisentangledMaskAttention:
        return oracles_disentangled.equation(**case.arguments)
    if case.layer is layers.RealFormerAttention:  # without a map of a block before
        return oracles.multi_head
    return oracles_evolving.equations(case)


def check(case, layer, query, value, key, attention_mask=None, expected_mask=None, **call):
    """Compares output and scores of a layer with the equations."""
    expected, expected_scores = oracles.attention(
        equations(case), oracles.named_weights(layer), query, value, key, expected_mask
    )
    call = dict(call, key=key, attention_mask=attention_mask)
    output, scores = layer(query, value, return_attention_scores=True, **call)
    check_close(layer(query, value, **call), expected, DOUBLE)
    check_close(output, expected, DOUBLE)
    check_close(scores, expected_scores, DOUBLE)


@each_layer
@pytest.mark.parametrize("use_bias", [True, False])
def test_unmasked(case, use_bias):
    inputs = cross_inputs(dtype="float64")
    check(case, build(case.make(dtype="float64", use_bias=use_bias), *inputs), *inputs)


@each_layer
def test_attention_mask(case):
    inputs = cross_inputs(dtype="float64")
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False  # a query that may attend to nothing
    check(case, build(case.make(dtype="float64"), *inputs), *inputs, mask, mask[:, None])


@each_layer
def test_attention_mask_of_each_head(case):
    if case.mask_heads is None:
        pytest.skip("its masks may not differ between heads; the error is tested with the errors")
    inputs = cross_inputs(dtype="float64")
    mask = random_mask((BATCH, case.mask_heads, QUERIES, KEYS))
    mask[0, 0, 2] = False
    check(case, build(case.make(dtype="float64"), *inputs), *inputs, mask, mask)


@each_layer
def test_masks_of_queries_values_and_keys(case):
    inputs = cross_inputs(dtype="float64")
    query_mask, value_mask, key_mask = (
        random_mask((BATCH, length), seed) for length, seed in ((QUERIES, 3), (KEYS, 4), (KEYS, 5))
    )
    mask = random_mask((BATCH, QUERIES, KEYS))
    expected = mask & query_mask[:, :, None] & value_mask[:, None] & key_mask[:, None]
    layer = build(case.make(dtype="float64"), *inputs)
    masks = {"query_mask": query_mask, "value_mask": value_mask, "key_mask": key_mask}
    check(case, layer, *inputs, mask, expected[:, None], **masks)


@each_layer
@pytest.mark.parametrize("window, causal", [(None, True), (1, False), (3, False), (3, True)])
def test_causal_and_sliding_window(case, window, causal):
    x = self_input(dtype="float64")
    rows, columns = np.indices((QUERIES, QUERIES))
    mask = np.ones((QUERIES, QUERIES), bool)
    if causal:
        mask &= columns <= rows
    if window:
        mask &= np.abs(rows - columns) < window
    layer = build(case.make(dtype="float64", sliding_window=window), x)
    check(case, layer, x, x, x, expected_mask=mask[None, None], use_causal_mask=causal)


@each_layer
def test_causal_with_more_keys_than_queries(case):
    inputs = cross_inputs(dtype="float64")
    mask = np.tri(QUERIES, KEYS, dtype=bool)[None, None]
    check(case, build(case.make(dtype="float64"), *inputs), *inputs, expected_mask=mask, use_causal_mask=True)


@each_layer
def test_key_defaults_to_value(case):
    query, value, _ = cross_inputs(dtype="float64")
    check(case, build(case.make(dtype="float64"), query, value), query, value, None)


def own_weights(layer):
    """Names of weights that are not of a projection."""
    return [w.path.split("/")[1] for w in layer.weights if w.path.count("/") == 1]


@each_layer
def test_order_of_the_projections(case):
    """As in keras.layers.MultiHeadAttention, with kernel shapes that say which is which."""
    projections = "query", "key", "gate", "value", *["attention_output"] * case.has_output
    weights = build(case.make(use_gate=True), *cross_inputs()).weights
    weights = [w for w in weights if w.path.split("/")[-2] in projections]
    names = ["/".join(w.path.split("/")[1:]) for w in weights]
    assert names == [f"{name}/{kind}" for name in projections for kind in ("kernel", "bias")]
    widths = [w.shape[0] for w in weights[::2]]
    assert widths[:4] == [QUERY_WIDTH, KEY_WIDTH, QUERY_WIDTH, VALUE_WIDTH]


def test_fixed_head_size():
    """Eq. 5: key_dim need not be D / h."""
    x = self_input(dtype="float64")
    layer = build(layers.MultiHeadAttention(num_heads=4, key_dim=9, value_dim=3, dtype="float64"), x)
    assert [tuple(w.shape) for w in layer.weights][:2] == [(12, 4, 9), (4, 9)]
    expected, _ = oracles.attention(oracles.multi_head, oracles.named_weights(layer), x, x)
    check_close(layer(x, x), expected, DOUBLE)


def test_summed_interaction_is_one_query_for_all_heads():
    """Sum over i of Q_i K_j^T = (sum of Q_i) K_j^T: plain attention whose query weights are all the sum."""
    x = self_input(dtype="float64")
    arguments = {"num_heads": 3, "key_dim": 4, "dtype": "float64"}
    ours = build(layers.InteractingHeadAttention(**arguments), x)
    plain = build(layers.MultiHeadAttention(**arguments), x)
    weights = ours.get_weights()
    assert [w.shape for w in weights] == [tuple(w.shape) for w in plain.weights]
    weights[0] = np.repeat(weights[0].sum(1, keepdims=True), 3, axis=1)
    weights[1] = np.repeat(weights[1].sum(0, keepdims=True), 3, axis=0)
    plain.set_weights(weights)
    check_close(ours(x, x), plain(x, x), DOUBLE)


def test_pairwise_output_kernel():
    x = self_input()
    layer = build(layers.InteractingHeadAttention(3, 4, value_dim=5, interaction="pairwise"), x)
    assert tuple(layer.weights[6].shape) == (9, 5, 12)


def test_talking_heads_that_do_not_talk():
    """With identity matrices it is multi-head attention."""
    x = self_input(dtype="float64")
    talking = build(layers.TalkingHeadsAttention(3, 4, dtype="float64"), x)
    plain = build(layers.MultiHeadAttention(3, 4, dtype="float64"), x)
    copy_weights(plain, talking)
    talking.pre_softmax_kernel.assign(np.eye(3))
    talking.post_softmax_kernel.assign(np.eye(3))
    check_close(talking(x, x), plain(x, x), DOUBLE)


def test_talking_heads_mixing_shapes_and_initializer():
    x = self_input()
    layer = layers.TalkingHeadsAttention(3, 4, key_heads=2, value_heads=5, mixing_initializer="ones")
    layer.build(x.shape, x.shape)
    assert own_weights(layer) == ["pre_softmax_kernel", "post_softmax_kernel"]
    pre, post = layer.pre_softmax_kernel.numpy(), layer.post_softmax_kernel.numpy()
    np.testing.assert_array_equal(pre, np.ones((2, 3)))
    np.testing.assert_array_equal(post, np.ones((3, 5)))
    default = layers.TalkingHeadsAttention(3, 4, kernel_initializer="zeros")
    default.build(x.shape, x.shape)
    assert not default.pre_softmax_kernel.numpy().any() and not default.post_softmax_kernel.numpy().any()


@pytest.mark.parametrize("score, shapes", [("dot", []), ("general", [(4, 4)]), ("concat", [(8, 4), (4,)])])
def test_luong_weights(score, shapes):
    x = self_input()
    layer = build(layers.LuongAttention(key_dim=4, score_mode=score), x)
    names = ["score_kernel", "score_vector"][: len(shapes)]
    assert own_weights(layer) == names
    assert [tuple(getattr(layer, name).shape) for name in names] == shapes
    assert layer.num_heads == 1


def test_luong_dot_is_not_scaled():
    x = self_input(dtype="float64")
    luong = build(layers.LuongAttention(key_dim=4, dtype="float64"), x)
    plain = build(layers.MultiHeadAttention(1, 4, dtype="float64"), x)
    weights = luong.get_weights()
    plain.set_weights([2 * w if i < 2 else w for i, w in enumerate(weights)])
    check_close(luong(x, x), plain(x, x), DOUBLE)
    assert np.abs(array(luong(x, x))).max() > 0


@each([case for case in CASES if case.layer is layers.MultiHeadAttention or case.name.startswith("inter")])
def test_intermediates(case):
    """Logits, like weights, by query head and key head where heads meet in pairs, summed over pseudo-keys."""
    inputs = cross_inputs(dtype="float64")
    layer = build(case.make(dtype="float64", use_sinks=False), *inputs)
    with layers.capture_intermediates() as found:
        _, scores = layer(*inputs, return_attention_scores=True)
    (found,) = found.values()
    exponentials = np.exp(array(found["logits"]))
    assert exponentials.shape == (BATCH, *case.map_axes, QUERIES, KEYS)
    check_close(found["weights"], exponentials / exponentials.sum(-1, keepdims=True), DOUBLE)
    check_close(found["weights"], scores, DOUBLE)

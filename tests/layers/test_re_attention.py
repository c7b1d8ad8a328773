"""Re-attention: the public code's numbers, the equations, statistics of allowed entries, and what it is at special
weights."""

import keras
import numpy as np
import pytest

from keras_headattn import layers
from tests.layers import oracles, oracles_variants
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    QUERIES,
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
from tests.refusals import refused

EPSILON = 1e-5


def make(**options):
    return layers.ReAttention(HEADS, KEY_DIM, **{"value_dim": VALUE_DIM, "dtype": "float64", **options})


def built(*inputs, **options):
    """With moving statistics that are not those of the start."""
    layer = build(make(**options), *inputs)
    oracles_variants.set_weights(layer, moving_mean=[0.2, -0.1, 0.3], moving_variance=[0.04, 0.2, 1.5])
    return layer


# ------------------------------------------------------------------------------------------------- the public code


def golden_weights(data):
    names = {
        "mixing_bias": "reatten_matrix.bias",
        "norm_scale": "var_norm.weight",
        "norm_offset": "var_norm.bias",
        "moving_mean": "var_norm.running_mean",
        "moving_variance": "var_norm.running_var",
    }
    own = {ours: data[f"w.{theirs}"].astype("float64") for ours, theirs in names.items()}
    own["mixing_kernel"] = data["w.reatten_matrix.weight"][:, :, 0, 0].astype("float64").T
    return oracles_variants.fused_projections(data, "w.", 3, 4) | own


def test_the_equations_are_the_public_code(golden):
    data = golden("variants_reattention_gate.npz")
    x, weights = data["x"].astype("float64"), golden_weights(data)
    equation = oracles_variants.re_attention(transform_scale=True)
    for kind in ("infer", "train"):
        if kind == "train":
            weights, after = oracles_variants.with_batch_statistics(weights, x, x, x, np.ones((2, 3, 5, 5), bool))
        out, scores = oracles_variants.attention(equation, weights, x, x)
        check_close(out, data[f"{kind}.out_f64"], DOUBLE)
        check_close(scores, data[f"{kind}.maps_f64"], DOUBLE)
    for name, value in zip(("mean", "var"), after, strict=True):
        check_close(value, data[f"train.after.running_{name}_f64"], DOUBLE)


def test_public_code(golden):
    data = golden("variants_reattention_gate.npz")
    x = data["x"].astype("float64")
    layer = layers.ReAttention(3, 4, transform_scale=True, dtype="float64")
    layer = oracles_variants.layer_with(layer, golden_weights(data), x, x)
    for kind in ("infer", "train"):
        output, scores = layer(x, x, training=kind == "train", return_attention_scores=True)
        check_close(output, data[f"{kind}.out_f64"], DOUBLE)
        check_close(scores, data[f"{kind}.maps_f64"], DOUBLE)
    check_close(layer.moving_mean, data["train.after.running_mean_f64"], DOUBLE)
    check_close(layer.moving_variance, data["train.after.running_var_f64"], DOUBLE)


# ---------------------------------------------------------------------------------------------------- the equations


@pytest.mark.parametrize("by_head", [False, True])
@pytest.mark.parametrize("options", [{}, {"transform_scale": True, "use_gate": "head"}], ids=str)
def test_equations(options, by_head):
    """With widths that differ, and a query that may attend to nothing."""
    inputs = cross_inputs(dtype="float64")
    layer = built(*inputs, **options)
    mask = random_mask((BATCH, HEADS, QUERIES, KEYS) if by_head else (BATCH, QUERIES, KEYS))
    mask[1, ..., 3, :] = False
    equation = oracles_variants.re_attention("transform_scale" in options)
    oracles_variants.check(layer, equation, *inputs, mask)
    output, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    assert (array(output)[1, 3] == array(oracles_variants.by_name(layer)["attention_output.bias"])).all()
    assert not array(scores)[np.broadcast_to(~(mask if by_head else mask[:, None]), scores.shape)].any()


def test_statistics_of_allowed_entries():
    """Means and variances of the batch, and what is remembered of them, whatever is masked."""
    inputs = cross_inputs(dtype="float64")
    layer = built(*inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    queries = np.arange(QUERIES) < [[QUERIES], [3]]
    allowed = np.repeat((mask & queries[..., None])[:, None], HEADS, axis=1)
    weights, after = oracles_variants.with_batch_statistics(oracles.named_weights(layer), *inputs, allowed)
    query, value, key = inputs
    equation = oracles_variants.re_attention()
    expected, maps = oracles_variants.attention(equation, weights, query, value, key, allowed)
    for content in (query, np.where(queries[..., None], query, 1e2)):
        oracles_variants.set_weights(layer, moving_mean=[0.2, -0.1, 0.3], moving_variance=[0.04, 0.2, 1.5])
        call = dict(attention_mask=mask, query_mask=queries, return_attention_scores=True, training=True)
        output, scores = layer(content, value, key, **call)
        check_close(array(output)[queries], expected[queries], DOUBLE)
        check_close(scores, maps, DOUBLE)
        check_close(layer.moving_mean, after[0], DOUBLE)
        check_close(layer.moving_variance, after[1], DOUBLE)


def test_a_batch_of_nothing_is_not_remembered():
    x = self_input(dtype="float64")
    layer = built(x)
    layer(x, x, training=True, query_mask=np.zeros((BATCH, QUERIES), bool))
    np.testing.assert_array_equal(layer.moving_mean, [0.2, -0.1, 0.3])
    np.testing.assert_array_equal(layer.moving_variance, [0.04, 0.2, 1.5])


def test_a_frozen_layer_has_moving_statistics():
    x = self_input(dtype="float64")
    layer = built(x)
    expected = layer(x, x)
    layer.trainable = False
    check_close(layer(x, x, training=True), expected, DOUBLE)


def test_a_block_leaves_out_padding():
    x, real = self_input(), np.arange(QUERIES) < [[QUERIES], [2]]
    block = layers.EncoderBlock(layers.ReAttention(HEADS, KEY_DIM), 8, dropout=0.0, recompute=True)
    outputs = [
        array(block(np.where(real[..., None], x, content), mask=real, training=True))[real] for content in (x, 1e2)
    ]
    check_close(*outputs, 1e-5)
    assert np.abs(array(block.attention.moving_mean)).max() > 1e-3


def test_training_in_a_decoder_is_an_error():
    """Statistics over all target tokens tell a token of later ones, in attention to the memory, too."""
    x, memory = self_input(), self_input(seed=1)
    plain, own = layers.MultiHeadAttention(HEADS, KEY_DIM), layers.ReAttention(HEADS, KEY_DIM)
    for attentions in ((own, plain), (plain, own)):
        block = layers.DecoderBlock(attentions[0], 8, dropout=0.0, cross_attention=attentions[1])
        with refused("`use_causal_mask`", "role="):
            block(x, memory, training=True)
        changed = np.concatenate([x[:, :2], memory[:, 2 : x.shape[1]]], axis=1)
        check_close(array(block(x, memory))[:, :2], array(block(changed, memory))[:, :2], 1e-6)  # inference
        for layer in block.attentions.values():
            layer.trainable = False
        block(x, memory, training=True)
    layer = build(own, x)
    with refused("`use_causal_mask`"):
        layer(x, x, use_causal_mask=True, training=True)


# ----------------------------------------------------------------------------- the layers it is at special weights


def test_multi_head_attention():
    """With W = I, b = 0, the scale the deviation and the offset the mean."""
    inputs = cross_inputs(dtype="float64")
    layer = built(*inputs)
    mean, variance = array(layer.moving_mean), array(layer.moving_variance)
    own = {"mixing_kernel": np.eye(HEADS), "mixing_bias": 0.0, "norm_offset": mean}
    oracles_variants.set_weights(layer, norm_scale=np.sqrt(variance + EPSILON), **own)
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64")
    plain.build(*(x.shape for x in inputs))
    copy_weights(layer, plain)
    check_close(layer(*inputs, use_causal_mask=True), plain(*inputs, use_causal_mask=True), DOUBLE)


def test_talking_heads():
    """At inference, with an offset that takes the means away."""
    inputs = cross_inputs(dtype="float64")
    layer = built(*inputs)
    weights = oracles.named_weights(layer)
    factor = weights["norm_scale"] / np.sqrt(weights["moving_variance"] + EPSILON)
    offset = (weights["moving_mean"] - weights["mixing_bias"]) * factor
    oracles_variants.set_weights(layer, norm_offset=offset)
    talking = layers.TalkingHeadsAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64")
    talking.build(*(x.shape for x in inputs))
    copy_weights(layer, talking)
    oracles_variants.set_weights(
        talking, pre_softmax_kernel=np.eye(HEADS), post_softmax_kernel=weights["mixing_kernel"] * factor
    )
    check_close(layer(*inputs), talking(*inputs), 1e-11)


def test_order_of_heads():
    inputs = cross_inputs(dtype="float64")
    layer = built(*inputs)
    own = {name: range(len(shape)) for name, shape in oracles_variants.own_weights(layer).items()}
    permuted = oracles_variants.permuted(oracles.named_weights(layer), [2, 0, 1], **own)
    check_close(oracles_variants.layer_with(make(), permuted, *inputs)(*inputs), layer(*inputs), DOUBLE)


# ------------------------------------------------------------------------------------------------- decoding, training


def test_decoding():
    x = self_input(dtype="float64", length=6)
    layer = built(x)
    cache = oracles_variants.check_decoding(layer, x)
    assert oracles_variants.numbers_a_key(cache) == HEADS * (KEY_DIM + VALUE_DIM)
    piece, cache = x[:, :1], layer.init_cache(BATCH, 3)
    outputs = [layer(piece, piece, cache=cache, index=0, training=training)[0] for training in (False, True)]
    check_close(*outputs, DOUBLE)  # moving statistics
    inputs = cross_inputs(dtype="float64")
    oracles_variants.check_cross_decoding(built(*inputs), *inputs)
    oracles_variants.check_padding(built(*inputs), *inputs)


@pytest.mark.parametrize("training", [False, True])
def test_gradients(training):
    inputs = cross_inputs(dtype="float64")
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    gradients = oracles_variants.check_gradients(built(*inputs), *inputs, attention_mask=mask, training=training)
    for name in ("mixing_kernel", "norm_scale", "norm_offset"):
        assert np.abs(gradients[name]).max() > 1e-3, name
    assert (np.abs(gradients["mixing_bias"]).max() > 1e-3) == (not training)  # statistics take it away


def test_weights_are_dropped_before_they_are_mixed():
    """The scores are what multiplies the values; of a head that is not mixed, dropped ones are all alike."""
    x = self_input(length=20)
    layer = layers.ReAttention(1, 4, dropout=0.5, mixing_initializer="ones", seed=1)
    _, scores = layer(x, x, training=True, return_attention_scores=True)
    dropped = array(scores) == array(scores).min()
    assert 0.4 < dropped.mean() < 0.6
    assert abs(array(scores).mean()) < 1e-3 and array(scores).std() == pytest.approx(1, rel=0.05)


def test_in_a_compiled_model():
    """Training moves the averages, evaluation does not."""
    x = self_input()
    inputs = keras.Input((None, x.shape[-1]))
    layer = layers.ReAttention(HEADS, KEY_DIM)
    model = keras.Model(inputs, layer(inputs, inputs))
    model.compile("sgd", "mse", jit_compile=True)
    model.train_on_batch(x, x)
    moved = array(layer.moving_mean)
    assert np.abs(moved).max() > 1e-3
    model.test_on_batch(x, x)
    np.testing.assert_array_equal(layer.moving_mean, moved)


def test_configuration_and_marks():
    config = make(transform_scale=True, mixing_initializer="identity").get_config()
    again = layers.ReAttention.from_config(config)
    assert again.get_config() == config and again.transform_scale
    layer = built(self_input())
    found = {"query": (1, HEADS), "key": (1, HEADS), "value": (1, HEADS), "attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(layer) == found

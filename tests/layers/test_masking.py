"""The masking contract of every attention layer, stated as properties rather than against an oracle."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from tests.layers.harness import (
    BATCH,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    array,
    build,
    check_close,
    cross_inputs,
    each_causal_layer,
    each_kind,
    each_path,
    output_bias,
    random_mask,
    self_input,
)
from tests.refusals import refused

LENGTHS = np.array([4, 6])


@each_kind
def test_content_and_amount_of_padding(case):
    query, value, key = cross_inputs()
    layer = build(case.make(), query, value, key)
    real = np.arange(KEYS)[None] < LENGTHS[:, None]
    expected = array(layer(query, value, key, value_mask=real))
    for b, length in enumerate(LENGTHS):  # no padding at all
        alone = layer(query[b : b + 1], value[b : b + 1, :length], key[b : b + 1, :length])
        check_close(alone, expected[b : b + 1])

    def padded(x, amount, content):
        x = np.where(real[..., None], x, content)
        return np.pad(x, ((0, 0), (0, amount), (0, 0)), constant_values=content).astype("float32")

    for amount, content in ((0, 1e6), (3, -1e6), (20, 0)):
        mask = np.pad(real, ((0, 0), (0, amount)))
        for masks in ({"value_mask": mask}, {"key_mask": mask}, {"attention_mask": mask[:, None]}):
            output = layer(query, padded(value, amount, content), padded(key, amount, content), **masks)
            check_close(output, expected)


@each_kind
@pytest.mark.parametrize("causal", [False, True])
def test_padding_in_self_attention(case, causal):
    x = self_input(length=KEYS)
    layer = build(case.make(), x)
    real = np.arange(KEYS)[None] < LENGTHS[:, None]
    masks = {"query_mask": real, "value_mask": real, "use_causal_mask": causal}
    noise = np.where(real[..., None], x, 1e5).astype("float32")
    output = array(layer(noise, noise, **masks))
    for b, length in enumerate(LENGTHS):
        alone = x[b : b + 1, :length]
        check_close(output[b : b + 1, :length], layer(alone, alone, use_causal_mask=causal))
        assert (output[b, length:] == output_bias(layer)).all()


@each_causal_layer
@pytest.mark.parametrize("window", [None, 2])
def test_later_tokens_do_not_change_earlier_outputs(case, window):
    x = self_input(length=KEYS)
    layer = build(case.make(sliding_window=window), x)
    output = layer(x, x, use_causal_mask=True)
    _, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    for t in range(1, KEYS):
        changed = x.copy()
        changed[:, t:] = 1e4 * self_input(seed=t, length=KEYS)[:, t:]
        difference = np.abs(array(layer(changed, changed, use_causal_mask=True)) - array(output))
        assert difference[:, :t].max() < 1e-6
        assert difference[:, t].max() > 0.1
    future = np.triu(np.ones((KEYS, KEYS), bool), 1)
    assert not array(scores)[..., future].any()


@each_causal_layer
def test_later_tokens_do_not_change_earlier_outputs_in_training(case):
    """Statistics of a batch would tell of them: such a layer refuses to train under a causal mask, by name."""
    x = self_input(length=KEYS)
    layer = build(case.make(), x)
    changed = np.concatenate([x[:, :3], self_input(seed=1, length=KEYS)[:, 3:]], axis=1)
    if case.layer is layers.ReAttention:
        with refused("`use_causal_mask`"):
            layer(x, x, use_causal_mask=True, training=True)
        return
    keep = {} if not hasattr(layer, "steps") else {"steps": array(layer.steps)}
    outputs = []
    for inputs in (x, changed):
        for name, value in keep.items():
            getattr(layer, name).assign(value)
        outputs.append(array(layer(inputs, inputs, use_causal_mask=True, training=True))[:, :3])
    check_close(*outputs, 1e-5)


FULLY_MASKED = {
    "attention_mask": {"attention_mask": np.array([[[False]], [[True]]])},
    "numeric_mask": {"attention_mask": np.array([[[0.0]], [[1.0]]], "float32")},
    "value_mask": {"value_mask": np.repeat([[False], [True]], KEYS, axis=1)},
    "key_mask": {"key_mask": np.repeat([[False], [True]], KEYS, axis=1)},
    "query_mask": {"query_mask": np.repeat([[False], [True]], QUERIES, axis=1)},
}


@each_kind
@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16", "float32"])
def test_a_query_that_may_attend_to_nothing(case, dtype):
    check_nothing(case, dtype, "attention_mask")
    unbiased = build(case.make(dtype=dtype, use_bias=False), *cross_inputs())
    assert not array(unbiased(*cross_inputs(), **FULLY_MASKED["attention_mask"]))[0].any()


@each_path
def test_masks_by_which_a_query_may_attend_to_nothing(case):
    check_nothing(case, "float32", *FULLY_MASKED)


def check_nothing(case, dtype, *names):
    """Weights 0 and heads 0 whether scores are asked for or not: stock gives two different answers."""
    inputs = cross_inputs()
    layer = build(case.make(dtype=dtype), *inputs)
    bias = array(keras.ops.cast(output_bias(layer), layer.compute_dtype))
    for name in names:
        masks = FULLY_MASKED[name]
        output, scores = layer(*inputs, return_attention_scores=True, **masks)
        assert not array(scores)[0].any(), name
        assert array(scores)[1].any(), name
        for result in (output, layer(*inputs, **masks)):
            assert (array(result)[0] == bias).all(), name
            assert np.isfinite(array(result)).all()


@each_kind
@pytest.mark.parametrize("scores", [False, True])
def test_gradients_are_finite_where_nothing_may_be_attended_to(case, scores):
    inputs = [tf.constant(x) for x in cross_inputs()]
    layer = build(case.make(), *inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        nothing = np.zeros((BATCH, 1, KEYS), bool)
        result = layer(*inputs, return_attention_scores=scores, attention_mask=nothing)
        loss = tf.reduce_sum(result[0] if scores else result)
    for gradient in tape.gradient(loss, inputs, unconnected_gradients="zero"):
        assert not array(gradient).any()


@each_path
def test_masks_that_broadcast(case):
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    rows = random_mask((QUERIES, KEYS))
    full = np.broadcast_to(rows, (BATCH, QUERIES, KEYS))
    expected = layer(*inputs, attention_mask=full)
    for mask in (rows, rows[None], full[:, None], rows[None, None]):
        check_close(layer(*inputs, attention_mask=mask), expected)
    keys = random_mask((BATCH, KEYS))
    check_close(layer(*inputs, attention_mask=keys[:, None]), layer(*inputs, value_mask=keys))
    for dtype in ("int32", "float32", "uint8", "float16"):
        check_close(layer(*inputs, attention_mask=rows.astype(dtype)), expected)
        check_close(layer(*inputs, key_mask=keys.astype(dtype)), layer(*inputs, key_mask=keys))


@each_path
def test_masks_of_keras_are_those_given_by_hand(case):
    query, value, _ = cross_inputs()
    layer = build(case.make(), query, value)
    masking = keras.layers.Masking()
    query_mask, value_mask = random_mask((BATCH, QUERIES)), random_mask((BATCH, KEYS), 4)
    query, value = query * query_mask[..., None], value * value_mask[..., None]
    by_hand = layer(query, value, query_mask=query_mask, value_mask=value_mask)
    check_close(layer(masking(query), masking(value)), by_hand)
    key_by_hand = layer(query, value, query_mask=query_mask, key_mask=value_mask)
    check_close(key_by_hand, by_hand)


@each_path
def test_a_mask_given_by_hand_replaces_that_of_keras(case):
    query, value, _ = cross_inputs()
    layer = build(case.make(), query, value)
    value[:, 2] = 0
    everything = np.ones((BATCH, KEYS), bool)
    masked = keras.layers.Masking()(value)
    check_close(layer(query, masked, value_mask=everything, key_mask=everything), layer(query, value))


@each_path
def test_inputs_keep_their_mask(case):
    """Stock takes it away, so that a residual connection around the layer loses it."""
    inputs = keras.layers.Masking()(self_input() * random_mask((BATCH, QUERIES, 1)))
    mask = inputs._keras_mask
    layer = build(case.make(), inputs)
    output = layer(inputs, inputs)
    assert inputs._keras_mask is mask
    np.testing.assert_array_equal(array(output._keras_mask), array(mask))


@pytest.mark.parametrize("window", [None, 3])
def test_causal_over_two_axes_counts_row_by_row(window):
    """As if the two attended axes were one of 12 positions."""
    x = np.random.default_rng(0).normal(size=(BATCH, 3, 4, QUERY_WIDTH)).astype("float32")
    flat = x.reshape(BATCH, 12, QUERY_WIDTH)
    layer = build(layers.MultiHeadAttention(3, 4, sliding_window=window), x)
    as_one_axis = build(layers.MultiHeadAttention(3, 4, sliding_window=window), flat)
    expected = array(as_one_axis(flat, flat, use_causal_mask=True)).reshape(x.shape)
    check_close(layer(x, x, use_causal_mask=True), expected)


# ------------------------------------------------------------------------------- inputs of more than one length

FOLDS = {(1,): (2, 1), (2,): (1, 2), (1, 2): (1, 2), (2, 1): (2, 1)}  # attended axes to the order of both


def folded(x, axes):
    """`(B, s, t, ...)` as `(batch, length, ...)`, as the layer does it."""
    x = np.moveaxis(x, FOLDS[axes], (1, 2))
    batch = x.shape[0] * (1 if len(axes) == 2 else x.shape[1])
    return x.reshape(batch, -1, *x.shape[3:])


@pytest.mark.parametrize("axes", FOLDS)
@pytest.mark.parametrize("names", [("query_mask",), ("value_mask",), ("key_mask",), ("query_mask", "value_mask")])
def test_masks_have_the_axes_of_their_inputs(axes, names):
    """Square inputs, where a transposed mask would be taken in silence; by hand, and of Keras."""
    x = np.random.default_rng(0).normal(size=(BATCH, 4, 4, QUERY_WIDTH)).astype("float32")
    layer = build(layers.MultiHeadAttention(3, 4, attention_axes=axes), x)
    flat = layers.MultiHeadAttention(3, 4)
    flat.build((None, None, QUERY_WIDTH), (None, None, QUERY_WIDTH))
    flat.set_weights(layer.get_weights())
    masks = {name: random_mask((BATCH, 4, 4), seed) for seed, name in enumerate(names)}
    fold = folded(x, axes)
    by_token = {name: folded(mask, axes) for name, mask in masks.items()}
    expected = flat(fold, fold, use_causal_mask=True, **by_token)
    output = array(layer(x, x, use_causal_mask=True, **masks))
    check_close(folded(output, axes), expected)
    query, value = (keras.ops.convert_to_tensor(x) for _ in range(2))
    for name, mask in masks.items():
        tensor = query if name == "query_mask" else value
        tensor._keras_mask = keras.ops.convert_to_tensor(mask)
    if "key_mask" not in masks:  # Keras takes it from `key`
        check_close(layer(query, value, use_causal_mask=True), output)


@pytest.mark.parametrize("axes", FOLDS)
def test_masks_without_the_last_axes(axes):
    """As Keras has them of a sequence of vectors; and those of maps have the axes of scores."""
    x = np.random.default_rng(0).normal(size=(3, 3, 3, QUERY_WIDTH)).astype("float32")
    layer = build(layers.MultiHeadAttention(3, 4, attention_axes=axes), x)
    mask = random_mask((3, 3))
    for name in ("query_mask", "key_mask"):
        whole = np.repeat(mask[:, :, None], 3, axis=2)
        check_close(layer(x, x, **{name: mask}), layer(x, x, **{name: whole}))
        with refused(name, (3,)):
            layer(x, x, **{name: mask[0]})
    lengths = (3,) * 2 * len(axes)
    rows = random_mask((3, *lengths))  # of an item of the batch each
    whole = rows if len(axes) == 2 else np.repeat(rows[:, None], 3, axis=1)
    output, scores = layer(x, x, attention_mask=rows, return_attention_scores=True)
    check_close(output, layer(x, x, attention_mask=whole))
    allowed = np.broadcast_to(np.expand_dims(whole, -1 - len(lengths)), scores.shape)
    assert not array(scores)[~allowed].any() and (array(scores)[allowed] > 0).all()


def test_masks_of_two_axes_that_broadcast():
    x = np.random.default_rng(0).normal(size=(BATCH, 3, 5, QUERY_WIDTH)).astype("float32")
    layer = build(layers.MultiHeadAttention(3, 4), x)
    columns = random_mask((BATCH, 1, 5))
    whole = np.repeat(columns, 3, axis=1)
    expected = layer(x, x, key_mask=whole)
    check_close(layer(x, x, key_mask=columns), expected)
    check_close(layer(x, x, attention_mask=columns[:, None, None]), expected)


def test_positions_of_inputs_with_two_lengths():
    x = np.random.default_rng(0).normal(size=(BATCH, 3, 5, QUERY_WIDTH)).astype("float32")
    layer = build(layers.MultiHeadAttention(3, 4, attention_axes=(2,), sliding_window=2), x)
    check_close(layer(x, x, positions=np.arange(5)), layer(x, x))
    with refused("each of the 5 queries"):
        layer(x, x, positions=np.arange(3))


def test_mask_of_floats_in_a_graph():
    """Of zeros and ones, as `keras.Input` makes it and the stock layer takes it."""
    x, layer = self_input(), build(layers.MultiHeadAttention(3, 4), self_input())
    mask = random_mask((BATCH, QUERIES, QUERIES)).astype("float32")
    expected = layer(x, x, attention_mask=mask)
    check_close(tf.function(lambda mask: layer(x, x, attention_mask=mask), autograph=False)(mask), expected)
    for dtype in ("float32", "int32"):
        inputs = keras.Input(x.shape[1:]), keras.Input(mask.shape[1:], dtype=dtype)
        model = keras.Model(inputs, layer(inputs[0], inputs[0], attention_mask=inputs[1]))
        check_close(model([x, mask]), expected)

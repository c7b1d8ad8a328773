"""Wrong arguments: a ValueError that names the argument and ends with what was received."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import (
    DisentangledMaskAttention,
    InteractingHeadAttention,
    LuongAttention,
    MultiHeadAttention,
    SynthesizerAttention,
    TalkingHeadsAttention,
)
from keras_headattn.positions import RotaryPositions
from tests.layers.harness import (
    BATCH,
    CASES,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    array,
    build,
    check_close,
    cross_inputs,
    each_layer,
    each_path,
    random_mask,
    self_input,
)
from tests.refusals import refused


def built(inputs=None):
    return build(MultiHeadAttention(3, 4), *(inputs or [self_input()]))


# -------------------------------------------------------------------------------------------- constructor


@pytest.mark.parametrize(
    "name, value",
    [
        *[("num_heads", v) for v in (0, -1, 2.0, "3", None, True)],
        *[("key_dim", v) for v in (0, -1, 2.0, "4", None, True)],
        *[("value_dim", v) for v in (0, -3, 2.5, "4")],
        *[("dropout", v) for v in (-0.1, 1.0, 1.5, "0.1", None, float("nan"))],
        *[("sliding_window", v) for v in (0, -1, 2.0, "3")],
        *[("output_shape", v) for v in (0, -2, 2.5)],
        *[("attention_axes", v) for v in (1.5, "1", (1, 2.0))],
    ],
)
def test_constructor(name, value):
    with refused(name, value):
        MultiHeadAttention(**{"num_heads": 3, "key_dim": 4, name: value})


def test_output_shape_with_a_size_of_zero():
    with refused("output_shape", 0):
        MultiHeadAttention(3, 4, output_shape=(3, 0))


@each_layer
def test_constructor_of_each_layer(case):
    wrong = {"num_heads": 0, "key_dim": 2.5, "value_dim": -1, "dropout": 1.0, "sliding_window": 0}
    if case.layer is LuongAttention:  # it has one head and no such argument
        del wrong["num_heads"]
    for name, value in wrong.items():
        with refused(name, value):
            case.make(**{name: value})


@pytest.mark.parametrize("name", ["key_heads", "value_heads"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "3"])
def test_talking_heads(name, value):
    with refused(name, value):
        TalkingHeadsAttention(3, 4, **{name: value})


@pytest.mark.parametrize("value", ["mean", None, 1])
def test_interaction(value):
    with refused("interaction", value):
        InteractingHeadAttention(3, 4, interaction=value)


@pytest.mark.parametrize("value", ["location", None, 1])
def test_score(value):
    with refused("score_mode", value):
        LuongAttention(key_dim=4, score_mode=value)


def test_luong_attention_has_one_head():
    for arguments in (dict(key_dim=4, num_heads=8), dict(num_heads=8)):
        with refused("LuongAttention has one head", "num_heads=8"):
            LuongAttention(**arguments)


def test_numpy_integers_are_refused():
    """They would not go into the JSON of a saved model."""
    with refused("num_heads", 3):
        MultiHeadAttention(np.int64(3), 4)


# -------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    "query, value, key, name, received",
    [
        ((2, 12), (2, 7, 10), None, "query", "query with 2 axes"),
        ((2, 5, 12), (2, 10), None, "value", "value with 2 axes"),
        ((2, 5, 12), (2, 7, 10), (2, 9), "key", (2, 9)),
        ((2, 5, 12), (2, 7, 10), (2, 6, 9), "key", (2, 6, 9)),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_rank_and_lengths(query, value, key, name, received, symbolic):
    def make(shape):
        return keras.Input(batch_shape=shape) if symbolic else np.zeros(shape)

    with refused(name, received):
        MultiHeadAttention(3, 4)(make(query), make(value), None if key is None else make(key))


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=lambda case: case.name)
@pytest.mark.parametrize("which, name", list(enumerate(["query", "value", "key"])))
def test_dtypes(case, which, name):
    """Integers are taken for the numbers that they are, as the stock layer takes them."""
    inputs = [np.round(3 * x) for x in cross_inputs()]
    layer = build(case.make(), *inputs)
    expected = array(layer(*inputs))
    for dtype in ("int32", "int64"):
        given = list(inputs)
        given[which] = tf.cast(inputs[which], dtype)
        check_close(layer(*given), expected)
    given[which] = tf.cast(inputs[which], "complex64")
    with refused(name, "complex64"):
        layer(*given)


def test_integers_in_a_functional_model():
    x, ids = keras.Input((5, 12)), keras.Input((5, 12), dtype="int32")
    assert MultiHeadAttention(3, 4)(x, ids).dtype == "float32"


def test_mask_of_floats_in_a_graph():
    """Of zeros and ones, as `keras.Input` makes it and the stock layer takes it."""
    x, layer = self_input(), built()
    mask = random_mask((BATCH, QUERIES, QUERIES)).astype("float32")
    expected = layer(x, x, attention_mask=mask)
    check_close(tf.function(lambda mask: layer(x, x, attention_mask=mask), autograph=False)(mask), expected)
    for dtype in ("float32", "int32"):
        inputs = keras.Input(x.shape[1:]), keras.Input(mask.shape[1:], dtype=dtype)
        model = keras.Model(inputs, layer(inputs[0], inputs[0], attention_mask=inputs[1]))
        check_close(model([x, mask]), expected)


def test_lengths_that_were_not_known_when_built():
    """Value and key of different lengths reach a layer built without lengths."""
    query, value, key = cross_inputs()
    layer = built([query, value, key])
    with refused("key", (2, 6, 9)):
        layer(query, value, key[:, 1:])


@each_path
@pytest.mark.parametrize("which, name", list(enumerate(["query", "value", "key"])))
def test_widths_other_than_built(case, which, name):
    inputs = list(cross_inputs())
    layer = build(case.make(), *inputs)
    inputs[which] = inputs[which][..., :-1]
    with refused(name, inputs[which].shape[-1]):
        layer(*inputs)


def test_batches_that_differ():
    x = self_input()
    with refused("query", 3):
        built()(np.concatenate([x, x[:1]]), x)
    with refused("value", 1):
        built()(x, x[:1])


def test_attention_axes_out_of_range():
    for axes in ((2,), (0,), (3,), (-5,), (1, 1)):
        with refused("attention_axes", axes):
            layer = MultiHeadAttention(3, 4, attention_axes=axes)
            layer(self_input(), self_input())


def test_value_is_needed_without_a_cache():
    with refused("value", None):
        MultiHeadAttention(3, 4)(self_input())


# --------------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize(
    "name, mask",
    [
        ("attention_mask", np.full((BATCH, QUERIES, KEYS), 2)),
        ("attention_mask", np.full((BATCH, QUERIES, KEYS), 0.5)),
        ("attention_mask", np.full((BATCH, QUERIES, KEYS), -1e9)),
        ("attention_mask", np.full((BATCH, QUERIES, KEYS), np.nan)),
        ("value_mask", np.full((BATCH, KEYS), 3)),
        ("key_mask", np.full((BATCH, KEYS), -1)),
        ("query_mask", np.full((BATCH, QUERIES), 0.1)),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.flat[0]}",
)
def test_masks_of_other_values(name, mask):
    """An additive mask of 0 and -1e9, say, must not be taken for a boolean one."""
    inputs = cross_inputs()
    with refused(name, mask.flat[0]):
        built(inputs)(*inputs, **{name: mask})


@pytest.mark.parametrize(
    "name, shape",
    [
        ("attention_mask", (BATCH, KEYS, QUERIES)),
        ("attention_mask", (BATCH, QUERIES, KEYS + 1)),
        ("attention_mask", (3, QUERIES, KEYS)),
        ("attention_mask", (BATCH, 5, QUERIES, KEYS)),
        ("attention_mask", (1, BATCH, 3, QUERIES, KEYS)),
        ("value_mask", (BATCH, QUERIES)),
        ("key_mask", (BATCH, KEYS, 1)),
        ("query_mask", (BATCH, KEYS)),
        ("query_mask", (3, QUERIES)),
    ],
    ids=str,
)
def test_masks_of_other_shapes(name, shape):
    inputs = cross_inputs()
    with refused(name, shape):
        built(inputs)(*inputs, **{name: np.ones(shape, bool)})


def test_masks_of_other_shapes_in_a_functional_model():
    query, value = keras.Input((QUERIES, QUERY_WIDTH)), keras.Input((KEYS, 10))
    mask = keras.Input((KEYS, QUERIES), dtype="bool")
    with pytest.raises(ValueError, match="attention_mask"):
        MultiHeadAttention(3, 4)(query, value, attention_mask=mask)


@each_path
def test_masks_of_each_layer(case):
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    for mask in (np.full((BATCH, QUERIES, KEYS), -1e9), np.ones((BATCH, KEYS, QUERIES), bool)):
        with refused("attention_mask", mask.flat[0] if mask.dtype != bool else mask.shape):
            layer(*inputs, attention_mask=mask)


def test_pairwise_masks_that_differ_between_heads():
    inputs = cross_inputs()
    layer = build(InteractingHeadAttention(3, 4, interaction="pairwise"), *inputs)
    shape = BATCH, 3, QUERIES, KEYS
    with refused("attention_mask", shape):
        layer(*inputs, attention_mask=random_mask(shape))


# -------------------------------------------------------------------------------------------------- decoding


@each_path
def test_index_without_cache(case):
    x = self_input()
    layer = build(case.make(), x)
    with refused("index", 2):
        layer(x, x, index=2)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("multi_head", "evolving_decoder")], ids=lambda c: c.name
)
@pytest.mark.parametrize("length, rows, index", [(4, 5, 0), (4, 2, 3), (4, 1, -1), (4, 1, 4)])
def test_rows_that_do_not_fit_in_the_cache(case, length, rows, index):
    x = self_input()
    layer = build(case.make(), x)
    cache, x = layer.init_cache(BATCH, length), x[:, :rows]
    with refused("index", index):
        layer(x, x, cache=cache, index=index, use_causal_mask=True)


def test_cache_of_another_batch():
    x = self_input()
    layer = built()
    with refused("cache", BATCH + 1):
        layer(x, x, cache=layer.init_cache(BATCH + 1, QUERIES), index=0, use_causal_mask=True)


def test_cache_with_a_value_but_no_index():
    """For self-attention or for cross-attention? Either way the value would be left out in silence."""
    x = self_input()
    layer = built()
    with refused("index", None):
        layer(x, x, cache=layer.init_cache(BATCH, QUERIES))


def test_cache_of_a_layer_not_built():
    with pytest.raises(ValueError, match="(?i)built"):
        MultiHeadAttention(3, 4).project_cache(self_input())


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda: DisentangledMaskAttention(2, 8), "`kept_information`"),
        (lambda: DisentangledMaskAttention(3, 4, kept_information=0), "The width of `query`"),
        (lambda: SynthesizerAttention(2, 4, relative_positions=RotaryPositions()), "Positions that rotate"),
    ],
)
def test_a_layer_that_cannot_be_built_says_so_again(make, reason):
    """Keras calls a layer within a layer a second time, and shows that error."""
    x = np.ones((2, 3, 8), "float32")
    layer = make()
    for _ in range(2):
        with pytest.raises(ValueError, match=reason):
            layer(x, x)
    assert not layer.built and not layer.weights


@each_layer
def test_failed_build(case):
    """Fails again in the same words, and leaves nothing behind for inputs that fit."""
    query, value, key = (keras.KerasTensor(x.shape) for x in cross_inputs())
    no_width = keras.KerasTensor((BATCH, KEYS, None))
    layer = case.make()
    for wrong, received in (((query, value, key[:, 1:]), "(2, 6, 9)"), ((query, no_width, no_width), "None")):
        for _ in range(2):
            with refused("`value`", received):
                layer(*wrong)
            assert not layer.built
    layer(query, value, key)
    assert len(layer.weights) == len(build(case.make(), *cross_inputs()).weights)

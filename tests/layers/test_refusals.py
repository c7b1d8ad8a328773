"""What layers refuse. Every wrong value of an argument of their constructors is in `test_wrong_arguments.py`."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.layers import MultiHeadAttention
from keras_headattn.positions import LearnedPositions, RelativePositions, RelativePositions2D, RotaryPositions
from keras_headattn.regularizers import Disagreement
from tests.layers.harness import (
    BATCH,
    CASES,
    KEYS,
    QUERIES,
    SIZES,
    build,
    cross_inputs,
    each_kind,
    each_layer,
    each_path,
    random_mask,
    self_input,
)
from tests.layers.test_query_chunks import REFUSED
from tests.refusals import refusals, refused, values

WIDTHS = [x.shape[-1] for x in cross_inputs()]
CONVOLUTION = {"filters": 20, "kernel_size": 3, "attention": MultiHeadAttention(3, 4)}


def of(layer, **sizes):
    """What makes a layer of small sizes, given its other arguments."""
    return functools.partial(layer, **{"num_heads": 3, "key_dim": 4, **sizes})


def symbolic(shape):
    return keras.Input(batch_shape=shape)


# -------------------------------------------------------------------------------------------- constructors

test_multi_head = refusals(
    *values(
        of(MultiHeadAttention),
        num_heads=(None,),
        key_dim=(None,),
        dropout=(1.0, 1.5, None),
        output_shape=(0, -2, 2.5),
        attention_axes=(1.5, "1", (1, 2.0)),
        query_chunk_size=(0, -1, 2.5, True, "all"),
        attn_logits_soft_cap=(0, -1.0),
        scale=(0,),
        use_gate=("heads",),
        head_regularizer=("l2",),
        relative_positions=("1d", 3),
    ),
    (lambda: MultiHeadAttention(3, 4, output_shape=(3, 0)), "output_shape", 0),
    (lambda: MultiHeadAttention(2, 2, relative_positions=keras.layers.Dense(3)), "relative_positions", "<Dense"),
)

test_other_attention = refusals(
    *values(of(layers.InteractingHeadAttention), interaction=("mean", None, 1)),
    *values(functools.partial(layers.LuongAttention, key_dim=4), score_mode=("location", None, 1)),
    (lambda: layers.LuongAttention(key_dim=4, num_heads=8), "LuongAttention has one head", "num_heads=8"),
    (lambda: layers.LuongAttention(num_heads=8), "LuongAttention has one head", "num_heads=8"),
    *values(of(layers.EvolvingAttention), role=("self", 1), alpha=(-0.1, 1.5, None, "0.5", float("nan")), beta=(1.5,)),
    *values(of(layers.EvolvingAttention), kernel_size=(2, 4, 3.0, None, (3, 3))),
    *values(of(layers.DisentangledMaskAttention), role=("masked",), alpha=(1.5,), variance=(0.0,), diversity=(-1.0,)),
    (lambda: layers.PairedHeadsAttention(3, 4), "`num_heads` must be even", "num_heads=3"),
    *values(of(layers.GroupedQueryAttention, num_heads=4), num_key_value_heads=(3, 8)),
    *values(
        of(layers.SynthesizerAttention, max_length=5),
        max_length=(None,),
        mixture=((), ("dot",), ("dense", "dense"), None, 3),
    ),
    *values(of(layers.MultiTokenAttention), mix_weights=(2,), head_norm=("head",)),
    *((of(layer, query_chunk_size=2), "`query_chunk_size`", f"=2 for {layer.__name__}") for layer in REFUSED),
    *(
        (
            of(layers.MixtureOfHeadsAttention, num_heads=5, shared_heads=shared, active_heads=active),
            "`shared_heads`",
            f"num_heads=5, shared_heads={shared}, active_heads={active or 0}",
        )
        for shared, active in ((2, 4), (2, 0), (6, 0), (5, 1), (9, None))
    ),
)

test_layers_with_attention = refusals(
    *values(functools.partial(layers.AugmentedConv1D, **CONVOLUTION), filters=(11,), attention=("heads",)),
    *values(functools.partial(layers.AugmentedConv2D, **CONVOLUTION), filters=(12,), attention=("heads",)),
    *values(functools.partial(layers.AugmentedConv2D, **CONVOLUTION), kernel_size=((3, 3),), upsampling=("nearest",)),
    (lambda: layers.AugmentedConv2D(20, 3, keras.layers.Dense(3)), "`attention`", "<Dense"),
    (
        lambda: layers.SelfAttentivePooling(3, 4, head_regularizer=Disagreement("subspaces")),
        "`head_regularizer`",
        "of values",
    ),
    (lambda: layers.GraphBlock(layers.GraphAttention(3, 2), 10).build((None, None, 12)), "12", "width 6"),
    *values(LearnedPositions, max_length=(None,)),
    *values(RelativePositions, max_distance=(None,)),
    *values(functools.partial(RelativePositions2D, width=3), height=(None,)),
    *values(functools.partial(RelativePositions2D, 3), width=(None,)),
)


# -------------------------------------------------------------------------------------------------- inputs


def call(*shapes, make=np.zeros, **options):
    return MultiHeadAttention(3, 4, **options)(*map(make, shapes))


def attend(*inputs, **call):
    return build(MultiHeadAttention(3, 4), *cross_inputs())(*(inputs or cross_inputs()), **call)


test_shapes = refusals(
    *(
        (functools.partial(call, *shapes, make=make), name, received)
        for make in (np.zeros, symbolic)
        for shapes, name, received in (
            (((2, 5, 12), (2, 10)), "value", "value with 2 axes"),
            (((2, 12), (2, 7, 10)), "query", "query with 2 axes"),
            (((2, 5, 12), (2, 7, 10), (2, 9)), "key", (2, 9)),
            (((2, 5, 12), (2, 7, 10), (2, 6, 9)), "key", (2, 6, 9)),
        )
    ),
    (lambda: call((2, 5, 12)), "value", None),
    (lambda: call((3, 5, 12), (2, 5, 12)), "query", 3),
    (lambda: call((2, 5, 12), (1, 5, 12)), "value", 1),
    # A layer that was built without lengths is given a key and a value of different lengths.
    (lambda: attend(*cross_inputs()[:2], cross_inputs()[2][:, 1:]), "key", (2, 6, 9)),
    *(
        (functools.partial(call, (2, 5, 12), (2, 5, 12), attention_axes=axes), "attention_axes", axes)
        for axes in ((2,), (0,), (3,), (-5,), (1, 1))
    ),
    (lambda: call((2, 5, 12), (2, 5, 12), relative_positions=RelativePositions2D(3, 3)), "9 pixels", 5),
    (lambda: layers.GaussianMixture(2, 3).build((1, 2, 4, 5)), "inputs", "inputs of shape (1, 2, 4, 5)"),
    (lambda: layers.SelfAttentivePooling(3, 4)(np.zeros((3, 5))), "`inputs`", "inputs of shape (3, 5)"),
    (lambda: layers.SelfAttentivePooling(3, 4)(np.zeros((3, 6, 5)), mask=np.ones((3, 5), bool)), "`mask`", (3, 5)),
    *(
        (
            functools.partial(getattr(layers.AugmentedConv2D(**CONVOLUTION), method), shape),
            "`inputs`",
            "inputs of shape",
        )
        for shape in ((None, None, 6, 5), (None, 7, 6), (None, 7, 6, None))
        for method in ("build", "compute_logits_shape")
    ),
)


@each_path
def test_widths_other_than_built(case):
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    for i, name in enumerate(["query", "value", "key"]):
        given = [x[..., :-1] if j == i else x for j, x in enumerate(inputs)]
        with refused(name, WIDTHS[i] - 1):
            layer(*given)


test_rotation_needs_products_of_queries_and_keys = refusals(
    *(
        (functools.partial(build, layer, self_input()), "Positions that rotate queries and keys", "<RotaryPositions")
        for rotary in ({"relative_positions": RotaryPositions()},)
        for layer in (
            layers.LuongAttention(key_dim=4, score_mode="general", **rotary),
            layers.LuongAttention(key_dim=4, score_mode="concat", **rotary),
            layers.SynthesizerAttention(2, 4, mixture="random", **rotary),
            layers.SynthesizerAttention(2, 4, mixture=("dense", "dot_product"), **rotary),
            layers.CollaborativeAttention(2, 4, shared_dim=7, **rotary),
        )
    )
)


# --------------------------------------------------------------------------------------------------- masks

test_masks_of_other_values = refusals(  # an additive mask of 0 and -1e9, say, must not be taken for a boolean one
    *(
        (functools.partial(attend, **{name: np.full(shape, value)}), name, value)
        for name, shape, value in (
            ("attention_mask", (BATCH, QUERIES, KEYS), 2),
            ("attention_mask", (BATCH, QUERIES, KEYS), 0.5),
            ("attention_mask", (BATCH, QUERIES, KEYS), -1e9),
            ("attention_mask", (BATCH, QUERIES, KEYS), np.nan),
            ("value_mask", (BATCH, KEYS), 3),
            ("key_mask", (BATCH, KEYS), -1),
            ("query_mask", (BATCH, QUERIES), 0.1),
        )
    )
)

test_masks_of_other_shapes = refusals(
    *(
        (functools.partial(attend, **{name: np.ones(shape, bool)}), name, shape)
        for name, shape in (
            ("attention_mask", (BATCH, KEYS, QUERIES)),
            ("attention_mask", (BATCH, QUERIES, KEYS + 1)),
            ("attention_mask", (3, QUERIES, KEYS)),
            ("attention_mask", (BATCH, 5, QUERIES, KEYS)),
            ("attention_mask", (1, BATCH, 3, QUERIES, KEYS)),
            ("value_mask", (BATCH, QUERIES)),
            ("key_mask", (BATCH, KEYS, 1)),
            ("query_mask", (BATCH, KEYS)),
            ("query_mask", (3, QUERIES)),
        )
    ),
    (
        lambda: MultiHeadAttention(3, 4)(
            *(keras.Input(x.shape[1:]) for x in cross_inputs()),
            attention_mask=keras.Input((KEYS, QUERIES), dtype="bool"),
        ),
        "attention_mask",
        (None, KEYS, QUERIES),
    ),
    (
        lambda: layers.InteractingHeadAttention(3, 4, interaction="pairwise")(
            *cross_inputs(), attention_mask=random_mask((BATCH, 3, QUERIES, KEYS))
        ),
        "attention_mask",
        (BATCH, 3, QUERIES, KEYS),
    ),
)

test_biases_and_maps_of_other_shapes = refusals(
    *(
        (functools.partial(attend, **{name: make(shape)}), f"`{name}`", shape)
        for make in (np.zeros, tf.zeros)
        for name, shape in (
            ("bias", (BATCH, 2, QUERIES, KEYS)),
            ("bias", (BATCH, 3, KEYS, QUERIES)),
            ("bias", (3, 1, QUERIES, KEYS)),
            ("bias", (1, BATCH, 3, QUERIES, KEYS)),
            ("previous_logits", (3, QUERIES, KEYS)),
            ("previous_logits", (3, 3, QUERIES, KEYS)),
        )
    ),
    (
        lambda: layers.DifferentialAttention(4, 4)(self_input(), self_input(), bias=np.zeros((BATCH, 4, 5, 5))),
        f"({BATCH}, 8, 5, 5)",
        (BATCH, 4, 5, 5),
    ),
    (
        lambda: layers.TalkingHeadsAttention(3, 4, key_heads=2)(*cross_inputs(), bias=np.zeros((3, QUERIES, KEYS))),
        f"({BATCH}, 2, {QUERIES}, {KEYS})",
        (3, QUERIES, KEYS),
    ),
)

test_additive_masks_of_zeros = refusals(
    *(
        (functools.partial(attend, **{name: np.zeros(shape, dtype)}), f"`{name}`", "zeros alone")
        for dtype in ("float32", "float64")
        for name, shape in (("attention_mask", (BATCH, 1, QUERIES, KEYS)), ("key_mask", (BATCH, KEYS)))
    )
)


def test_zeros_that_are_no_floats_allow_nothing():
    for dtype in ("bool", "int32"):
        output = attend(attention_mask=np.zeros((BATCH, QUERIES, KEYS), dtype)).numpy()
        assert (output == output[0, 0]).all()  # the output's bias


test_key_lengths = refusals(
    *(
        (functools.partial(attend, key_lengths=np.array(lengths)), "`key_lengths`", "")
        for lengths in (
            [4.0, 2.0],
            [True, False],
            ["4", "2"],
            4,
            [4],
            [4, 2, 1],
            [[4], [2]],
            np.arange(KEYS) < np.array([[4], [2]]),
        )
    )
)


@each_path
def test_masks_of_each_path(case):
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    for mask in (np.full((BATCH, QUERIES, KEYS), -1e9), np.ones((BATCH, KEYS, QUERIES), bool)):
        with refused("attention_mask", mask.flat[0] if mask.dtype != bool else mask.shape):
            layer(*inputs, attention_mask=mask)
    with refused("`key_lengths`"):
        layer(*inputs, key_lengths=np.array([4]))


def check_bias(case, *values):
    """A mask must not be given as bias, in whatever form."""
    x, layer = self_input(), case.make()
    mask = random_mask((len(x), 1, x.shape[1], x.shape[1]))
    for value in values:
        with refused("attention_mask=bias == 0"):
            layer(x, x, bias=np.where(mask, 0.0, value).astype("float32"))
    with refused("`attention_mask`"):  # its 0 and 1 would be added
        layer(x, x, bias=mask)
    inputs = keras.Input(x.shape[1:]), keras.Input(mask.shape[1:], dtype="bool")
    with refused("`attention_mask`"):
        case.make()(inputs[0], inputs[0], bias=inputs[1])


@each_kind
def test_a_mask_as_bias(case):
    check_bias(case, -1e9)


def test_each_mask_as_bias():
    check_bias(CASES[0], -np.inf, -1e9, -1e4)
    bias = np.linspace(-1.0, 1.0, QUERIES, dtype="float32")[None, None, None]
    bias[..., 0] = -1e8
    with refused("attention_mask=bias == 0"):
        layers.TalkingHeadsAttention(**SIZES)(self_input(), self_input(), bias=bias)


# -------------------------------------------------------------------------------------------------- decoding


def decode(make, length, rows, index, batch=BATCH):
    x = self_input()
    layer, x = build(make(**SIZES), x), x[:, :rows]
    layer(x, x, cache=layer.init_cache(batch, length), index=index, use_causal_mask=True)


def step(query, *mask):
    layer = MultiHeadAttention(**SIZES)
    cache = build(layer, *cross_inputs()).project_cache(*cross_inputs()[1:])
    layer.step(query, cache, *mask)


test_caches = refusals(
    *(
        (functools.partial(decode, make, 4, rows, index), "index", index)
        for make in (MultiHeadAttention, functools.partial(layers.EvolvingAttention, alpha=0.0, role="decoder"))
        for rows, index in ((5, 0), (2, 3), (1, -1), (1, 4))
    ),
    (lambda: decode(MultiHeadAttention, QUERIES, QUERIES, 0, batch=BATCH + 1), "cache", BATCH + 1),
    # For self-attention or for cross-attention? Either way the value would be left out in silence.
    (lambda: decode(MultiHeadAttention, QUERIES, QUERIES, None), "index", None),
    (lambda: MultiHeadAttention(3, 4).project_cache(self_input()), "built", ""),
    (lambda: MultiHeadAttention(3, 4).step(self_input()[:, 0], {}), "`step`", ""),
    (lambda: step(cross_inputs()[0]), "query", "query of shape (2, 5, 12)"),
    (lambda: step(cross_inputs()[0][:, 0], np.ones((BATCH, KEYS), "float32")), "`mask`", "dtype float32"),
)


@each_path
def test_index_without_cache(case):
    x = self_input()
    layer = build(case.make(), x)
    with refused("index", 2):
        layer(x, x, index=2)


def test_segments_where_rows_interact():
    layer, x = layers.EvolvingAttention(2, 4), self_input()
    with refused("`segment_ids`", "segment_ids of shape"):
        layer(x, x, segment_ids=np.zeros((BATCH, QUERIES), "int32"))


# ---------------------------------------------------------------------------------------------------- builds


@pytest.mark.parametrize(
    "make, name, received",
    [
        (lambda: layers.DisentangledMaskAttention(2, 8), "`kept_information`", "2 * 8 and 12"),
        (lambda: layers.DisentangledMaskAttention(5, 4, kept_information=0), "The width of `query`", 12),
        (
            lambda: layers.SynthesizerAttention(2, 4, relative_positions=RotaryPositions()),
            "Positions that rotate",
            "<RotaryPositions",
        ),
    ],
)
def test_a_layer_that_cannot_be_built_says_so_again(make, name, received):
    """Keras calls a layer within a layer a second time, and shows that error."""
    layer = make()
    for _ in range(2):
        with refused(name, received):
            layer(self_input(), self_input())
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

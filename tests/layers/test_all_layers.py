"""What every attention layer must do as a Keras layer: config, files, symbolic shapes."""

import inspect
import json

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.layers import _attention
from keras_headattn.ops import attend
from keras_headattn.regularizers import Disagreement
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
    cross_inputs,
    each_kind,
    each_layer,
    each_path,
)

# Keras reads variables with np.array(variable) when it writes a file; not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

VOCABULARY = 11
UNUSUAL = {
    "dropout": 0.25,
    "use_bias": False,
    "output_shape": [2, 3],
    "attention_axes": [1],
    "sliding_window": 2,
    "flash_attention": False,
    "kernel_initializer": "he_normal",
    "bias_initializer": "ones",
    "kernel_regularizer": "l2",
    "bias_regularizer": "l1",
    "activity_regularizer": "l2",
    "kernel_constraint": "unit_norm",
    "bias_constraint": "non_neg",
    "use_gate": True,
    "seed": 7,
    "head_regularizer": Disagreement("positions", weight=0.5),
    "name": "unusual",
    "dtype": "mixed_bfloat16",
}


FUSED = ("multi_head", "gated", "interacting_sum", "interacting_pairwise", "relative", "rotary", "grouped_query")
FUSED += ("multi_query", "graph", "relative_chunks", "mixture_of_heads", "gated_by_head")
FUSED += ("knocking_heads", "knocking_heads_linear", "multi_head_explicit", "interleaved", "collaborative")
FUSED += ("differential_per_token", "paired_heads")


@each_layer
def test_plain_dot_products_are_one_function(case, monkeypatch):
    """Where nobody reads the weights, layers whose stages are those of the base take the fused path."""
    called = []
    monkeypatch.setattr(_attention, "attend", lambda *a, **k: called.append(1) or attend(*a, **k))
    inputs = cross_inputs()
    layer = build(case.make(), *inputs)
    layer(*inputs)
    assert bool(called) == (case.name in FUSED)
    called.clear()
    layer(*inputs, return_attention_scores=True)
    assert not called


def test_every_attention_of_the_table_is_tested():
    cases = {case.layer for case in CASES}
    assert cases == {*layers.ATTENTIONS.values()}
    attentions = {name for name in layers.__all__ if name.endswith("Attention") and name != "Attention"}
    assert attentions == {cls.__name__ for cls in layers.ATTENTIONS.values()}


# ---------------------------------------------------------------------------------------- config and files


@each_layer
def test_config_round_trip(case):
    layer = case.make(**UNUSUAL)
    config = layer.get_config()
    clone = case.layer.from_config(json.loads(json.dumps(config)))
    assert json.dumps(clone.get_config()) == json.dumps(config)
    for name in (*case.arguments, *UNUSUAL):
        assert name in config
    for name, value in {**case.arguments, **UNUSUAL}.items():
        if isinstance(value, (int, float)):
            assert config[name] == value, name
    assert [list(config[name]) for name in ("output_shape", "attention_axes")] == [[2, 3], [1]]
    assert config["kernel_initializer"]["class_name"] == "HeNormal"
    assert config["kernel_constraint"]["class_name"] == "UnitNorm"
    assert clone.head_regularizer.get_config() == {"kind": "positions", "weight": 0.5, "per": "sentence"}
    assert clone.name == "unusual" and clone.dtype_policy.name == "mixed_bfloat16"


@each_layer
def test_config_holds_every_argument(case):
    """Stock's leaves out flash_attention."""
    config = case.make(flash_attention=True).get_config()
    parameters = {
        name
        for cls in case.layer.__mro__[: case.layer.__mro__.index(keras.layers.Layer)]
        if "__init__" in vars(cls)
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    } - {"self"}
    assert parameters <= set(config)
    assert config["flash_attention"] is True
    assert case.layer.from_config(config).get_config()["flash_attention"] is True


@each_kind
def test_config_does_not_change_by_building(case):
    layer = case.make()
    before = json.dumps(layer.get_config())
    build(layer, *cross_inputs())
    assert json.dumps(layer.get_config()) == before


def masked_model(case):
    """Token ids with padding 0 to an attention layer that gets its masks from two embeddings."""
    arguments = {"dropout": 0.1, "sliding_window": 4}
    target = keras.Input((None,), dtype="int32", name="target")
    source = keras.Input((None,), dtype="int32", name="source")
    query = keras.layers.Embedding(VOCABULARY, QUERY_WIDTH, mask_zero=True)(target)
    value = keras.layers.Embedding(VOCABULARY, VALUE_WIDTH, mask_zero=True)(source)
    attended, scores = case.make(name="attention", **arguments)(query, value, return_attention_scores=True)
    output = case.make(name="decoder", **arguments)(attended, attended, use_causal_mask=True)
    pooled = keras.layers.GlobalAveragePooling1D()(output)
    return keras.Model([target, source], [output, scores, pooled])


def tokens(seed=5):
    rng = np.random.default_rng(seed)
    target, source = rng.integers(1, VOCABULARY, (BATCH, QUERIES)), rng.integers(1, VOCABULARY, (BATCH, KEYS))
    target[0, 3:], source[1, 4:] = 0, 0
    return target.astype("int32"), source.astype("int32")


@each_kind
def test_model_with_masks_and_its_files(case, tmp_path):
    """The mask goes on: average pooling leaves out the padded queries.

    A model of a file, whose class is found without custom_objects, and a clone with a file of weights give the same.
    """
    model = masked_model(case)
    output, _, pooled = expected = [array(x) for x in model(tokens())]
    np.testing.assert_allclose(pooled[0], output[0, :3].mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pooled[1], output[1].mean(0), rtol=1e-5, atol=1e-6)
    clone = keras.models.clone_model(model)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    clone.load_weights(tmp_path / "model.weights.h5")
    for other in (keras.models.load_model(tmp_path / "model.keras"), clone):
        for got, want in zip(other(tokens()), expected, strict=True):
            np.testing.assert_array_equal(array(got), want)


# -------------------------------------------------------------------------------------------------- shapes


@each_kind
@pytest.mark.parametrize("n, m, dtype", [(None, None, "mixed_float16"), (QUERIES, None, "float32")])
def test_symbolic_shapes_are_the_real_ones(case, n, m, dtype):
    check_symbolic_shapes(case, n, m, dtype)


@each_path
def test_symbolic_shapes_of_known_lengths(case):
    check_symbolic_shapes(case, QUERIES, KEYS, "float32")


def check_symbolic_shapes(case, n, m, dtype):
    """Also those of cross-attention scores, which stock gets wrong."""
    inputs = [
        keras.Input((n, QUERY_WIDTH), dtype="float32"),
        keras.Input((m, VALUE_WIDTH), dtype="float32"),
        keras.Input((m, KEY_WIDTH), dtype="float32"),
    ]
    layer = case.make(dtype=dtype)
    output, scores = layer(*inputs, return_attention_scores=True)
    assert tuple(output.shape) == (None, n, QUERY_WIDTH)
    assert tuple(scores.shape) == (None, *case.map_axes, n, m)
    only_output = layer(*inputs)
    assert tuple(only_output.shape) == tuple(output.shape)
    real = keras.Model(inputs, [output, scores, only_output])(list(cross_inputs()))
    for symbolic, tensor in zip((output, scores, only_output), real, strict=True):
        assert symbolic.dtype == keras.backend.standardize_dtype(tensor.dtype) == layer.compute_dtype
        assert len(symbolic.shape) == len(tensor.shape)
        assert all(a in (None, b) for a, b in zip(symbolic.shape, tensor.shape, strict=True))


@each_path
@pytest.mark.parametrize("output_shape, last", [(None, (QUERY_WIDTH,)), (6, (6,)), ((2, 3), (2, 3))])
def test_output_shape(case, output_shape, last):
    inputs = cross_inputs()
    layer = case.make(output_shape=output_shape)
    assert tuple(layer(*inputs).shape) == (BATCH, QUERIES, *last)
    shapes = [(None, *x.shape[1:]) for x in inputs]
    assert tuple(layer.compute_output_shape(*shapes)) == (None, QUERIES, *last)
    assert tuple(layer.compute_output_shape(*shapes[:2])) == (None, QUERIES, *last)


@each_kind
def test_empty_batch_and_single_token(case):
    query, value, key = cross_inputs()
    layer = build(case.make(), query, value, key)
    assert tuple(layer(query[:0], value[:0], key[:0]).shape) == (0, QUERIES, QUERY_WIDTH)
    output, scores = layer(query[:, :1], value[:, :1], key[:, :1], return_attention_scores=True)
    assert tuple(output.shape) == (BATCH, 1, QUERY_WIDTH)
    assert np.isfinite(array(output)).all()
    if case.rows_sum_to_one:
        np.testing.assert_allclose(array(scores), 1, rtol=1e-6)

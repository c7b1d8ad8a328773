"""LoRA of every attention layer, against kernels `W + alpha / rank * A B` of NumPy."""

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.layers import enable_lora, merge_lora
from keras_headattn.regularizers import CosineSimilarity
from tests.layers.harness import (
    HEADS,
    KEY_DIM,
    SIZES,
    array,
    build,
    check_close,
    copy_weights,
    each_kind,
    self_input,
)
from tests.layers.test_quantized import BY_NAME, of
from tests.refusals import refused

RANK, ALPHA = 2, 3.0
NAMES = {"query": "query", "key": "key", "value": "value", "output": "attention_output"}


def denses(layer):
    found = {name: getattr(layer, f"{name}_dense") for name in NAMES}
    return {name: dense for name, dense in found.items() if dense is not None}


def randomize_updates(layer, seed=5):
    """Gives both factors random numbers; returns the updates by the projection's name."""
    rng, updates = np.random.default_rng(seed), {}
    for name, dense in denses(layer).items():
        factors = dense.lora_kernel_a, dense.lora_kernel_b
        for factor in factors:
            factor.assign(rng.normal(scale=0.3, size=factor.shape))
        updates[name] = ALPHA / RANK * np.tensordot(*map(array, factors), axes=1)
    return updates


def multi_head(**arguments):
    return build(layers.MultiHeadAttention(**{**SIZES, **arguments}), self_input())


@each_kind
def test_equation_and_merge(case):
    x = self_input()
    layer, plain = (build(case.make(), x) for _ in range(2))
    copy_weights(layer, plain)
    before, weights = array(layer(x, x)), [weight.path for weight in layer.weights]
    trained = [weight.path for weight in layer.trainable_weights]
    enable_lora(layer, RANK, ALPHA)
    np.testing.assert_array_equal(array(layer(x, x)), before)

    updates = randomize_updates(layer)
    assert set(updates) == {name for name in NAMES if name != "output" or case.has_output}
    for name, update in updates.items():
        kernel = denses(plain)[name].kernel
        kernel.assign(array(kernel) + update)
    adapted = array(layer(x, x))
    check_close(adapted, plain(x, x))
    if case.name != "synthesizer":  # scores of dense logits alone may not change
        assert np.abs(adapted - before).max() > 1e-3

    merge_lora(layer)
    np.testing.assert_array_equal(array(layer(x, x)), adapted)
    assert [weight.path for weight in layer.weights] == weights
    assert [weight.path for weight in layer.trainable_weights] == trained
    enable_lora(layer, RANK)


@each_kind
def test_trained_weights(case):
    layer = build(case.make(), self_input())
    own = {weight.path for weight in layer.trainable_weights}
    own -= {weight.path for dense in denses(layer).values() for weight in dense.weights}
    enable_lora(layer, RANK)
    adapters = {f"{dense.path}/lora_kernel_{side}" for dense in denses(layer).values() for side in "ab"}
    assert {weight.path for weight in layer.trainable_weights} == own | adapters
    merge_lora(layer)
    enable_lora(layer, RANK, projections=["value"], own_weights=False)
    assert len(layer.trainable_weights) == 2


@pytest.mark.parametrize("name", layers.ATTENTIONS)
def test_files(name, tmp_path):
    """They hold the sums, so that a model without LoRA loads them."""
    model, x = of(BY_NAME[name].make()), self_input()
    enable_lora(model, RANK, ALPHA)
    randomize_updates(model.layers[-1])
    adapted = array(model(x))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded, plain = keras.saving.load_model(tmp_path / "model.keras"), of(BY_NAME[name].make())
    plain.load_weights(tmp_path / "model.weights.h5")
    for each in (loaded, plain):
        np.testing.assert_array_equal(array(each(x)), adapted)
    assert len(loaded.trainable_weights) == len(plain.trainable_weights)


def test_training_moves_the_updates_alone():
    x, model = self_input(), of(layers.MultiHeadAttention(HEADS, KEY_DIM))
    enable_lora(model, RANK)
    before = {weight.path: array(weight) for weight in model.weights}
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, "mse", run_eagerly=True)
    for _ in range(2):  # the first factors have no gradient while the second are zero
        model.train_on_batch(x, np.ones_like(x))
    moved = {weight.path for weight in model.weights if (array(weight) != before[weight.path]).any()}
    assert moved == {path for path in before if "lora_kernel" in path} and len(moved) == 8
    adapted = array(model(x))
    merge_lora(model)
    np.testing.assert_array_equal(array(model(x)), adapted)


def test_a_stock_layer_and_a_head():
    inputs = keras.Input((5, 12))
    outputs = keras.layers.Dense(1, name="head")(keras.layers.MultiHeadAttention(HEADS, KEY_DIM)(inputs, inputs))
    model = keras.Model(inputs, outputs)
    enable_lora(model, RANK, trainable="^head/")
    names = [weight.path for weight in model.trainable_weights]
    assert len(names) == 10 and names[-2:] == ["head/kernel", "head/bias"]


def test_kernels_keep_float32_under_mixed_precision():
    layer = multi_head(dtype="mixed_bfloat16")
    kernel = array(layer.query_dense.weights[0])
    enable_lora(layer, RANK, ALPHA)
    update = randomize_updates(layer)["query"]
    merge_lora(layer)
    check_close(layer.query_dense.weights[0], kernel + update, tolerance=1e-6)


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_quantized_kernels(mode):
    x, model = self_input(), of(layers.MultiHeadAttention(HEADS, KEY_DIM))
    for dense in denses(model.layers[-1]).values():
        dense.quantize(mode)
    before = array(model(x))
    enable_lora(model, RANK, ALPHA)
    np.testing.assert_array_equal(array(model(x)), before)
    randomize_updates(model.layers[-1])
    adapted = array(model(x))
    merge_lora(model)
    assert model.layers[-1].value_dense.quantization_mode == mode
    check_close(model(x), adapted, tolerance=0.05 if mode == "int8" else 0.5)


def quantized():
    layer = multi_head()
    layer.value_dense.quantize("float8")
    return layer


def adapted():
    layer = multi_head()
    enable_lora(layer, RANK)
    return layer


@pytest.mark.parametrize(
    "make, arguments, name, received",
    [
        (multi_head, {"rank": 0}, "`rank`", "rank=0"),
        (multi_head, {"alpha": -1}, "`alpha`", "alpha=-1"),
        (multi_head, {"projections": ["gate"]}, "`projections`", "['gate']"),
        (multi_head, {"projections": "query"}, "`projections`", "'query'"),
        (multi_head, {"trainable": "("}, "`trainable`", "trainable='('"),
        (multi_head, {"trainable": "pooler"}, "`trainable`", "trainable='pooler'"),
        (lambda: layers.MultiHeadAttention(2, 2), {}, "built", "<Multi"),
        (lambda: "bert", {}, "`layer`", "bert"),
        (adapted, {}, "`layer` must have no LoRA yet", "<Multi"),
        (quantized, {}, "float8", "quantization_mode='float8' in multi_head"),
        (lambda: multi_head(kernel_constraint="non_neg"), {}, "kernel_constraint", "NonNeg"),
        (lambda: multi_head(head_regularizer=CosineSimilarity()), {}, "`head_regularizer`", "<"),
        (
            lambda: build(layers.GraphAttention(HEADS, KEY_DIM), self_input()),
            {"projections": ["output"]},
            "`layer`",
            "<Graph",
        ),
        (lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), {}, "`layer`", "<Sequential"),
    ],
)
def test_refusals_change_nothing(make, arguments, name, received):
    layer = make()
    before = [(weight.path, weight.trainable) for weight in getattr(layer, "weights", ())]
    with refused(name, received):
        enable_lora(layer, **{"rank": RANK, **arguments})
    assert [(weight.path, weight.trainable) for weight in getattr(layer, "weights", ())] == before


def test_nothing_to_merge():
    with refused("`layer` must have LoRA", "<Multi"):
        merge_lora(multi_head())

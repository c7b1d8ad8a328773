"""Half precision: close to float32, in the right dtype, and finite for all logits that the dtype holds."""

import keras
import numpy as np
import pytest

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
    each_computation,
    random_mask,
)

TOLERANCE = {"float16": 1e-2, "bfloat16": 8e-2}


@each_computation
@pytest.mark.parametrize("dtype", ["mixed_float16", "bfloat16"])
def test_close_to_float32(case, dtype):
    inputs = cross_inputs()
    mask = random_mask((BATCH, QUERIES, KEYS))
    layer, reference = (build(case.make(dtype=d), *inputs) for d in (dtype, "float32"))
    half = dtype.removeprefix("mixed_")
    assert layer.compute_dtype == half
    assert layer.trainable_weights[0].dtype == ("float32" if dtype.startswith("mixed") else half)
    call = {"attention_mask": mask, "use_causal_mask": True}
    expected, expected_scores = reference(*inputs, return_attention_scores=True, **call)
    output, scores = layer(*inputs, return_attention_scores=True, **call)
    without = layer(*inputs, **call)
    for got, want in ((output, expected), (scores, expected_scores), (without, expected)):
        assert keras.backend.standardize_dtype(got.dtype) == half
        check_close(got, want, TOLERANCE[half])


@each_computation
def test_one_head(case):
    """A product of TensorFlow writes out of bounds there in bfloat16: other values at each call, or a crash."""
    sizes = ("num_heads", "key_heads", "value_heads", "num_key_value_heads", "num_components", "mix_weights")
    one = {"key_dim": QUERY_WIDTH, **{name: 1 for name in sizes if name in case.arguments}}
    if case.layer is layers.PairedHeadsAttention:
        one["num_heads"] = 2
    inputs = [np.tile(x, (2, 4, 1)) for x in cross_inputs()]
    expected = build(case.make(dtype="float64", **one), *inputs)(*(x.astype("float64") for x in inputs))
    for dtype, tolerance in {"bfloat16": 8e-2, "mixed_float16": 1e-2, "float32": 1e-5}.items():
        layer = build(case.make(dtype=dtype, **one), *inputs)
        outputs = [array(layer(*inputs)) for _ in range(3)]
        check_close(outputs[0], expected, tolerance)
        np.testing.assert_array_equal(outputs[1:], outputs[:1] * 2)


@each_computation
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_finite_for_large_logits(case, dtype):
    """The largest logit is about 2e4 (2e37 in float32), and the mask is added to none of them."""
    inputs = cross_inputs(dtype="float64")
    target = 2e37 if dtype == "float32" else 2e4
    exact = build(case.make(dtype="float64", use_bias=False), *inputs)
    with layers.capture_intermediates() as found:
        exact(*inputs)
    largest = np.abs(array(next(iter(found.values()))["logits"])).max()
    # Logits are bounded in these, or are multiplied by numbers that grow with the inputs.
    if case.name not in ("luong_concat", "options", "dynamically_composable"):
        factor = np.sqrt(target / largest)
        inputs = inputs[0] * factor, inputs[1], inputs[2] * factor
    inputs = [x.astype("float32") for x in inputs]
    layer = build(case.make(dtype=dtype, use_bias=False), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[0, 1] = False
    for call in ({}, {"attention_mask": mask}, {"use_causal_mask": True}):
        output, scores = layer(*inputs, return_attention_scores=True, **call)
        for result in (output, scores, layer(*inputs, **call)):
            assert np.isfinite(array(result)).all()
        check_close(output, layer(*inputs, **call), 5e-2)
    assert not array(layer(*inputs, attention_mask=mask))[0, 1].any()


@each_computation
def test_softmax_is_in_float32(case):
    """Many equal weights still sum to 1: with float16 or bfloat16 sums they would not."""
    if not case.rows_sum_to_one:
        pytest.skip("its rows need not sum to 1")
    query, value, key = cross_inputs(keys=3000)
    layer = build(case.make(dtype="mixed_bfloat16"), query, value, key * 0)
    _, scores = layer(query, value, key * 0, return_attention_scores=True)
    several = (layers.InterleavedHeadAttention, layers.PairedHeadsAttention)
    roundings = 2 if case.layer in several else 1  # of the keys of a token, and of their sums
    np.testing.assert_allclose(array(scores).astype("float64").sum(-1), 1, atol=4e-3 * roundings)

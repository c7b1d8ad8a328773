"""Multi-token attention: golden vectors, the equations, multi-head attention that it starts as, decoding, segments."""

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn._private import is_compiled_by_xla
from keras_headattn.ops._map_convolution import convolve_each_head
from keras_headattn.optimizers import Repulsive
from tests.layers import oracles, oracles_variants
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    QUERIES,
    TOKENS,
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

LENGTH = 6
NORMED = {"head_norm": "depth", "output_gate": "head"}
# What the golden cases are called with, and their equation.
GOLDEN = {
    "keyquery": {"logits_kernel_size": (3, 5)},
    "paper": {"logits_kernel_size": (3, 5), "mix_weights": 2, "head_norm": "depth", "depth": 2},
    "released": {
        "logits_kernel_size": (3, 5),
        "weights_kernel_size": (2, 3),
        "mix_logits": True,
        "mix_weights": 2,
        "head_norm": True,
        "output_gate": "head",
    },
    "linear_heads": {
        "logits_kernel_size": None,
        "mix_logits": True,
        "mix_weights": 6,
        "head_norm": True,
        "output_gate": True,
    },
}


def make(**options):
    return layers.MultiTokenAttention(**{**TOKENS, "dtype": "float64", **options})


def golden_weights(data, case):
    """Convolutions and mixing matrices here leave out the identity; there, two heads share a key and a value."""
    theirs = {n.removeprefix(f"{case}.w."): x.astype("float64") for n, x in data.items() if n.startswith(f"{case}.w.")}
    weights = {"attention_output.kernel": theirs["wo.weight"].T.reshape(6, 4, 24)}
    for name, repeats in {"query": 1, "key": 2, "value": 2}.items():
        kernel = theirs[f"w{name[0]}.weight"].T.reshape(24, -1, 4)
        weights[f"{name}.kernel"] = np.repeat(kernel, repeats, axis=1)
    for name, other in {"logits_kernel": "mta_kernel", "weights_kernel": "mta_kernel_after_sm"}.items():
        if other in theirs:
            weights[name] = theirs[other][:, 0]
            weights[name][:, -1, theirs[other].shape[-1] // 2] -= 1
    for name, other in {"logits": "wpsm.weight", "weights": "wposm.weight"}.items():
        if other in theirs:
            weights[f"{name}_mixing_kernel"] = theirs[other].T[None] - np.eye(6)
    if "head_kernel" in theirs:
        weights["weights_mixing_kernel"] = theirs["head_kernel"] - np.eye(2)
    if "subln.weight" in theirs:
        weights["norm_scale"] = theirs["subln.weight"]
    if "gate.weight" in theirs:
        weights |= {"output_gate_kernel": theirs["gate.weight"].T, "output_gate_bias": theirs["gate.bias"]}
    return weights


@pytest.mark.parametrize("case", GOLDEN)
def test_public_code(golden, case):
    """The equations, and the layer."""
    data = golden("variants_mta.npz")
    x, weights = data["x"].astype("float64"), golden_weights(data, case)
    equation = oracles_variants.multi_token(2, case == "paper")
    layer = layers.MultiTokenAttention(6, 4, use_bias=False, dtype="float64", **GOLDEN[case])
    layer = oracles_variants.layer_with(layer, weights, x, x)
    for kind, mask in {"causal": np.tri(9, dtype=bool)[None], "masked": data["mask"]}.items():
        expected = data[f"{case}.{kind}.out_f64"], data[f"np.{case}.{kind}.weights_f64"]
        found = oracles_variants.attention(equation, weights, x, x, mask=mask[:, None])
        for got in (found, layer(x, x, attention_mask=mask, return_attention_scores=True)):
            for one, other in zip(got, expected, strict=True):
                check_close(one, other, DOUBLE)


@pytest.mark.parametrize("by_head", [False, True])
@pytest.mark.parametrize("options", [{}, {**NORMED, "depth": 1, "use_gate": True}, {"mix_weights": 1}], ids=str)
def test_equations(options, by_head):
    """With widths that differ, and a query that may attend to nothing."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(**options), *inputs)
    mask = random_mask((BATCH, HEADS, QUERIES, KEYS) if by_head else (BATCH, QUERIES, KEYS))
    mask[1, ..., 3, :] = False
    equation = oracles_variants.multi_token(1, True)
    oracles_variants.check(layer, equation, *inputs, mask)
    bias = array(oracles_variants.by_name(layer)["attention_output.bias"])
    assert (array(layer(*inputs, attention_mask=mask))[1, 3] == bias).all()


@pytest.mark.parametrize("dtype, tolerance", [("float64", DOUBLE), ("mixed_float16", 5e-3)])
def test_it_starts_as_multi_head_attention(dtype, tolerance):
    x = self_input()
    layer = layers.MultiTokenAttention(**TOKENS, dtype=dtype)
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype=dtype)
    layer.build(x.shape, x.shape)
    plain.build(x.shape, x.shape)
    copy_weights(layer, plain)
    check_close(layer(x, x, use_causal_mask=True), plain(x, x, use_causal_mask=True), tolerance)


def test_padded_queries_and_segments():
    """Each segment as if it were alone, whatever the others hold; a padded query is 0 for the rows after it."""
    x = self_input(dtype="float64", length=LENGTH)
    for options in ({}, {"logits_kernel_size": (7, 3)}):
        layer = build(make(**options), x)
        ids = np.array([[1, 1, 2, 2, 2, 3], [0, 4, 4, 4, 4, 4]])
        for causal in (False, True):
            output = array(layer(x, x, segment_ids=ids, use_causal_mask=causal))
            for b, i in [(0, 1), (0, 2), (0, 3), (1, 0), (1, 4)]:
                alone = x[b : b + 1, ids[b] == i]
                check_close(output[b : b + 1, ids[b] == i], layer(alone, alone, use_causal_mask=causal), DOUBLE)
        real = np.ones((BATCH, LENGTH), bool)
        real[0, :2] = False
        output = layer(np.where(real[..., None], x, 1e3), x, query_mask=real, key_mask=real)
        check_close(array(output)[:1, 2:], layer(x[:1, 2:], x[:1, 2:]), DOUBLE)


@pytest.mark.parametrize("options", [{}, {"logits_kernel_size": None}, {"weights_kernel_size": None}, NORMED], ids=str)
def test_decoding(options):
    """Step by step and in pieces as at once, and rows kept of logits and of weights."""
    x = self_input(dtype="float64", length=LENGTH)
    layer = build(make(**options), x)
    cache = oracles_variants.check_decoding(layer, x)
    rows = 2 * ("logits_kernel_size" not in options) + ("weights_kernel_size" not in options)
    assert layer.score_rows == rows and tuple(cache["logits"].shape) == (BATCH, HEADS, rows, LENGTH + 2)


def test_cross_attention_step_by_step():
    query, value, key = cross_inputs(dtype="float64")
    layer = build(make(role="cross"), query, value, key)
    real = random_mask((BATCH, KEYS))
    expected = array(layer(query, value, key, key_mask=real))
    for method in ("call", "step"):
        cache = layer.project_cache(value, key)
        for i in range(QUERIES):
            if method == "call":
                output, cache = layer(query[:, i : i + 1], cache=cache, index=i, key_mask=real)
                output = output[:, 0]
            else:
                output, cache = layer.step(query[:, i], cache, real, position=i)
            check_close(output, expected[:, i], DOUBLE)


def test_gradients():
    inputs = cross_inputs(dtype="float64")
    mask = random_mask((BATCH, QUERIES, KEYS))
    gradients = oracles_variants.check_gradients(build(make(**NORMED), *inputs), *inputs, attention_mask=mask)
    assert all(np.abs(gradient).max() > 1e-4 for gradient in gradients.values())


@pytest.mark.parametrize("size", [(1, 5), (4, 1), (6, 11), (2, 41)], ids=str)
def test_convolution_compiled_by_xla(size):
    """XLA gets another convolution: the same with all gradients, also of maps without items, rows or columns."""

    def convolve(maps, kernel):
        with tf.GradientTape() as tape:
            tape.watch([maps, kernel])
            convolved, _ = convolve_each_head(maps, kernel)
            loss = tf.reduce_sum(convolved**3)
        return convolved, *tape.gradient(loss, [maps, kernel])

    signature = [tf.TensorSpec(shape, tf.float64) for shape in ((None, 3, None, None), (3, *size))]
    compiled = tf.function(convolve, signature, jit_compile=True, autograph=False)
    rng = np.random.default_rng(0)
    for batch, n, m in [(2, 5, 7), (1, 16, 32), (2, 18, 33), (0, 5, 7), (2, 0, 7), (2, 5, 0)]:
        tensors = [tf.constant(rng.normal(size=shape)) for shape in ((batch, 3, n, m), (3, *size))]
        for got, expected in zip(compiled(*tensors), convolve(*tensors), strict=True):
            np.testing.assert_allclose(got, expected, rtol=DOUBLE, atol=DOUBLE)


@pytest.mark.parametrize("jit_compile", [True, False])
def test_where_xla_compiles(jit_compile):
    found = []

    @tf.function(jit_compile=jit_compile)
    def outer(x):
        found.append(is_compiled_by_xla())
        return tf.function(inner)(x)

    def inner(x):
        found.append(is_compiled_by_xla())
        return x

    outer(tf.zeros(1))
    assert found == [jit_compile, jit_compile] and not is_compiled_by_xla()


def test_order_of_heads():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(), *inputs)
    axes = {"logits_kernel": (0,), "weights_kernel": (0,), "logits_mixing_kernel": (1, 2)}
    weights = oracles_variants.permuted(
        oracles.named_weights(layer), [2, 0, 1], **axes, weights_mixing_kernel=axes["logits_mixing_kernel"]
    )
    check_close(oracles_variants.layer_with(make(), weights, *inputs)(*inputs), layer(*inputs), DOUBLE)


def test_repulsive():
    """Kernels are particles, also at the start, where all are the same."""
    x = self_input()
    layer = layers.MultiTokenAttention(**TOKENS)
    layer.build(x.shape, x.shape)
    found = oracles_variants.heads_found(layer)
    kernels = {"query": (1, HEADS), "key": (1, HEADS), "value": (1, HEADS), "attention_output": (0, HEADS)}
    assert found == kernels | {"logits": (0, HEADS), "weights": (0, HEADS)}
    optimizer = Repulsive("adam")
    optimizer.build(layer.trainable_variables)
    for _ in range(2):
        optimizer.apply([np.ones(v.shape, "float32") for v in layer.trainable_variables], layer.trainable_variables)
    assert all(np.isfinite(array(v)).all() for v in layer.trainable_variables)


def test_weights():
    layer = layers.MultiTokenAttention(4, KEY_DIM, VALUE_DIM)
    layer.build((1, 2, 8), (1, 2, 8))
    assert oracles_variants.own_weights(layer) == {"logits_kernel": (4, 6, 11)} and not array(layer.logits_kernel).any()

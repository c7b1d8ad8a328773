"""Mixture of heads: the public code's numbers, the equations, the router, its loss and the load of heads."""

import numpy as np
import pytest
from keras import ops

from keras_headattn import layers, regularizers
from tests.layers import oracles, oracles_variants
from tests.layers.harness import (
    BATCH,
    KEY_DIM,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
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

HEADS = 5
NUMBERS = {"both": (2, 2), "one_shared": (1, 2), "one_routed": (4, 1), "routed": (0, 3), "shared": (5, 0)}
each_kind = pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)


def make(shared=2, active=2, **options):
    options = {"value_dim": VALUE_DIM, "dtype": "float64", "shared_heads": shared, "active_heads": active, **options}
    return layers.MixtureOfHeadsAttention(HEADS, KEY_DIM, **options)


def gates_of(layer, x):
    with layers.capture_intermediates() as found:
        layer(x, x)
    return array(next(iter(found.values()))["gates"])


# ------------------------------------------------------------------------------------------------- the public code

GOLDEN = {"both": (2, 3), "routed": (0, 3), "shared": (6, 0)}
each_golden = pytest.mark.parametrize("name", GOLDEN)


def golden_weights(data, name):
    weights = oracles_variants.fused_projections(data, f"{name}.w.", 6, 4)
    routers = {"wg": "routed_kernel", "wg_1": "shared_kernel", "wg_0": "kind_kernel"}
    found = {ours: f"{name}.w.{theirs}.weight" for theirs, ours in routers.items()}
    return weights | {ours: data[theirs].astype("float64").T for ours, theirs in found.items() if theirs in data}


@each_golden
def test_the_equations_are_the_public_code(golden, name):
    data, numbers = golden("variants_moh.npz"), GOLDEN[name]
    x, weights = data["x"].astype("float64"), golden_weights(data, name)
    out, _ = oracles_variants.attention(oracles_variants.mixture_of_heads(*numbers), weights, x, x)
    check_close(out, data[f"{name}.out_f64"], DOUBLE)
    gates = [[oracles_variants.head_gates(weights, row, 6, *numbers) for row in rows] for rows in x]
    check_close(np.array(gates), data[f"np.{name}.gates_f64"], DOUBLE)
    if name != "shared":
        loss, _ = oracles_variants.balance(weights, x, np.ones((2, 7), bool), 3)
        check_close(loss, data[f"{name}.balance_loss_f64"], DOUBLE)


@each_golden
def test_public_code(golden, name):
    data = golden("variants_moh.npz")
    x, (shared, active) = data["x"].astype("float64"), GOLDEN[name]
    layer = layers.MixtureOfHeadsAttention(6, 4, shared_heads=shared, active_heads=active, balance=2.0, dtype="float64")
    layer.build(x.shape, x.shape)
    oracles_variants.set_weights(layer, **golden_weights(data, name))
    check_close(layer(x, x, training=True), data[f"{name}.out_f64"], DOUBLE)
    losses = [2 * float(data[f"{name}.balance_loss_f64"])] if name != "shared" else []
    np.testing.assert_allclose(layer.losses, losses, rtol=1e-12)
    check_close(gates_of(layer, x).swapaxes(1, 2), data[f"np.{name}.gates_f64"], DOUBLE)


# ---------------------------------------------------------------------------------------------------- the equations


@each_kind
def test_equations(numbers):
    """With widths that differ, a query that may attend to nothing, and the other gate."""
    inputs = cross_inputs(dtype="float64")
    layer = build(make(*numbers, use_gate=True), *inputs)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3] = False
    oracles_variants.check(layer, oracles_variants.mixture_of_heads(*numbers), *inputs, mask)
    output = array(layer(*inputs, attention_mask=mask))
    assert (output[1, 3] == array(oracles_variants.by_name(layer)["attention_output.bias"])).all()


@each_kind
def test_weights_there_are(numbers):
    """No router for one head, nor one of kinds for one kind."""
    shared, routed = numbers[0], HEADS - numbers[0]
    sizes = {"shared_kernel": shared, "routed_kernel": routed, "kind_kernel": 2 if shared and routed else 0}
    expected = {name: (QUERY_WIDTH, size) for name, size in sizes.items() if size > 1}
    expected |= {"head_load": (routed,)} if routed else {}
    layer = build(make(*numbers), *cross_inputs())
    assert oracles_variants.own_weights(layer) == expected
    found = {"query": (1, HEADS), "key": (1, HEADS), "value": (1, HEADS), "attention_output": (0, HEADS)}
    assert oracles_variants.heads_found(layer) == found  # `Repulsive` leaves routers alone


def test_multi_head_attention():
    """Routers of zeros that keep all heads: every gate is 1."""
    x = self_input(dtype="float64")
    plain = build(layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64"), x)
    for numbers in ((0, HEADS), (2, HEADS - 2), (HEADS, 0)):
        layer = make(*numbers, kernel_initializer="zeros")
        layer.build(x.shape, x.shape)
        copy_weights(plain, layer)
        check_close(layer(x, x), plain(x, x), DOUBLE)


def test_gates():
    """They sum to 2 (a S + b k); heads that are not kept may as well have output kernels of zeros."""
    x = self_input(dtype="float64", length=1)[:1]
    layer = build(make(2, 1), x)
    weights, gates = oracles.named_weights(layer), gates_of(layer, x)[0, :, 0]
    kinds = x[0, 0] @ weights["kind_kernel"]
    a, b = np.exp(kinds) / np.exp(kinds).sum()
    assert gates.sum() == pytest.approx(2 * (a * 2 + b * 1), rel=1e-12)
    assert (gates[:2] > 0).all() and (gates[2:] > 0).sum() == 1
    expected = array(layer(x, x))
    oracles_variants.set_weights(
        layer, **{"attention_output.kernel": weights["attention_output.kernel"] * (gates > 0)[:, None, None]}
    )
    check_close(layer(x, x), expected, DOUBLE)


def test_the_first_of_equal_heads_are_kept():
    x = self_input(dtype="float64")
    layer = build(make(1, 2), x)
    oracles_variants.set_weights(layer, routed_kernel=0.0)
    assert ((gates_of(layer, x) > 0) == np.array([True, True, True, False, False])[None, :, None]).all()


def test_default_numbers_of_heads():
    found = {}
    for heads in (1, 2, 4, 8):
        layer = layers.MixtureOfHeadsAttention(heads, 4)
        found[heads] = layer.shared_heads, layer.active_heads
    assert found == {1: (0, 1), 2: (0, 1), 4: (1, 2), 8: (2, 3)}


# ---------------------------------------------------------------------------------------------------------- training


def test_loss_and_load_of_real_tokens():
    x, real = self_input(dtype="float64"), np.arange(QUERIES) < [[QUERIES], [2]]
    layer = build(make(2, 2, balance=0.5), x)
    weights = oracles.named_weights(layer)
    loss, load = oracles_variants.balance(weights, x, real, 2)
    assert load.sum() == pytest.approx(2) and 0.5 < loss
    for masks in ({"query_mask": real}, {"query_mask": real, "key_mask": real, "use_causal_mask": True}):
        oracles_variants.set_weights(layer, head_load=2 / 3)
        layer(x, x, training=True, **masks)
        assert float(layer.losses[0]) == pytest.approx(0.5 * loss, rel=1e-12)
        np.testing.assert_allclose(layer.head_load, 0.99 * 2 / 3 + 0.01 * load, rtol=1e-6)
    layer(x, x, query_mask=real)
    assert not layer.losses
    piece = x[:, :1]
    layer(piece, piece, cache=layer.init_cache(BATCH, 3), index=0, training=True)
    assert not layer.losses


def test_a_block_leaves_out_padding():
    x, real = self_input(), np.arange(QUERIES) < [[QUERIES], [2]]
    attention = layers.MixtureOfHeadsAttention(4, KEY_DIM, balance=1.0)
    block = layers.EncoderBlock(attention, intermediate_dim=8, recompute=True)
    block(x, mask=real, training=True)
    (loss,) = map(float, block.losses)
    block(np.where(real[..., None], x, 1e2), mask=real, training=True)
    assert float(block.losses[0]) == pytest.approx(loss, rel=1e-5)
    assert np.abs(array(block.attention.head_load) - 2 / 3).max() > 1e-4


def test_gradients():
    """The loss reaches the router of the routed heads alone, the output all of them."""
    inputs = cross_inputs(dtype="float64")
    gradients = oracles_variants.check_gradients(build(make(), *inputs), *inputs)
    for name in ("routed_kernel", "shared_kernel", "kind_kernel"):
        assert np.abs(gradients[name]).max() > 1e-3, name


def test_a_head_regularizer_sees_heads_before_the_gates():
    inputs = cross_inputs(dtype="float64")
    options = {"head_regularizer": regularizers.Disagreement("outputs")}
    layer = build(make(**options), *inputs)
    plain = layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, dtype="float64", **options)
    plain.build(*(x.shape for x in inputs))
    copy_weights(layer, plain)
    layer(*inputs), plain(*inputs)
    assert float(layer.losses[0]) == pytest.approx(float(plain.losses[0]), rel=1e-12)


# ------------------------------------------------------------------------------------------------------------- decoding


@each_kind
def test_decoding(numbers):
    x = self_input(dtype="float64", length=6)
    cache = oracles_variants.check_decoding(build(make(*numbers), x), x)
    assert oracles_variants.numbers_a_key(cache) == HEADS * (KEY_DIM + VALUE_DIM)


def test_one_step_is_a_call():
    inputs = cross_inputs(dtype="float64")
    layer = build(make(), *inputs)
    cache = layer.project_cache(*inputs[1:])
    output, _ = layer.step(ops.convert_to_tensor(inputs[0][:, 0]), cache)
    check_close(output, array(layer(*inputs))[:, 0], DOUBLE)


def test_configuration():
    config = make(1, 3, balance=0.1).get_config()
    assert (config["shared_heads"], config["active_heads"], config["balance"]) == (1, 3, 0.1)
    assert layers.MixtureOfHeadsAttention.from_config(config).get_config() == config

"""Tensors into weights by name, in full or not at all."""

import keras
import numpy as np
import pytest

from keras_headattn.interop import Names, copy_weights, weights_by_name
from keras_headattn.layers import (
    DifferentialAttention,
    EvolvingAttention,
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadExplicitAttention,
)
from tests.layers.harness import array
from tests.refusals import refused

NAMES = Names({"{p}": "att.{p}", "attention_output": "att.out"})
WIDTH, HEADS = 12, 4


def made(cls=MultiHeadAttention, **arguments):
    layer = cls(HEADS, WIDTH // HEADS, name="attention", **arguments)
    layer.build((None, None, WIDTH), (None, None, WIDTH), previous_logits_shape=(None, HEADS, None, None))
    return layer


def tensors():
    rng = np.random.default_rng(0)
    found = {}
    for name in ("query", "key", "value", "out"):
        found[f"att.{name}.weight"] = rng.normal(size=(WIDTH, WIDTH)).astype("float32")
        found[f"att.{name}.bias"] = rng.normal(size=WIDTH).astype("float32")
    return found


def test_torch_layout():
    layer, given = made(), tensors()
    copy_weights(layer, given, NAMES)
    x = np.random.default_rng(1).normal(size=(1, 5, WIDTH)).astype("float32")

    def linear(x, name):
        return x @ given[f"att.{name}.weight"].T + given[f"att.{name}.bias"]

    q, k, v = (linear(x[0], name).reshape(5, HEADS, -1).swapaxes(0, 1) for name in ("query", "key", "value"))
    logits = q @ k.swapaxes(1, 2) / (WIDTH // HEADS) ** 0.5
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = linear((weights @ v).swapaxes(0, 1).reshape(5, WIDTH), "out")
    np.testing.assert_allclose(array(layer(x, x))[0], expected, rtol=1e-5, atol=1e-5)


def test_every_fault_is_named_and_nothing_changes():
    layer, given = made(), tensors()
    del given["att.query.bias"]
    given["att.key.weight"] = np.zeros((WIDTH, WIDTH + 1), "float32")
    given["att.rotation"] = np.zeros(2, "float32")
    before = [array(weight) for weight in layer.weights]
    with refused("nothing was copied", "missing: att.query.bias") as error:
        copy_weights(layer, given, NAMES)
    told = str(error.value)
    assert "left over: att.rotation" in told
    assert "of another shape: att.key.weight (12, 13), not (12, 12)" in told and "\n" not in told
    for weight, old in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(array(weight), old)


def test_left_over_may_be_allowed():
    given = tensors() | {"att.rotation": np.zeros(2, "float32")}
    assert copy_weights(made(), given, NAMES, strict=False).left_over == ["att.rotation"]
    assert copy_weights(made(), given, Names(NAMES.table, unused=[r"att\.rot.*"])).left_over == ["att.rotation"]


def test_what_is_new_is_initialised():
    report = copy_weights(made(EvolvingAttention), tensors(), NAMES)
    assert len(report.copied) == 8 and report.initialised == ["map_kernel", "map_bias"]
    assert "Not in the checkpoint: initialised: map_kernel, map_bias." in str(report)


def test_means_of_heads():
    layer, given = made(GroupedQueryAttention, num_key_value_heads=2), tensors()
    report = copy_weights(layer, given, NAMES)
    assert sorted(report.averaged) == ["key/bias", "key/kernel", "value/bias", "value/kernel"]
    heads = given["att.key.weight"].T.reshape(WIDTH, HEADS, WIDTH // HEADS)
    expected = np.stack([heads[:, :2].mean(1), heads[:, 2:].mean(1)], axis=1)
    np.testing.assert_allclose(array(layer.key_dense.kernel), expected, atol=1e-6)


@pytest.mark.parametrize("groups", [4, 2])
def test_components_of_heads(groups):
    """Keys and values that have the rank of the components are the same; others are the closest, biases with them."""
    layer, given = made(MultiHeadExplicitAttention, num_components=1, num_key_value_heads=groups), tensors()
    rng = np.random.default_rng(2)
    shares = np.repeat([1.0, -2.0, 0.5, 3.0][:groups], HEADS // groups)
    given["att.key.weight"] = np.kron(shares[:, None], rng.normal(size=(WIDTH // HEADS, WIDTH))).astype("float32")
    given["att.key.bias"] = np.kron(shares, rng.normal(size=WIDTH // HEADS)).astype("float32")
    report = copy_weights(layer, given, NAMES)
    assert report.initialised == ["norm_scale"] and report.copied["key_mixing_kernel"] == "att.key.weight"
    assert len(report.averaged) == (4 if groups < HEADS else 0)
    own = {name: array(weight) for name, weight in weights_by_name(layer).items()}

    def heads(side, kind):
        return np.einsum("...cd,cj->...jd", own[f"{side}/{kind}"], own[f"{side}_mixing_kernel"])

    def expected(side, kind):
        tensor = given[f"att.{side}.{'weight' if kind == 'kernel' else 'bias'}"].T
        return tensor.reshape(*tensor.shape[:-1], groups, HEADS // groups, -1).mean(-2)

    for kind in ("kernel", "bias"):
        np.testing.assert_allclose(heads("key", kind), expected("key", kind), atol=1e-5)
    both = np.concatenate([expected("value", "kernel"), expected("value", "bias")[None]]).swapaxes(1, 2)
    error = np.concatenate([heads("value", "kernel"), heads("value", "bias")[None]]).swapaxes(1, 2) - both
    sizes = np.linalg.svd(both.reshape(-1, groups), compute_uv=False)
    np.testing.assert_allclose(np.sqrt(np.sum(error**2)), np.sqrt(np.sum(sizes[1:] ** 2)), rtol=1e-4)


def test_as_many_components_as_heads_are_the_heads():
    report = copy_weights(layer := made(MultiHeadExplicitAttention), given := tensors(), NAMES)
    assert report.initialised == ["key_mixing_kernel", "value_mixing_kernel", "norm_scale"]
    np.testing.assert_array_equal(array(layer.key_dense.bias).ravel(), given["att.key.bias"])


def test_wider_heads_are_refused():
    with refused("nothing was copied", "of another shape: att.query.weight"):
        copy_weights(made(DifferentialAttention), tensors(), NAMES)


def test_names_below_any_model():
    inputs = keras.Input((5, WIDTH))
    model = keras.Model(inputs, made()(inputs, inputs))
    assert set(weights_by_name(made())) <= {name.removeprefix("attention/") for name in weights_by_name(model)}

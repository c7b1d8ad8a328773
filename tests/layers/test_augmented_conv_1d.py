"""Causal augmented convolution against the code of Wang et al. 2022, and what it refuses.

The public code names alpha and beta the other way round, has a leaky ReLU in the convolution of maps, and scrambles the
heads' outputs: `PublicAttention` does so.
"""

import keras
import numpy as np
import pytest
from keras import ops

from keras_headattn.layers import AugmentedConv1D, EvolvingAttention, MultiHeadAttention
from keras_headattn.ops import convolve_maps
from tests.layers.harness import array, randomize
from tests.layers.test_augmented_golden import FLOAT32, FLOAT64, assign, close, split

ALPHA_BETA = {"plain": (0.0, 0.0), "evolve": (0.5, 1.0), "mix": (0.3, 0.6), "norel": (0.3, 0.6), "fullatt": (0.3, 0.6)}


@keras.saving.register_keras_serializable("tests")
class PublicAttention(EvolvingAttention):
    """Evolving attention of the public code: no masks, no output projection."""

    leaky_map = False  # the map that is passed on

    def call(
        self,
        query,
        value,
        query_mask=None,
        value_mask=None,
        return_attention_scores=False,
        training=None,
        previous_logits=None,
        return_logits=False,
    ):
        return super().call(
            query, value, training=training, previous_logits=previous_logits, return_logits=return_logits
        )

    def _convolves(self, chained):
        return self.beta > 0 and chained and self.depth != 0

    def evolve(self, logits, state):
        previous = state.previous_logits
        if self._convolves(previous is not None):
            logits = self.alpha * previous + (1 - self.alpha) * logits
            up, down = (convolve_maps(logits, s * self.map_kernel, s * self.map_bias, "encoder") for s in (1, -1))
            logits = self.beta * (up - 0.01 * down) + (1 - self.beta) * logits
        return logits, ops.leaky_relu(logits, 0.01) if self.leaky_map else logits, state.cache

    def merge(self, heads, state):
        batch, h, n, width = heads.shape
        return ops.transpose(ops.reshape(heads, (batch, h * width, n)), (0, 2, 1))


def public_weights(data, prefix, key_rel, heads, key_dim, value_dim):
    """Weights by path, from those of an `EAAugmentedConv1d` of this prefix."""
    w = {name.removeprefix(prefix): data[name] for name in data.files if name.startswith(prefix)}
    weights = {}
    if "conv.weight_v" in w:
        weights["kernel"] = w["conv.weight_v"].transpose(2, 1, 0)
        weights |= {"scale": w["conv.weight_g"].reshape(-1), "bias": w["conv.bias"]}
    for kind in ("kernel", "bias"):
        joint = w["qkv_conv.weight"][:, :, 0].T if kind == "kernel" else w["qkv_conv.bias"]
        parts = split(joint, ("query", "key", "value"), heads, key_dim, value_dim)
        weights |= {f"attention/{name}/{kind}": value for name, value in parts.items()}
    if key_rel is not None:
        weights["attention/relative_positions/embeddings"] = key_rel
    if "att_conv.0.weight" in w:
        weights["attention/map_kernel"] = w["att_conv.0.weight"].transpose(2, 3, 1, 0)
        weights["attention/map_bias"] = w["att_conv.0.bias"]
    width = heads * value_dim  # unused by `PublicAttention`
    output = {"kernel": np.zeros((heads, value_dim, width)), "bias": np.zeros(width)}
    return weights | {f"attention/attention_output/{name}": value for name, value in output.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("variant", ALPHA_BETA)
def test_public_code(golden, variant, dtype):
    data = golden("ea_dc_augconv1d.npz")
    suffix, tolerance = ("_f64", FLOAT64) if dtype == "float64" else ("", FLOAT32)
    key_dim, value_dim = (10, 10) if variant == "fullatt" else (5, 4)
    alpha, beta = ALPHA_BETA[variant]
    attention = PublicAttention(3, key_dim, value_dim, alpha=alpha, beta=beta)
    distance = None if variant == "norel" else 8
    layer = AugmentedConv1D(30, 3, attention, dilation_rate=2, max_distance=distance, dtype=dtype)
    x, previous = data["x"].transpose(0, 2, 1).astype(dtype), data["prev_att"].astype(dtype)
    previous = None if variant == "plain" else previous
    layer.build(x.shape, None if previous is None else previous.shape)
    key_rel = data[f"{variant}.key_rel"] if distance else None
    assign(layer, public_weights(data, f"{variant}.w.", key_rel, 3, key_dim, value_dim))
    y, logits = layer(x, previous_logits=previous, return_logits=True)
    close(array(y).transpose(0, 2, 1), data[f"{variant}.out{suffix}"], tolerance)
    close(logits, data[f"{variant}.logits{suffix}"], tolerance)


@pytest.mark.parametrize("dilated", [True, False])
def test_public_network_without_attention(golden, dilated):
    """Convolutions with leaky ReLU, and residuals."""
    data = golden("ea_dc_causal_cnn.npz")
    x = data["x"].transpose(0, 2, 1)
    for block in range(3):
        y = x
        for place in (0, 3):
            prefix = f"w.network.{block}.causal.{place}."
            kernel = data[f"{prefix}weight_v"].transpose(2, 1, 0)
            layer = AugmentedConv1D(kernel.shape[-1], 3, None, dilation_rate=2**block if dilated else 1)
            layer.build(y.shape)
            weights = {"kernel": kernel, "scale": data[f"{prefix}weight_g"], "bias": data[f"{prefix}bias"]}
            assign(layer, weights)
            y = ops.leaky_relu(layer(y), 0.01)
        shortcut = f"w.network.{block}.upordownsample."
        if f"{shortcut}weight" in data.files:
            x = x @ data[f"{shortcut}weight"][:, :, 0].T + data[f"{shortcut}bias"]
        x = array(y) + x
    close(x.transpose(0, 2, 1), data[f"dil{str(dilated).upper()}.out"], FLOAT32)


def test_weight_normalisation_begins_with_the_kernel():
    """The length is that of the kernel, and the convolution is Keras's with this kernel."""
    x = np.random.default_rng(0).normal(size=(2, 9, 7)).astype("float32")
    layer = AugmentedConv1D(5, 3, None, dilation_rate=2)
    layer.build(x.shape)
    plain = keras.layers.Conv1D(5, 3, padding="causal", dilation_rate=2)
    plain.build(x.shape)
    plain.set_weights([layer.kernel, layer.bias])
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-5)
    doubled = array(layer(x)) * 2
    layer.kernel.assign(layer.kernel * 3)
    layer.scale.assign(layer.scale * 2)
    np.testing.assert_allclose(layer(x), doubled, atol=1e-5)


def test_padded_steps_change_nothing():
    layer = AugmentedConv1D(20, 3, EvolvingAttention(3, 4, 2, beta=0.7, convolve_first=True), 2, max_distance=4)
    x, mask = np.random.default_rng(0).normal(size=(2, 8, 7)).astype("float32"), np.arange(8) < [[8], [5]]
    layer.build(x.shape)
    randomize(layer)
    expected = array(layer(x, mask=mask))[1, :5]
    x[1, 5:] = 7
    np.testing.assert_allclose(array(layer(x, mask=mask))[1, :5], expected, atol=1e-5)
    np.testing.assert_allclose(layer(x[1:, :5])[0], expected, atol=1e-5)


def test_configuration_and_shapes():
    layer = AugmentedConv1D(20, 5, EvolvingAttention(3, 4, 2), 4, 9, "he_normal")
    copy = AugmentedConv1D.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    inputs = keras.Input((None, 7))
    outputs = layer(inputs, return_logits=True, return_attention_scores=True)
    assert [x.shape for x in outputs] == [(None, None, 20), (None, 3, None, None), (None, 3, None, None)]
    given = np.ones((2, 3, 8, 8), "float32")
    for attention in (MultiHeadAttention(3, 4), None):
        layer = AugmentedConv1D(20, 3, attention)
        y, carried = layer(np.ones((2, 8, 7), "float32"), previous_logits=given, return_logits=True)
        np.testing.assert_array_equal(carried, given)
        assert y.shape == (2, 8, 20) and layer.compute_logits_shape((2, 8, 7), given.shape) == given.shape
    assert layer(np.ones((0, 8, 7), "float32")).shape == (0, 8, 20)

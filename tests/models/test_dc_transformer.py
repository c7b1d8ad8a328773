"""Dilated-convolution Transformer: against the code of Wang et al. 2022, and its properties."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import EvolvingAttention
from keras_headattn.models import DCTransformer
from keras_headattn.positions import LearnedPositions
from tests.layers.harness import array, randomize
from tests.layers.test_augmented_conv_1d import PublicAttention, public_weights
from tests.layers.test_augmented_golden import assign, close

SIZES = dict(hidden_dim=16, intermediate_dim=12, num_layers=2, num_heads=2)


class WithLeakyMap(PublicAttention):
    leaky_map = True


def assign_block(block, data, prefix, key_rels):
    for number in range(2):
        weights = public_weights(data, f"{prefix}conv{number + 1}.", key_rels[number], 8, 3, 4)
        folder = block.convolutions[number].path.split("/", 1)[1]
        assign(block.convolutions[number], {f"{folder}/{name}": value for name, value in weights.items()})
        dense = [
            (data[f"{prefix}linear{2 * number + i}.weight"].T, data[f"{prefix}linear{2 * number + i}.bias"])
            for i in (1, 2)
        ]
        block.feed_forwards[number].set_weights([*dense[0], *dense[1]])
    for norm, name in zip(block.norms, ("norm2", "norm3", "norm1"), strict=True):
        parts = ("weight", "bias", "running_mean", "running_var")
        norm.set_weights([data[f"{prefix}{name}.{part}"] for part in parts])


def public_model(data, prefix, num_layers, dtype, width=48, **arguments):
    model = DCTransformer(
        3,
        max_length=7,
        hidden_dim=48,
        intermediate_dim=data[f"{prefix}network.0.linear1.weight"].shape[0],
        num_layers=num_layers,
        attention=WithLeakyMap(8, 3, 4, alpha=0.3, beta=0.6),
        positions=LearnedPositions(7),
        dtype=dtype,
        **arguments,
    )
    model.build((None, 7, 5))
    if width != 48:  # of the first block of a network by itself
        model.blocks[0] = model._make_block(0)
        model.blocks[0].build((None, 7, width))
    for number, block in enumerate(model.blocks):
        rels = [data[f"key_rel{2 * number + i}"] for i in range(2)]
        assign_block(block, data, f"{prefix}network.{number}.", rels)
    return model


@pytest.mark.parametrize("dtype, suffix, tolerance", [("float32", "", 1e-5), ("float64", "_f64", 1e-7)])
def test_public_model(golden, dtype, suffix, tolerance):
    data = golden("ea_dc_model.npz")
    model = public_model(data, "w.TSEACausalCnn.ea_causal_cnn.", 2, dtype)
    model.input_projection.set_weights([data["w.project_inp.weight"].T, data["w.project_inp.bias"]])
    model.positions.set_weights([data["w.pos_enc.pe"][:, 0]])
    model.output_kernel.assign(data["w.output_layer.weight"].T.reshape(7, 48, 3))
    model.output_bias.assign(data["w.output_layer.bias"])
    x, mask = data["X"].astype(dtype), data["padding_masks"]
    states = model.encode(x, mask)
    close(array(states).reshape(2, -1), data[f"output_rep{suffix}"], tolerance)
    close(model(x, mask), data[f"output{suffix}"], 1e-5)


@pytest.mark.parametrize("growth", [1, 2])
@pytest.mark.parametrize("dtype, suffix, tolerance", [("float32", "", 1e-5), ("float64", "_f64", 1e-9)])
def test_public_network(golden, growth, dtype, suffix, tolerance):
    data = golden("ea_dc_cnn.npz")
    model = public_model(data, "w.", 3, dtype, width=10, dilation_growth=growth)
    x, scores = data["x"].transpose(0, 2, 1).astype(dtype), None
    shortcut = [data[f"w.network.0.upordownsample.{name}"].astype(dtype) for name in ("weight", "bias")]
    for number, block in enumerate(model.blocks):
        if number:
            x, scores = block(x, previous_logits=scores)
        else:
            added, scores = block.branch(x)
            x = block.norms[2](added + (x @ shortcut[0][:, :, 0].T + shortcut[1]))
        name = f"dil{'TRUE' if growth == 2 else 'FALSE'}.block{number}"
        close(array(x).transpose(0, 2, 1), data[f"{name}.out{suffix}"], tolerance)
        close(scores, data[f"{name}.att{suffix}"], tolerance)


def made(**arguments):
    model = DCTransformer(3, max_length=9, **{**SIZES, **arguments})
    model.build((None, None, 5))
    return randomize(model)


def series(batch=2, length=9):
    return np.random.default_rng(0).normal(size=(batch, length, 5)).astype("float32")


ATTENTIONS = ["evolving", "multi_head", "talking_heads", None]


@pytest.mark.parametrize("pooling", ["flatten", "mean"])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_padded_steps_change_nothing(attention, pooling):
    model, x, mask = made(attention=attention, pooling=pooling), series(), np.arange(9) < [[9], [4]]
    expected = array(model(x, mask))
    x[1, 4:] = np.nan
    np.testing.assert_allclose(model(x, mask), expected, atol=1e-4)
    np.testing.assert_allclose(model(x[1:, :4]), expected[1:], atol=1e-4)
    assert expected.shape == (2, 3)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_saving(attention, tmp_path):
    model, x = made(attention=attention, positions=LearnedPositions(9), seed=3), series()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    np.testing.assert_allclose(loaded(x), model(x), atol=1e-6)
    assert DCTransformer.from_config(model.get_config()).get_config() == model.get_config()


def test_intermediates_and_symbolic_shapes():
    model, x = made(attention=EvolvingAttention(2, 4, 3)), series()
    outputs, out = model(x, return_intermediates=True)
    np.testing.assert_allclose(outputs, model(x), atol=1e-5)
    names = {f"block_{i}/convolution_{j}/attention" for i in range(2) for j in range(2)}
    assert names <= set(out)
    assert out["block_1/convolution_1/attention"]["weights"].shape == (2, 2, 9, 9)
    assert "convolution" in out["block_0/convolution_1/attention"]
    assert model(keras.Input((None, 5))).shape == (None, 3)


def test_gradients_and_xla():
    model, x, mask = made(dropout=0.0), series(3), np.arange(9) < [[9], [4], [7]]

    def loss_and_gradients(x, mask):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, mask) ** 2)
        return loss, tape.gradient(loss, [weight.value for weight in model.trainable_weights])

    loss, eager = loss_and_gradients(tf.constant(x), tf.constant(mask))
    compiled_loss, compiled = tf.function(loss_and_gradients, jit_compile=True)(tf.constant(x), tf.constant(mask))
    np.testing.assert_allclose(compiled_loss, loss, rtol=1e-4)
    for weight, ours, theirs in zip(model.trainable_weights, compiled, eager, strict=True):
        ours, theirs = tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max() + 1e-5)
        assert np.abs(theirs).max() > 0 or "key/bias" in weight.path, weight.path


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(policy):
    model, half = (DCTransformer(3, 9, **SIZES, dtype=dtype) for dtype in ("float32", policy))
    x = series()
    expected = array(model(x))
    half.build(x.shape)
    half.set_weights(model.get_weights())
    found = half(x)
    assert found.dtype == "float32" and {w.dtype for w in half.trainable_weights} == {"float32"}
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.1)


def test_fit_learns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 9, 5)).astype("float32")
    y = x[:, 2, 0] + x[:, 7, 1]
    model = DCTransformer(1, 9, **SIZES, dropout=0.0, seed=1)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    history = model.fit(x, y, epochs=8, batch_size=16, verbose=0).history["loss"]
    assert history[-1] < 0.3 * history[0]

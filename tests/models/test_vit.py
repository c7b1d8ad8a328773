"""Vision Transformers: published sizes, the equations in NumPy, any attention, stochastic depth."""

import keras
import numpy as np
import pytest
from scipy.special import erf, softmax

from keras_headattn import layers
from keras_headattn.analysis import attention_maps
from keras_headattn.models import VIT_SIZES, ViT
from tests.layers.harness import array, randomize

SMALL = dict(input_shape=(4, 6, 3), patch_size=2, hidden_dim=8, intermediate_dim=12, num_layers=2, num_heads=2)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 4, 6, 3)).astype("float32")


def make(**arguments):
    model = ViT(**{**SMALL, "classes": 5, **arguments})
    model.build((None, 4, 6, 3))
    return randomize(model, 1)


@pytest.mark.parametrize(
    "size, parameters", [("vit_tiny", 5_717_416), ("vit_small", 22_050_664), ("vit_base", 86_567_656)]
)
def test_published_sizes(size, parameters):
    """Of a model of one block and what each other block adds to it."""
    counts = []
    for num_layers in (1, 2):
        model = ViT.from_size(size, num_layers=num_layers)
        model.build((None, 224, 224, 3))
        counts.append(model.count_params())
    assert counts[0] + (VIT_SIZES[size]["num_layers"] - 1) * (counts[1] - counts[0]) == parameters


def expected(model, images):
    """Dosovitskiy et al. 2021, equations 1 to 4, in float64."""
    weights = {weight.path.partition("/")[2]: np.float64(array(weight)) for weight in model.weights}

    def dense(x, name, product="...d,de->...e"):
        return np.einsum(product, x, weights[f"{name}/kernel"]) + weights[f"{name}/bias"]

    def norm(x, name):
        deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return (x - x.mean(-1, keepdims=True)) / deviation * weights[f"{name}/gamma"] + weights[f"{name}/beta"]

    def attention(x, name):
        q, k, v = (dense(x, f"{name}/{part}", "bnd,dhk->bnhk") for part in ("query", "key", "value"))
        shares = softmax(np.einsum("bqhk,bnhk->bhqn", q, k) / np.sqrt(q.shape[-1]), axis=-1)
        mixed = np.einsum("bhqn,bnhk->bqhk", shares, v)
        return dense(mixed, f"{name}/attention_output", "bqhk,hkd->bqd")

    def feed_forward(x, name):
        x = dense(x, f"{name}/inner")
        return dense(x * 0.5 * (1 + erf(x / np.sqrt(2))), f"{name}/outer")

    side, (height, width, _) = model.patch_size, model.image_shape
    cut = [images[:, i : i + side, j : j + side] for i in range(0, height, side) for j in range(0, width, side)]
    x = dense(np.stack([patch.reshape(len(images), -1) for patch in cut], axis=1), "embedding")
    if model.pooling == "token":
        x = np.concatenate([np.repeat(weights["class_token"], len(x), axis=0), x], axis=1)
    x = x + weights["positions/embeddings"]
    for block in [f"block_{number}" for number in range(model.num_layers)]:
        x = x + attention(norm(x, f"{block}/attention_norm"), f"{block}/attention")
        x = x + feed_forward(norm(x, f"{block}/feed_forward_norm"), f"{block}/feed_forward")
    x = norm(x, "norm")
    return softmax(dense(x[:, 0] if model.pooling == "token" else x.mean(axis=1), "predictions"), axis=-1)


@pytest.mark.parametrize("pooling", ["token", "avg"])
def test_equations(pooling):
    model = make(pooling=pooling)
    np.testing.assert_allclose(array(model(IMAGES)), expected(model, IMAGES), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attention", ["evolving", "talking_heads", layers.GroupedQueryAttention(2, 4, 1)])
def test_a_saved_model_with_another_attention(attention, tmp_path):
    model = make(attention=attention, stochastic_depth=0.5, seed=1, kernel_regularizer=keras.regularizers.L2(0.1))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(IMAGES)), array(model(IMAGES)))
    assert loaded.get_config() == model.get_config() and len(loaded.losses) == len(model.losses) > 2
    rates = [block.stochastic_depth for block in loaded.blocks]
    assert rates == [0, 0.5] and model.compute_output_shape((None, 4, 6, 3)) == (None, 5)


def test_maps_are_passed_on_and_can_be_read():
    model = make(attention="evolving")
    maps = attention_maps(model, IMAGES)
    assert [found.weights.shape for found in maps.values()] == [(3, 2, 7, 7)] * 2 and model.grid == (2, 3)
    chained = [weight.path for weight in model.weights if "block_1" in weight.path and "map_kernel" in weight.path]
    assert chained


def test_stochastic_depth_drops_whole_sublayers_of_examples():
    """An example's sublayer is left out, or scaled so that the mean is kept."""
    block = layers.EncoderBlock(
        layers.MultiHeadAttention(2, 4), 8, dropout=0.0, normalization="pre", stochastic_depth=0.25, seed=3
    )
    x = np.random.default_rng(0).normal(size=(400, 3, 8)).astype("float32")
    block.build(x.shape)
    randomize(block, 2)
    for weight in block.feed_forward.weights:
        weight.assign(0 * weight)
    change = array(block(x)) - x
    trained = array(block(x, training=True)) - x
    share = trained.reshape(400, -1).sum(1) / change.reshape(400, -1).sum(1)
    is_kept = share > 0.5
    np.testing.assert_allclose(trained, change * np.where(is_kept, 1 / 0.75, 0)[:, None, None], rtol=1e-3, atol=1e-4)
    assert 0.68 < is_kept.mean() < 0.82


def test_training_under_mixed_precision():
    """Every weight gets a gradient but the biases of keys; probabilities are float32."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = make()
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", jit_compile=False)
    before = model.get_weights()
    model.fit(IMAGES, np.array([0, 3, 1]), verbose=0)
    changed = [np.abs(new - old).max() > 0 for new, old in zip(model.get_weights(), before, strict=True)]
    assert all(c or w.path.endswith("key/bias") for c, w in zip(changed, model.weights, strict=True))
    assert model(IMAGES).dtype == "float32" and model.predictions.compute_dtype == "float32"


def test_features_alone():
    model = make(classes=0)
    assert model(IMAGES).shape == (3, 8) and not any("predictions" in weight.path for weight in model.weights)

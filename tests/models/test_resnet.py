"""ResNets as users of keras.applications meet them."""

import keras
import numpy as np
import pytest

from keras_headattn import layers, models
from keras_headattn.models import ResNet
from tests.layers.harness import array, check_close, randomize

SHAPE = (8, 10, 3)
EVOLVING = {"num_heads": 2, "key_dim": 4, "alpha": 0.5, "beta": 1.0}


def images(batch=2, shape=SHAPE):
    return np.random.default_rng(0).normal(size=(batch, *shape)).astype("float32")


def small(attention=None, depths=(1, 2, 1), **arguments):
    options = dict(filters=16, small_images=True, input_shape=SHAPE, classes=5, min_key_dim=4)
    return ResNet(depths, attention=attention, **{**options, **arguments})


def random_model(**arguments):
    model = small(layers.EvolvingAttention(**EVOLVING), **arguments)
    return randomize(model)


def convolutions(model):
    return [layer for layer in model.layers if isinstance(layer, layers.AugmentedConv2D)]


def map_kernels(model):
    return [layer.name for layer in convolutions(model) if getattr(layer.attention, "map_kernel", None) is not None]


def test_names_are_those_of_keras_applications():
    theirs = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=5)
    ours = models.ResNet50(input_shape=(32, 32, 3), classes=5)
    names = {
        layer.name for layer in theirs.layers if not layer.name.startswith(("input", "keras", "conv1_pad", "pool1_pad"))
    }
    assert names <= {layer.name for layer in ours.layers}
    for name in names:
        assert ours.get_layer(name).output.shape == theirs.get_layer(name).output.shape or name.endswith(
            ("block1_1_conv", "block1_1_bn", "block1_1_relu")  # ours stride in the 3 x 3 convolution
        )
    assert (theirs.name, theirs.output_shape) == (ours.name, ours.output_shape)


def test_basic_block_is_its_formula():
    """Plain, with an odd size that strides: pads alike on both sides."""
    model = randomize(small(depths=(1, 1), filters=4, input_shape=(7, 6, 3), include_top=False))
    model = keras.Model(model.input, [model.get_layer("conv2_block1_out").output, model.output])
    x, y = (array(output) for output in model(images(shape=(7, 6, 3))))

    def conv(x, name, strides=1):
        kernel = model.get_layer(f"conv3_block1_{name}_conv").kernel
        pad = (kernel.shape[0] - 1) // 2
        x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        x = array(keras.ops.conv(x, kernel, strides, padding="valid"))
        gamma, beta, mean, variance = (array(w) for w in model.get_layer(f"conv3_block1_{name}_bn").weights)
        return gamma * (x - mean) / np.sqrt(variance + 1e-5) + beta

    expected = np.maximum(conv(x, "0", 2) + conv(np.maximum(conv(x, "1", 2), 0), "2"), 0)
    assert y.shape == (2, 4, 3, 8)
    check_close(y, expected)


def test_outputs():
    features = small(include_top=False)
    assert features.output_shape == (None, 2, 3, 64)
    assert small(include_top=False, pooling="avg").output_shape == (None, 64)
    assert small(include_top=False, pooling="max").output_shape == (None, 64)
    stages = small(layers.MultiHeadAttention(2, 4), include_top=False, return_stages=True)
    assert stages.output_shape == [(None, 8, 10, 16), (None, 4, 5, 32), (None, 2, 3, 64)]
    np.testing.assert_allclose(array(small()(images())).sum(axis=-1), 1, atol=1e-5)
    assert (array(randomize(small(classifier_activation=None))(images())) < 0).any()
    bottleneck = small(bottleneck=True, include_top=False, small_images=False, input_shape=(33, 40, 3))
    assert bottleneck.output_shape == (None, 3, 3, 256)


def test_sizes_and_inputs():
    model = small(include_top=False, input_shape=(None, None, 3))
    assert model(images(shape=(9, 5, 3))).shape == (2, 3, 2, 64)
    inputs = keras.Input(SHAPE)
    scaled = small(input_tensor=keras.layers.Rescaling(2.0)(inputs))
    assert scaled.inputs[0] is inputs
    plain = small()
    plain.set_weights(scaled.get_weights())
    check_close(scaled(images()), plain(2 * images()))


def test_weights_of_a_file(tmp_path):
    model, path = random_model(), tmp_path / "small.weights.h5"
    model.save_weights(path)
    loaded = small(layers.EvolvingAttention(**EVOLVING), weights=path)
    check_close(loaded(images()), model(images()))


def test_saving_and_loading(tmp_path):
    model, path = random_model(downsampled_stages=(0, 1)), tmp_path / "small.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    check_close(loaded(images()), model(images()))
    assert [layer.name for layer in loaded.layers] == [layer.name for layer in model.layers]


@pytest.mark.parametrize("bottleneck", [False, True])
@pytest.mark.parametrize("attention", [None, layers.MultiHeadAttention(2, 4), layers.EvolvingAttention(**EVOLVING)])
def test_weights_are_regularized(bottleneck, attention, tmp_path):
    """All but those of batch normalisation, also in a file; the model is otherwise the same."""
    arguments = dict(attention=attention, bottleneck=bottleneck, depths=(1, 1))
    arguments |= dict(attention_stages=(0, 1), downsampled_stages=(0, 1))
    plain, model = small(**arguments), randomize(small(weight_regularizer="l2", **arguments))
    assert [weight.path for weight in model.weights] == [weight.path for weight in plain.weights]
    weights = [weight for weight in model.trainable_weights if weight.name not in ("gamma", "beta")]
    expected = [0.01 * np.square(array(weight)).sum() for weight in weights]
    model.save(tmp_path / "small.keras")
    loaded = keras.saving.load_model(tmp_path / "small.keras")
    for one in (model, loaded):
        np.testing.assert_allclose([float(loss) for loss in one.losses], expected, rtol=1e-5)
    plain.set_weights(model.get_weights())
    assert plain.losses == []
    check_close(plain(images()), model(images()))
    check_close(loaded(images()), model(images()))


@pytest.mark.parametrize(
    "downsampled, first_of_chain",
    [
        ((), {"conv2_block1_1_conv", "conv3_block1_1_conv", "conv4_block1_1_conv"}),
        # The first stage attends to 4 x 5 pixels, as the second does: the chain goes on there.
        ((0,), {"conv2_block1_1_conv", "conv4_block1_1_conv"}),
        ((-3, -2), {"conv2_block1_1_conv", "conv3_block1_1_conv"}),
    ],
)
def test_chain_of_maps(downsampled, first_of_chain):
    model = small(layers.EvolvingAttention(**EVOLVING), downsampled_stages=downsampled)
    names = {layer.name for layer in convolutions(model)}
    assert len(names) == 8
    assert names - set(map_kernels(model)) == first_of_chain


def test_map_reaches_the_next_stage():
    """A change of the first map changes what a later stage gets from the same image."""
    model = random_model(downsampled_stages=(0,))
    layer = model.get_layer("conv3_block1_1_conv")
    watched = keras.Model(model.input, layer.input)
    image, previous_logits = watched(images())
    assert previous_logits.shape == (2, 2, 20, 20)
    assert (
        np.abs(
            array(layer(image, previous_logits=previous_logits)) - array(layer(image, previous_logits=-previous_logits))
        ).max()
        > 1e-3
    )


def test_attention_that_carries_no_map():
    model = small(layers.TalkingHeadsAttention(2, 4))
    assert len(convolutions(model)) == 8
    assert all(not isinstance(layer.output, (list, tuple)) for layer in convolutions(model))


def test_stages_with_attention():
    model = small(
        layers.MultiHeadAttention(2, 4),
        attention_stages=(-1,),
        downsampled_stages=(2,),
        key_ratio=0.5,
        value_ratio=0.25,
    )
    assert [layer.name for layer in convolutions(model)] == ["conv4_block1_1_conv", "conv4_block1_2_conv"]
    layer = convolutions(model)[0]
    assert (layer.downsample, layer.attention.key_dim, layer.attention.value_dim) == (True, 16, 8)
    bottleneck = small(layers.MultiHeadAttention(2, 4), bottleneck=True)
    assert [layer.name[-6:] for layer in convolutions(bottleneck)] == ["2_conv"] * 4


def test_training_under_mixed_precision():
    """One step, without XLA: every weight gets a gradient; probabilities are float32."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = small(layers.EvolvingAttention(**EVOLVING), depths=(1, 1), attention_stages=(0, 1), downsampled_stages=(0,))
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", jit_compile=False)
    before = model.get_weights()
    model.fit(images(), np.array([0, 3]), verbose=0)
    changed = [np.abs(new - old).max() > 0 for new, old in zip(model.get_weights(), before, strict=True)]
    # A key's bias moves all logits of a query alike; in float32 its gradient is rounding.
    assert all(c or w.path.endswith("key/bias") for c, w in zip(changed, model.weights, strict=True))
    assert model(images()).dtype == "float32"
    assert np.isfinite(array(model(images()))).all()


def test_stochastic_depth():
    """Rates grow from block to block, and an example loses a whole residual branch or none."""
    model = small(stochastic_depth=0.6)
    skips = [layer for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
    assert [layer.name for layer in skips] == ["conv3_block1_skip", "conv3_block2_skip", "conv4_block1_skip"]
    np.testing.assert_allclose([layer.rate for layer in skips], [0.2, 0.4, 0.6])
    dropped = array(skips[-1](np.ones((300, 2, 2, 4)), training=True)).reshape(300, -1)
    assert set(np.round(np.ptp(dropped, axis=1), 6)) == {0} and 0.3 < dropped[:, 0].astype(bool).mean() < 0.5
    plain = small()
    by_path = {weight.path: weight for weight in model.weights}
    for weight in plain.weights:
        weight.assign(by_path[weight.path])
    check_close(model(images()), plain(images()))

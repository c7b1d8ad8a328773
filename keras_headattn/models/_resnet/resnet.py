import dataclasses
from collections.abc import Sequence

import keras
from keras import layers
from keras.utils import get_source_inputs

from keras_headattn import _identifiers
from keras_headattn._files import Path
from keras_headattn._types import Activation, Regularizer, Tensor
from keras_headattn._validation import check_probability
from keras_headattn.layers._augmented_conv_2d import augmented_widths
from keras_headattn.layers._template import Template
from keras_headattn.models._resnet.blocks import (
    Convolution,
    basic_block,
    bottleneck_block,
    convolve,
    normalize_and_activate,
)


def ResNet(
    stage_depths: Sequence[int],
    bottleneck: bool = False,
    attention: keras.layers.Layer | None = None,
    filters: int = 64,
    small_images: bool = False,
    key_ratio: float = 0.2,
    value_ratio: float = 0.1,
    min_key_dim: int = 20,
    attention_stages: Sequence[int] = (-3, -2, -1),
    downsampled_stages: Sequence[int] = (-3,),
    include_top: bool = True,
    weights: Path | None = None,
    input_tensor: Tensor | None = None,
    input_shape: tuple[int | None, int | None, int] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Activation | None = "softmax",
    return_stages: bool = False,
    weight_regularizer: Regularizer | None = None,
    upsampling: str = "half_pixel",
    stochastic_depth: float = 0.0,
    name: str = "resnet",
) -> keras.Model:
    """Makes a residual network, with or without attention beside its 3 x 3 convolutions.

    It is a functional `keras.Model` with the arguments and layer names of `keras.applications`:
    `model.get_layer("conv3_block2_out")` is the second block of the second stage. Images are
    `(B, height, width, channels)`. Blocks add before they activate (version 1) and stride in their first 3 x 3
    convolution.

    With `attention`, the 3 x 3 convolutions of the `attention_stages` are `AugmentedConv2D`, and score maps, as in
    `EvolvingAttention`, are passed from each to the next, also across stages.

    Source: He et al. 2016, "Deep residual learning for image recognition", in the form of TensorFlow's official models
    1.13; Bello et al. 2019, "Attention augmented convolutional networks"; Wang et al. 2021, "Evolving attention with
    residual convolutions".

    Args:
        stage_depths: number of blocks of each stage.
        bottleneck: True for blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions, the last with four times the filters; False
            for two 3 x 3 convolutions.
        attention: layer to copy, such as `MultiHeadAttention(8, 20)`, with the `key_dim` and `value_dim` of
            `augmented_widths` in each stage; `None` for none.
        filters: of the first stage, doubled from stage to stage.
        small_images: True to begin with a 3 x 3 convolution; False for one of 7 x 7 and a pooling, which leave a
            sixteenth of the pixels.
        key_ratio, value_ratio, min_key_dim: see `augmented_widths`.
        attention_stages: indices of stages with attention; negative ones count from the last.
        downsampled_stages: those among them that attend to the image pooled once more, see `AugmentedConv2D`.
        include_top: True to end in a classifier.
        weights: path of a file of weights, or `None` for random weights.
        input_tensor: symbolic tensor to use as image, such as the output of another model.
        input_shape: `(height, width, channels)`, if there is no `input_tensor`. Defaults to `(224, 224, 3)`. Without
            attention, height and width may be `None`.
        pooling: without the classifier, `"avg"` or `"max"` over all pixels, or `None`.
        classes: number of classes.
        classifier_activation: of the classifier, in float32 even under mixed precision; `None` for logits.
        return_stages: without the classifier, True to return a list of the outputs of all stages.
        weight_regularizer: of kernels, biases and relative positions. Regularizers of `attention` take precedence.
        upsampling: of the `downsampled_stages`, `"half_pixel"` or `"legacy"`, see `AugmentedConv2D`.
        stochastic_depth: probability with which an example skips the last block in training. It grows evenly from 0 in
            the first block (Huang et al. 2016, "Deep networks with stochastic depth").
        name: of the model.

    Returns:
        `keras.Model` that returns `(B, classes)`; without the classifier `(B, h, w, C)`, or `(B, C)` after `pooling`.

    >>> from keras_headattn.layers import EvolvingAttention
    >>> attention = EvolvingAttention(num_heads=2, key_dim=20, alpha=0.5, beta=1.0)
    >>> model = ResNet([1, 1, 1], attention=attention, filters=20, small_images=True, input_shape=(8, 8, 3), classes=10)
    >>> tuple(model(np.zeros((4, 8, 8, 3))).shape)
    (4, 10)
    """
    _check(include_top, pooling, return_stages)
    check_probability("stochastic_depth", stochastic_depth)
    regularizer = _identifiers.regularizer("weight_regularizer", weight_regularizer)
    if input_tensor is None:
        input_tensor = keras.Input((224, 224, 3) if input_shape is None else input_shape)
    convolutions = [Convolution(filters * 2**stage, regularizer=regularizer) for stage in range(len(stage_depths))]
    if attention is not None:
        ratios = dict(key_ratio=key_ratio, value_ratio=value_ratio, min_key_dim=min_key_dim)
        convolutions = _augment(convolutions, attention, attention_stages, downsampled_stages, upsampling, ratios)
    x, previous_logits, outputs = _stem(input_tensor, filters, small_images, regularizer), None, []
    block = bottleneck_block if bottleneck else basic_block
    for stage, depth in enumerate(stage_depths):
        for index in range(depth):
            strides = 2 if index == 0 and stage > 0 else 1
            block_name = f"conv{stage + 2}_block{index + 1}"
            rate = stochastic_depth * (sum(stage_depths[:stage]) + index) / max(1, sum(stage_depths) - 1)
            convolution = dataclasses.replace(convolutions[stage], stochastic_depth=rate)
            x, previous_logits = block(x, previous_logits, convolution, strides, index == 0, block_name)
        outputs.append(x)
    if not return_stages:
        outputs = _top(x, include_top, pooling, classes, classifier_activation, regularizer)
    sources = get_source_inputs(input_tensor)
    model = keras.Model(sources[0] if len(sources) == 1 else sources, outputs, name=name)
    if weights is not None:
        model.load_weights(weights)
    return model


def _check(include_top, pooling, return_stages):
    if pooling not in (None, "avg", "max"):
        raise ValueError(f"`pooling` must be None, 'avg' or 'max'. Received: pooling={pooling!r}")
    if include_top and return_stages:
        raise ValueError("`return_stages` needs `include_top=False`. Received: include_top=True")


def _augment(convolutions, attention, attention_stages, downsampled_stages, upsampling, ratios):
    """Returns the stages' convolutions, with attention in the given stages."""
    template = Template.of_attention("attention", attention)
    heads = template.layer.num_heads
    downsampled_stages = _stages("downsampled_stages", downsampled_stages, len(convolutions))
    augmented = list(convolutions)
    for stage in _stages("attention_stages", attention_stages, len(convolutions)):
        filters, regularizer = convolutions[stage].filters, convolutions[stage].regularizer
        regularizers = {"kernel_regularizer": regularizer, "bias_regularizer": regularizer}
        widened = Template("attention", template.make(regularizers, **augmented_widths(filters, heads, **ratios)))
        downsample = stage in downsampled_stages
        augmented[stage] = dataclasses.replace(
            convolutions[stage], attention=widened, downsample=downsample, upsampling=upsampling
        )
    return augmented


def _stages(name, stages, count):
    """Returns indices of stages from 0."""
    if not all(-count <= stage < count for stage in stages):
        raise ValueError(f"`{name}` must be indices of the {count} stages. Received: {name}={stages}")
    return {stage % count for stage in stages}


def _stem(images, filters, small_images, regularizer):
    size, strides = (3, 1) if small_images else (7, 2)
    x = convolve(images, filters, size, strides, "conv1_conv", regularizer)
    x = normalize_and_activate(x, "conv1")
    if small_images:
        return x
    return layers.MaxPooling2D(3, 2, padding="same", data_format="channels_last", name="pool1_pool")(x)


def _top(x, include_top, pooling, classes, classifier_activation, regularizer):
    if include_top or pooling == "avg":
        x = layers.GlobalAveragePooling2D(data_format="channels_last", name="avg_pool")(x)
    elif pooling == "max":
        x = layers.GlobalMaxPooling2D(data_format="channels_last", name="max_pool")(x)
    if not include_top:
        return x
    return layers.Dense(
        classes,
        activation=classifier_activation,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
        dtype=keras.config.dtype_policy().variable_dtype,  # float32 under mixed precision
        name="predictions",
    )(x)

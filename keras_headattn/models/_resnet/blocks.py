"""Blocks of residual networks, as functions of symbolic tensors.

Each takes and returns an image and the attention map from convolution to convolution, or `None`. Layers are named as in
`keras.applications`.
"""

import dataclasses
from typing import Any

from keras import layers

from keras_headattn.layers._augmented_conv_2d import AugmentedConv2D
from keras_headattn.layers._template import Template

# As in TensorFlow's official models 1.13.
KERNEL_INITIALIZER = "lecun_normal"
MOMENTUM, EPSILON = 0.997, 1e-5


@dataclasses.dataclass(frozen=True)
class Convolution:
    """The 3 x 3 convolutions of a stage; with an `attention` template they are `AugmentedConv2D`.

    `stochastic_depth` is the probability with which an example skips the block.
    """

    filters: int
    attention: Template | None = None
    downsample: bool = False
    upsampling: str = "half_pixel"
    regularizer: Any = None
    stochastic_depth: float = 0.0

    def __call__(self, x, previous_logits, strides, name):
        """Returns the convolved image and the map; without attention, `previous_logits` itself."""
        if self.attention is None:
            return convolve(x, self.filters, 3, strides, name, self.regularizer), previous_logits
        layer = AugmentedConv2D(
            self.filters,
            3,
            self.attention,
            strides=strides,
            downsample=self.downsample,
            upsampling=self.upsampling,
            kernel_initializer=KERNEL_INITIALIZER,
            kernel_regularizer=self.regularizer,
            embeddings_regularizer=self.regularizer,
            name=name,
        )
        # A functional model cannot return a map of None.
        if layer.compute_logits_shape(x.shape, None if previous_logits is None else previous_logits.shape) is None:
            return layer(x), None
        return layer(x, previous_logits=previous_logits, return_logits=True)


def convolve(x, filters, kernel_size, strides, name, regularizer=None):
    """Convolves without bias; with strides it pads both sides alike, where "same" would depend on the size."""
    if strides > 1 and kernel_size > 1:
        before = (kernel_size - 1) // 2
        padding = (before, kernel_size - 1 - before)
        x = layers.ZeroPadding2D((padding, padding), data_format="channels_last", name=f"{name}_pad")(x)
    return layers.Conv2D(
        filters,
        kernel_size,
        strides,
        padding="same" if strides == 1 else "valid",
        use_bias=False,
        kernel_initializer=KERNEL_INITIALIZER,
        kernel_regularizer=regularizer,
        data_format="channels_last",
        name=name,
    )(x)


def normalize(x, name):
    return layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, name=f"{name}_bn")(x)


def normalize_and_activate(x, name):
    return layers.Activation("relu", name=f"{name}_relu")(normalize(x, name))


def basic_block(x, previous_logits, convolution, strides, projects, name):
    """Puts two 3 x 3 convolutions beside a shortcut; returns `(B, h / strides, w / strides, filters)` and the scores.

    The shortcut is a 1 x 1 convolution if it `projects`, else `x` `(B, h, w, C)`.
    """
    shortcut = _shortcut(x, convolution.filters, strides, projects, name, convolution.regularizer)
    x, previous_logits = convolution(x, previous_logits, strides, f"{name}_1_conv")
    x = normalize_and_activate(x, f"{name}_1")
    x, previous_logits = convolution(x, previous_logits, 1, f"{name}_2_conv")
    return _add(shortcut, normalize(x, f"{name}_2"), convolution.stochastic_depth, name), previous_logits


def bottleneck_block(x, previous_logits, convolution, strides, projects, name):
    """Puts 1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut; the last has four times the filters."""
    shortcut = _shortcut(x, 4 * convolution.filters, strides, projects, name, convolution.regularizer)
    x = convolve(x, convolution.filters, 1, 1, f"{name}_1_conv", convolution.regularizer)
    x = normalize_and_activate(x, f"{name}_1")
    x, previous_logits = convolution(x, previous_logits, strides, f"{name}_2_conv")
    x = normalize_and_activate(x, f"{name}_2")
    x = convolve(x, 4 * convolution.filters, 1, 1, f"{name}_3_conv", convolution.regularizer)
    return _add(shortcut, normalize(x, f"{name}_3"), convolution.stochastic_depth, name), previous_logits


def _shortcut(x, filters, strides, projects, name, regularizer):
    if not projects:
        return x
    return normalize(convolve(x, filters, 1, strides, f"{name}_0_conv", regularizer), f"{name}_0")


def _add(shortcut, x, stochastic_depth, name):
    if stochastic_depth:
        x = layers.Dropout(stochastic_depth, (None, 1, 1, 1), name=f"{name}_skip")(x)
    return layers.Activation("relu", name=f"{name}_out")(layers.Add(name=f"{name}_add")([shortcut, x]))

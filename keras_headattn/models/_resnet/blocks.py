"""Blocks of residual networks, as functions of symbolic tensors that make and name their layers.

Each takes and returns, beside the image, the attention map that goes from convolution to convolution, or `None`.
Names are those of `keras.applications`.
"""

import dataclasses
from typing import Any

from keras import layers

from keras_headattn.layers._augmented_conv_2d import AugmentedConv2D
from keras_headattn.layers._template import Template

# Of TensorFlow's official models 1.13: variance scaling by fan-in; batch normalisation.
KERNEL_INITIALIZER = "lecun_normal"
MOMENTUM, EPSILON = 0.997, 1e-5


@dataclasses.dataclass(frozen=True)
class Convolution:
    """The 3 x 3 convolutions of a stage.

    Args:
        filters: channels of their output.
        attention: template of the attention that augments them, with its own regularizers in it; or `None`.
        downsample: see `AugmentedConv2D`.
        regularizer: of kernels and of relative positions, or `None`.
    """

    filters: int
    attention: Template | None = None
    downsample: bool = False
    regularizer: Any = None

    def __call__(self, x, previous_scores, strides, name):
        """The image and the map after a convolution of `x`; `previous_scores` itself where no map is carried."""
        if self.attention is None:
            return convolve(x, self.filters, 3, strides, name, self.regularizer), previous_scores
        layer = AugmentedConv2D(
            self.filters,
            3,
            self.attention,
            strides=strides,
            downsample=self.downsample,
            kernel_initializer=KERNEL_INITIALIZER,
            kernel_regularizer=self.regularizer,
            embeddings_regularizer=self.regularizer,
            name=name,
        )
        # A functional model has no place for a map that is None.
        if layer.compute_map_shape(x.shape, None if previous_scores is None else previous_scores.shape) is None:
            return layer(x), None
        return layer(x, previous_scores=previous_scores, return_map=True)


def convolve(x, filters, kernel_size, strides, name, regularizer=None):
    """A convolution without bias.

    With strides it is padded alike on both sides, where "same" would depend on the size.
    """
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
    """Batch normalisation."""
    return layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, name=f"{name}_bn")(x)


def normalize_and_activate(x, name):
    """Batch normalisation and ReLU."""
    return layers.Activation("relu", name=f"{name}_relu")(normalize(x, name))


def basic_block(x, previous_scores, convolution, strides, projects, name):
    """Puts two 3 x 3 convolutions beside a shortcut; returns `(B, h / strides, w / strides, filters)` and the scores.

    The shortcut is a 1 x 1 convolution if it `projects`, else `x` `(B, h, w, C)`.
    """
    shortcut = _shortcut(x, convolution.filters, strides, projects, name, convolution.regularizer)
    x, previous_scores = convolution(x, previous_scores, strides, f"{name}_1_conv")
    x = normalize_and_activate(x, f"{name}_1")
    x, previous_scores = convolution(x, previous_scores, 1, f"{name}_2_conv")
    return _add(shortcut, normalize(x, f"{name}_2"), name), previous_scores


def bottleneck_block(x, previous_scores, convolution, strides, projects, name):
    """Puts 1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut; the last has four times the filters."""
    shortcut = _shortcut(x, 4 * convolution.filters, strides, projects, name, convolution.regularizer)
    x = convolve(x, convolution.filters, 1, 1, f"{name}_1_conv", convolution.regularizer)
    x = normalize_and_activate(x, f"{name}_1")
    x, previous_scores = convolution(x, previous_scores, strides, f"{name}_2_conv")
    x = normalize_and_activate(x, f"{name}_2")
    x = convolve(x, 4 * convolution.filters, 1, 1, f"{name}_3_conv", convolution.regularizer)
    return _add(shortcut, normalize(x, f"{name}_3"), name), previous_scores


def _shortcut(x, filters, strides, projects, name, regularizer):
    if not projects:
        return x
    return normalize(convolve(x, filters, 1, strides, f"{name}_0_conv", regularizer), f"{name}_0")


def _add(shortcut, x, name):
    return layers.Activation("relu", name=f"{name}_out")(layers.Add(name=f"{name}_add")([shortcut, x]))

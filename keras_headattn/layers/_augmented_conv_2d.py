from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer, regularizer
from keras_headattn._saved_quantization import SavedQuantization
from keras_headattn._types import Initializer, Regularizer, Shape, Tensor
from keras_headattn._validation import check_boolean, check_positive
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.layers._template import Template
from keras_headattn.ops import resize_bilinear
from keras_headattn.positions._relative import RelativePositions2D

UPSAMPLINGS = ("half_pixel", "legacy")


@register_keras_serializable(package="keras_headattn")
class AugmentedConv2D(Rematerialized, SavedQuantization):
    """Convolution whose last channels are self-attention over all pixels.

    The first `filters - num_heads * value_dim` channels are convolved. With strides, attention sees the image after
    average pooling of 3 x 3 pixels with the same stride.

    Source: Bello et al. 2019, "Attention augmented convolutional networks"; with `EvolvingAttention`, Wang et al. 2021,
    "Evolving attention with residual convolutions".

    Args:
        filters: channels of the output, including those of attention.
        kernel_size: height and width of the kernel. There is no bias, and both sides are padded alike.
        attention: layer to copy, such as `MultiHeadAttention(8, 20, value_dim=4)` or the stock layer, with the
            `output_shape` `num_heads * value_dim`. See also `augmented_widths`.
        strides: of the convolution.
        downsample: if True, attention sees the image pooled once more with stride 2, and its output is resized: a
            quarter of the pixels, a sixteenth of the scores.
        upsampling: bilinear resizing, with pixels at their centres (`"half_pixel"`) or at their corners as in
            TensorFlow 1 (`"legacy"`).
        relative_positions: if True, attention gets `RelativePositions2D`.
        kernel_initializer, kernel_regularizer: of the convolution.
        embeddings_regularizer: of the relative positions.

    After building, `map_size` is `(height, width)` of the image that attention sees.

    Call arguments:
        inputs: `(B, height, width, C)`; only `B` may be unknown.
        previous_logits: map `(B, h, n, n)` of the layer before, n pixels after pooling.
        return_logits: returns the map as well; `previous_logits` if the attention carries none.
        return_attention_scores: returns the weights `(B, h, n, n)` as well.

    Returns:
        `(B, height / strides, width / strides, filters)`, rounded up; then, if asked for, weights and map, in a tuple.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> layer = AugmentedConv2D(32, kernel_size=3, attention=MultiHeadAttention(2, key_dim=20, value_dim=4), strides=2)
    >>> tuple(layer(keras.random.normal((2, 8, 10, 16))).shape)
    (2, 4, 5, 32)
    """

    compute_output_spec = keras.Operation.compute_output_spec

    def __init__(
        self,
        filters: int,
        kernel_size: int,
        attention: keras.layers.Layer,
        strides: int = 1,
        downsample: bool = False,
        upsampling: str = "half_pixel",
        relative_positions: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        kernel_regularizer: Regularizer | None = None,
        embeddings_regularizer: Regularizer | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.filters = check_positive("filters", filters)
        self.kernel_size = check_positive("kernel_size", kernel_size)
        self.strides = check_positive("strides", strides)
        self.template = Template.of_attention("attention", attention)
        layer = self.template.layer
        self.attention_filters = layer.num_heads * layer.value_dim
        if self.attention_filters >= filters:
            raise ValueError(
                f"`filters` must be more than the channels of attention, num_heads={layer.num_heads} times "
                f"value_dim={layer.value_dim}. Received: filters={filters}"
            )
        if upsampling not in UPSAMPLINGS:
            raise ValueError(f"`upsampling` must be one of {UPSAMPLINGS}. Received: upsampling={upsampling!r}")
        self.downsample = check_boolean("downsample", downsample)
        self.upsampling = upsampling
        self.relative_positions = check_boolean("relative_positions", relative_positions)
        self.kernel_initializer = initializer("kernel_initializer", kernel_initializer)
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.embeddings_regularizer = regularizer("embeddings_regularizer", embeddings_regularizer)

    def build(self, inputs_shape: Shape, previous_logits_shape: Shape | None = None) -> None:
        self._check(inputs_shape)
        self.convolution = keras.layers.Conv2D(
            self.filters - self.attention_filters,
            self.kernel_size,
            self.strides,
            padding="same" if self.strides == 1 else "valid",
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
            kernel_regularizer=self.kernel_regularizer,
            data_format="channels_last",
            dtype=self.dtype_policy,
            name="convolution",
        )
        self.convolution.build(inputs_shape)
        self.map_size = self._map_size(inputs_shape)
        self.attention = self._make_attention(inputs_shape)
        pixels = self._pixels_shape(inputs_shape)
        self.attention.build(pixels, pixels, previous_logits_shape=previous_logits_shape)
        self.built = True

    def _check(self, inputs_shape):
        if len(inputs_shape) != 4 or None in inputs_shape[1:]:
            raise ValueError(
                "`inputs` must be images (B, height, width, channels) of known size, on which the weights depend. "
                f"Received: inputs of shape {tuple(inputs_shape)}"
            )

    def _make_attention(self, inputs_shape):
        overrides = {"output_shape": self.attention_filters}
        if self.relative_positions:
            overrides["relative_positions"] = RelativePositions2D(
                *self._map_size(inputs_shape), embeddings_regularizer=self.embeddings_regularizer
            )
        return self.template.make(name="attention", dtype=self.dtype_policy, **overrides)

    def _size(self, inputs_shape):
        """Returns height and width of the output."""
        return tuple(-(-int(size) // self.strides) for size in inputs_shape[1:3])

    def _map_size(self, inputs_shape):
        """Returns height and width of the image that attention sees."""
        return tuple(-(-size // 2) if self.downsample else size for size in self._size(inputs_shape))

    def _pixels_shape(self, inputs_shape):
        height, width = self._map_size(inputs_shape)
        return (inputs_shape[0], height * width, inputs_shape[3])

    def compute_logits_shape(self, inputs_shape: Shape, previous_logits_shape: Shape | None = None) -> Shape | None:
        """Returns the shape of the map: `(B, h, n, n)`, or `previous_logits_shape` if the attention carries none.

        Args:
            inputs_shape, previous_logits_shape: of `inputs` and `previous_logits`.
        """
        self._check(inputs_shape)
        attention, pixels = self._make_attention(inputs_shape), self._pixels_shape(inputs_shape)
        return attention.compute_logits_shape(pixels, pixels, previous_logits_shape)

    def call(
        self,
        inputs: Tensor,
        previous_logits: Tensor | None = None,
        return_logits: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        convolved = self.convolution(self._pad(inputs))
        pooled = inputs
        if self.strides > 1:
            pooled = _average_pool(pooled, self.strides)
        if self.downsample:
            pooled = _average_pool(pooled, 2)
        pixels = ops.reshape(pooled, (-1, *self._pixels_shape(inputs.shape)[1:]))
        attended, *extras = self.attention(
            pixels,
            pixels,
            previous_logits=previous_logits,
            return_logits=True,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        attended = ops.reshape(attended, (-1, *self._map_size(inputs.shape), self.attention_filters))
        if self.downsample:
            height, width = self._size(inputs.shape)
            attended = resize_bilinear(attended, height, width, self.upsampling == "half_pixel")
        output = ops.concatenate([convolved, attended], axis=-1)
        results = (output, *(extras if return_logits else extras[:-1]))
        return results if len(results) > 1 else output

    def _pad(self, inputs):
        """Pads both sides alike; with strides, "same" would depend on the size."""
        if self.strides == 1:
            return inputs
        before = (self.kernel_size - 1) // 2
        padding = (before, self.kernel_size - 1 - before)
        return ops.pad(inputs, ((0, 0), padding, padding, (0, 0)))

    def compute_output_shape(self, inputs_shape: Shape, previous_logits_shape: Shape | None = None) -> Shape:
        return (inputs_shape[0], *self._size(inputs_shape), self.filters)

    def get_config(self) -> dict[str, Any]:
        config = arguments_of(self, AugmentedConv2D, "attention")
        return {**super().get_config(), **config, "attention": self.template.serialize()}


def _average_pool(images, strides):
    """Averages 3 x 3 pixels, without those outside the image."""
    if keras.backend.backend() != "torch":
        return ops.average_pool(images, 3, strides, padding="same", data_format="channels_last")
    # On PyTorch, "same" averages copies of the border pixels as well.
    missing = [max(0, (-(-size // strides) - 1) * strides + 3 - size) for size in map(int, images.shape[1:3])]
    padding = ((0, 0), *((count // 2, count - count // 2) for count in missing), (0, 0))
    means, shares = (
        ops.average_pool(ops.pad(x, padding), 3, strides, data_format="channels_last")
        for x in (images, ops.ones_like(images))
    )
    return means / shares


def augmented_widths(
    filters: int, num_heads: int, key_ratio: float = 0.2, value_ratio: float = 0.1, min_key_dim: int = 20
) -> dict[str, int]:
    """Returns the widths of one head of an augmented convolution.

    Keys take `key_ratio * filters` channels and values `value_ratio * filters`, rounded to a multiple of the heads.

    Source: Bello et al. 2019, section 3.2, with the ratios kappa and upsilon.

    Args:
        filters: channels of the output.
        num_heads: number of heads.
        key_ratio, value_ratio: shares of the filters.
        min_key_dim: least width of a key of one head.

    Returns:
        Arguments of attention layers, a dictionary of `"key_dim"` and `"value_dim"`.

    >>> augmented_widths(256, num_heads=8)
    {'key_dim': 20, 'value_dim': 3}
    """
    return {
        "key_dim": max(min_key_dim, round(key_ratio * filters / num_heads)),
        "value_dim": max(1, round(value_ratio * filters / num_heads)),
    }

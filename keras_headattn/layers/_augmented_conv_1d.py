from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer
from keras_headattn._saved_quantization import SavedQuantization
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.layers._template import Template
from keras_headattn.positions._relative import RelativePositions


@register_keras_serializable(package="keras_headattn")
class AugmentedConv1D(Rematerialized, SavedQuantization):
    """Causal dilated convolution whose last channels are self-attention over the whole series.

    The first `filters - num_heads * value_dim` channels are convolved: step t reads steps t, t - dilation_rate and so
    on. The kernel is weight-normalised (Salimans and Kingma 2016): its direction and its length are separate weights.
    Attention is not causal; padded steps are masked by `mask`.

    Source: Wang et al. 2022, "Convolution-enhanced evolving attention networks" (arXiv 2212.08330). The public code
    differs: it has no output projection of the heads, reshapes their outputs without transposing them, does not mask
    padded steps, and draws the relative positions anew in each call.

    Args:
        filters: channels of the output, including those of attention.
        kernel_size: steps that the kernel reads.
        attention: layer to copy, such as `EvolvingAttention(8, 4)` or the stock layer, with the `output_shape`
            `num_heads * value_dim`; see also `augmented_widths`. `None` for convolution alone.
        dilation_rate: steps between those that the kernel reads.
        max_distance: of the `RelativePositions` that attention gets; `None` for those of `attention` itself.
        kernel_initializer: of the convolution.

    Call arguments:
        inputs: `(B, n, C)`.
        mask: boolean `(B, n)`, True = a real step. Defaults to the Keras mask of the inputs.
        previous_logits: map `(B, h, n, n)` of the layer before.
        return_logits: returns the map as well; `previous_logits` if the attention carries none.
        return_attention_scores: returns the weights `(B, h, n, n)` as well.

    Returns:
        `(B, n, filters)`; then, if asked for, weights and map, in a tuple.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> layer = AugmentedConv1D(32, kernel_size=3, attention=MultiHeadAttention(2, key_dim=4), dilation_rate=2)
    >>> tuple(layer(keras.random.normal((2, 10, 16))).shape)
    (2, 10, 32)
    """

    compute_output_spec = keras.Operation.compute_output_spec

    def __init__(
        self,
        filters: int,
        kernel_size: int,
        attention: keras.layers.Layer | None,
        dilation_rate: int = 1,
        max_distance: int | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.filters = check_positive("filters", filters)
        self.kernel_size = check_positive("kernel_size", kernel_size)
        self.dilation_rate = check_positive("dilation_rate", dilation_rate)
        self.max_distance = None if max_distance is None else check_positive("max_distance", max_distance)
        none = attention is None
        self.template = Template("attention", None) if none else Template.of_attention("attention", attention)
        layer = self.template.layer
        self.attention_filters = 0 if layer is None else layer.num_heads * layer.value_dim
        if self.attention_filters > filters:
            raise ValueError(
                f"`filters` must be at least the channels of attention, num_heads={layer.num_heads} times "
                f"value_dim={layer.value_dim}. Received: filters={filters}"
            )
        self.kernel_initializer = initializer("kernel_initializer", kernel_initializer)

    def build(self, inputs_shape: Shape, previous_logits_shape: Shape | None = None) -> None:
        self.kernel = self.scale = self.bias = None
        if convolved := self.filters - self.attention_filters:
            shape = (self.kernel_size, inputs_shape[-1], convolved)
            self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.kernel_initializer.clone())
            self.scale = self.add_weight(name="scale", shape=(convolved,), initializer=self._norm_of_kernel)
            self.bias = self.add_weight(name="bias", shape=(convolved,), initializer="zeros")
        self.attention = self._make_attention()
        if self.attention is not None:
            self.attention.build(inputs_shape, inputs_shape, previous_logits_shape=previous_logits_shape)
        self.built = True

    def _norm_of_kernel(self, shape, dtype=None):
        return ops.sqrt(ops.sum(ops.square(self.kernel.value), axis=(0, 1)))

    def _make_attention(self):
        overrides = {"output_shape": self.attention_filters}
        if self.max_distance:
            overrides["relative_positions"] = RelativePositions(self.max_distance)
        return self.template.make(name="attention", dtype=self.dtype_policy, **overrides)

    def compute_logits_shape(self, inputs_shape: Shape, previous_logits_shape: Shape | None = None) -> Shape | None:
        """Returns the shape of the map: `(B, h, n, n)`, or `previous_logits_shape` if the attention carries none.

        Args:
            inputs_shape, previous_logits_shape: of `inputs` and `previous_logits`.
        """
        attention = self._make_attention()
        if attention is None:
            return previous_logits_shape
        return attention.compute_logits_shape(inputs_shape, inputs_shape, previous_logits_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        previous_logits: Tensor | None = None,
        return_logits: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        parts = [] if self.kernel is None else [self._convolve(inputs)]
        extras = [*([None] if return_attention_scores else []), previous_logits]
        if self.attention is not None:
            attended, *extras = self.attention(
                inputs,
                inputs,
                query_mask=mask,
                value_mask=mask,
                previous_logits=previous_logits,
                return_logits=True,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            parts.append(attended)
        output = ops.concatenate(parts, axis=-1)
        results = (output, *(extras if return_logits else extras[:-1]))
        return results if len(results) > 1 else output

    def _convolve(self, inputs):
        """Convolves as one product of the steps that the kernel reads: no backend is slow or lacks a layout."""
        kernel = ops.cast(self.kernel, "float32" if self.compute_dtype == "float16" else self.compute_dtype)
        norm = ops.sqrt(ops.sum(ops.square(kernel), axis=(0, 1)))
        kernel = kernel * (ops.cast(self.scale, kernel.dtype) / ops.maximum(norm, 1e-12))
        kernel = ops.reshape(ops.cast(kernel, self.compute_dtype), (-1, kernel.shape[-1]))
        lags = [(self.kernel_size - 1 - i) * self.dilation_rate for i in range(self.kernel_size)]
        padded = ops.pad(inputs, ((0, 0), (lags[0], 0), (0, 0)))
        read = ops.concatenate([padded[:, lags[0] - lag : -lag or None] for lag in lags], axis=-1)
        return ops.tensordot(read, kernel, 1) + ops.cast(self.bias, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape, previous_logits_shape: Shape | None = None) -> Shape:
        return (*inputs_shape[:-1], self.filters)

    def get_config(self) -> dict[str, Any]:
        config = arguments_of(self, AugmentedConv1D, "attention")
        return {**super().get_config(), **config, "attention": self.template.serialize()}

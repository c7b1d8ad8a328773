import functools
from typing import Any

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import AttentionLike, Tensor
from keras_headattn._validation import check_positive, check_probability
from keras_headattn.layers import AugmentedConv1D, FeedForward, augmented_widths, get
from keras_headattn.layers._intermediates import with_intermediates
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.layers._template import Template
from keras_headattn.positions import SinusoidalPositions

POOLINGS = ("flatten", "mean")


@register_keras_serializable(package="keras_headattn")
class DCTransformer(Model):
    """Dilated-convolution Transformer: a vector, such as classes or numbers, of a series.

    Each block has two causal convolutions whose last channels are attention, each followed by a feed-forward layer;
    block i reads steps `dilation_growth ** i` apart. The map goes from convolution to convolution: with evolving
    attention this is the EA-DC-Transformer.

    Source: Wang et al. 2022, "Convolution-enhanced evolving attention networks" (arXiv 2212.08330). The public code
    swaps the names alpha and beta, has one block more than its `num_layers`, applies a leaky ReLU to the map's
    convolution and to the map passed on, does not evolve in the first block, and differs as `AugmentedConv1D` says.

    Args:
        num_outputs: numbers of the output: classes, or targets of a regression.
        max_length: most steps of a series.
        hidden_dim, intermediate_dim: width of the blocks and of their feed-forward layers.
        num_layers: number of blocks.
        kernel_size: steps that a convolution reads.
        dilation_growth: factor from the dilation of a block to that of the next; 1 for none.
        attention: attention layer to copy, its name or class; `None` for convolution alone.
        num_heads: for attention given by a class or a name.
        key_ratio, value_ratio: shares of `hidden_dim` for keys and values, for attention given by a class or a name.
        positions: `"sinusoidal"`, a layer to copy such as `LearnedPositions(max_length)`, or `None`. Attention has
            learned relative positions besides.
        pooling: `"flatten"`, a weight for each step, or `"mean"` over the real steps.
        dropout, seed: rate and seed of the dropouts.

    Call arguments:
        inputs: `(B, n, channels)` of any values at padded steps, n up to `max_length`.
        mask: boolean `(B, n)`, True = a real step. Defaults to the Keras mask of the inputs.
        return_intermediates: returns `(outputs, out)`: a dictionary of layers, such as
            `"block_0/convolution_0/attention"`, to their tensors by name, see `layers.capture_intermediates`.

    Returns:
        Logits or numbers `(B, num_outputs)`, float32.

    >>> model = DCTransformer(3, max_length=12, hidden_dim=32, intermediate_dim=32, num_layers=2)
    >>> outputs, out = model(keras.random.normal((2, 10, 5)), return_intermediates=True)
    >>> tuple(outputs.shape), tuple(out["block_1/convolution_0/attention"]["weights"].shape)
    ((2, 3), (2, 8, 10, 10))
    """

    inputs_dtype = "float32"

    def __init__(
        self,
        num_outputs: int,
        max_length: int,
        hidden_dim: int = 64,
        intermediate_dim: int = 256,
        num_layers: int = 4,
        kernel_size: int = 3,
        dilation_growth: int = 2,
        attention: AttentionLike | None = "evolving",
        num_heads: int = 8,
        key_ratio: float = 0.25,
        value_ratio: float = 0.25,
        positions: str | keras.layers.Layer | None = "sinusoidal",
        pooling: str = "flatten",
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_outputs = check_positive("num_outputs", num_outputs)
        self.max_length = check_positive("max_length", max_length)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.intermediate_dim = check_positive("intermediate_dim", intermediate_dim)
        self.num_layers = check_positive("num_layers", num_layers)
        self.kernel_size = check_positive("kernel_size", kernel_size)
        self.dilation_growth = check_positive("dilation_growth", dilation_growth)
        self.num_heads = check_positive("num_heads", num_heads)
        self.key_ratio = check_probability("key_ratio", key_ratio)
        self.value_ratio = check_probability("value_ratio", value_ratio)
        self.dropout = check_probability("dropout", dropout)
        self.seed = check_seed("seed", seed)
        if pooling not in POOLINGS:
            raise ValueError(f"`pooling` must be one of {POOLINGS}. Received: pooling={pooling!r}")
        self.pooling = pooling
        self.templates = {
            "attention": self._attention_template(attention),
            "positions": Template("positions", SinusoidalPositions() if positions == "sinusoidal" else positions),
        }
        self.input_projection = layers.Dense(self.hidden_dim, name="input_projection", dtype=self.dtype_policy)
        self.positions = self.templates["positions"].make(name="positions", dtype=self.dtype_policy)
        self.blocks = [self._make_block(index) for index in range(num_layers)]
        self.dropouts = [layers.Dropout(dropout, seed=seed_plus(seed, i), dtype=self.dtype_policy) for i in (1, 2)]

    def _attention_template(self, attention):
        if attention is None:
            return Template("attention", None)
        if not isinstance(attention, (str, type)):
            return Template.of_attention("attention", attention)
        widths = augmented_widths(self.hidden_dim, self.num_heads, self.key_ratio, self.value_ratio, min_key_dim=1)
        return Template("attention", get(attention, num_heads=self.num_heads, **widths))

    def _make_block(self, index):
        convolution = functools.partial(
            AugmentedConv1D,
            self.hidden_dim,
            self.kernel_size,
            self.templates["attention"].make(depth=index),
            self.dilation_growth**index,
            max(1, self.max_length - 1),
        )
        return DCBlock(
            convolution,
            self.intermediate_dim,
            self.dropout,
            seed_plus(self.seed, 10 * (index + 1)),
            dtype=self.dtype_policy,
            name=f"block_{index}",
        )

    def build(self, input_shape: Any) -> None:
        shape = (*input_shape[:-1], self.hidden_dim)
        self.input_projection.build(input_shape)
        if self.positions is not None:
            self.positions.build(shape)
        logits_shape = None
        for block in self.blocks:
            block.build(shape, logits_shape)
            logits_shape = block.logits_shape
        steps = (self.max_length,) if self.pooling == "flatten" else ()
        self.output_kernel = self.add_weight(
            name="output_kernel",
            shape=(*steps, self.hidden_dim, self.num_outputs),
            # Of a dense layer over all steps: the fans of a convolution's kernel would count the outputs of each step.
            initializer=lambda shape, dtype: ops.reshape(
                keras.initializers.GlorotUniform(self.seed)((self._pooled_dim, self.num_outputs), dtype), shape
            ),
        )
        self.output_bias = self.add_weight(name="output_bias", shape=(self.num_outputs,), initializer="zeros")
        self.built = True

    @property
    def _pooled_dim(self):
        return self.hidden_dim * (self.max_length if self.pooling == "flatten" else 1)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_intermediates: bool = False,
    ) -> Any:
        if return_intermediates:
            named = {block.name: block for block in self.blocks}
            return with_intermediates(named, self.call, inputs, mask, training)
        length = inputs.shape[1]
        if isinstance(length, int) and length > self.max_length:
            raise ValueError(f"`inputs` must have at most max_length={self.max_length} steps. Received: {length} steps")
        return self.pool(self.encode(inputs, mask, training), mask)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        return None  # outputs have no steps

    def encode(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        """Returns the states of the last block, `(B, n, hidden_dim)`, zeros at padded steps.

        Args:
            inputs, mask: as in the call.
            training: True to apply dropout and normalise by the batch.
        """
        x = self.input_projection(_zero_padded(ops.cast(inputs, self.compute_dtype), mask)) * self.hidden_dim**0.5
        if self.positions is not None:
            x = self.positions(x)
        x, scores = self.dropouts[0](x, training=training), None
        for block in self.blocks:
            x, scores = block(x, mask=mask, previous_logits=scores, training=training)
        x = keras.activations.gelu(x, approximate=False)
        return _zero_padded(self.dropouts[1](x, training=training), mask)

    def pool(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns the outputs, `(B, num_outputs)`, float32.

        Args:
            states: those of `encode`.
            mask: as in the call.
        """
        states = ops.cast(states, "float32")
        kernel, length = ops.cast(self.output_kernel, "float32"), ops.shape(states)[1]
        if self.pooling == "mean":
            real = length if mask is None else ops.maximum(ops.sum(ops.cast(mask, "float32"), axis=1), 1.0)[:, None]
            pooled = ops.sum(states, axis=1) / ops.cast(real, "float32")
        else:
            kernel = ops.reshape(kernel[:length], (-1, self.num_outputs))
            pooled = ops.reshape(states, (ops.shape(states)[0], length * self.hidden_dim))
        return ops.matmul(pooled, kernel) + ops.cast(self.output_bias, "float32")

    def get_config(self) -> dict[str, Any]:
        templates = {name: template.serialize() for name, template in self.templates.items()}
        return {**super().get_config(), **arguments_of(self, DCTransformer, *templates), **templates}


class DCBlock(Rematerialized):
    """Two augmented convolutions, each with batch normalisation and a feed-forward layer, beside a residual."""

    def __init__(self, convolution, intermediate_dim, dropout, seed, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        leaky_relu = functools.partial(ops.leaky_relu, negative_slope=0.01)
        common = dict(dtype=self.dtype_policy)
        self.convolutions = [convolution(name=f"convolution_{i}", **common) for i in range(2)]
        self.feed_forwards = [
            FeedForward(
                intermediate_dim, leaky_relu, dropout, seed=seed_plus(seed, i), name=f"feed_forward_{i}", **common
            )
            for i in range(2)
        ]
        self.norms = [
            layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=f"norm_{i}", **common) for i in range(3)
        ]

    def build(self, input_shape, previous_logits_shape=None):
        shape, self.logits_shape = input_shape, previous_logits_shape
        for convolution, norm, feed_forward in zip(self.convolutions, self.norms, self.feed_forwards, strict=False):
            convolution.build(shape, self.logits_shape)
            self.logits_shape = convolution.compute_logits_shape(shape, self.logits_shape)
            shape = convolution.compute_output_shape(shape)
            norm.build(shape)
            feed_forward.build(shape)
        self.norms[2].build(shape)
        self.built = True

    def call(self, inputs, mask=None, previous_logits=None, training=None):
        x, scores = self.branch(inputs, mask, previous_logits, training)
        return self.norms[2](inputs + x, training=training, mask=mask), scores

    def branch(self, x, mask=None, scores=None, training=None):
        """Returns what is added to the residual, and the map."""
        for convolution, norm, feed_forward in zip(self.convolutions, self.norms, self.feed_forwards, strict=False):
            x, scores = convolution(x, mask=mask, previous_logits=scores, return_logits=True, training=training)
            x = feed_forward(norm(x, training=training, mask=mask), training=training)
        return x, scores


def _zero_padded(x, mask):
    return x if mask is None else ops.where(mask[..., None], x, ops.zeros((), x.dtype))

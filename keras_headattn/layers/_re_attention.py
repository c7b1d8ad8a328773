from typing import Any

from keras import backend, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import check_boolean
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._query_chunks import as_chunk_size
from keras_headattn.layers._state import State
from keras_headattn.ops import exchange_heads
from keras_headattn.ops._masks import where_allowed

EPSILON = 1e-5
MOMENTUM = 0.9  # of the moving statistics


@register_keras_serializable(package="keras_headattn")
class ReAttention(Attention):
    """Attention that mixes the weights of its heads, and normalises them over the batch (re-attention).

    With A the weights `(h,)` of all heads at one query and key, after softmax and dropout,

        A' = f * batch_normalization(A W + b),    f = key_dim ** -0.5 if `transform_scale`, else 1

    Each head is normalised by its own mean and variance: the batch's in training, moving averages in inference, with a
    cache and if not trainable. Masked entries do not count, and are set to 0 again afterwards. Weights may be negative.
    The batch's statistics tell a query of later ones, so training under a causal mask, or with a decoder's `role`, is
    an error; inference is not.

    Source: Zhou et al. 2021, "DeepViT: Towards deeper vision transformer".

    Args:
        transform_scale: True to multiply the normalised weights by `key_dim ** -0.5`.
        mixing_initializer: of the matrix W. Defaults to `kernel_initializer`.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. The returned weights are
            normalised, and so include dropout. `query_chunk_size` is an error: the statistics need all queries.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(ReAttention(num_heads=4, key_dim=4)(x, x).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        transform_scale: bool = False,
        mixing_initializer: Initializer | None = None,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        as_chunk_size(self.query_chunk_size, self, is_possible=False)
        self.transform_scale = check_boolean("transform_scale", transform_scale)
        self.mixing_initializer = initializer("mixing_initializer", mixing_initializer)

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        shape = (self.num_heads,)
        self.mixing_kernel = self.add_kernel("mixing_kernel", 2 * shape, self.mixing_initializer)
        self.mixing_bias = self._add_bias("mixing_bias", shape)
        self.norm_scale = self.add_weight(name="norm_scale", shape=shape, initializer="ones")
        self.norm_offset = self.add_weight(name="norm_offset", shape=shape, initializer="zeros")
        state = dict(shape=shape, trainable=False, autocast=False, aggregation="mean")
        self.moving_mean = self.add_weight(name="moving_mean", initializer="zeros", **state)
        self.moving_variance = self.add_weight(name="moving_variance", initializer="ones", **state)

    def adds_losses(self, training: bool | None = None) -> bool:
        return bool(training) or super().adds_losses(training)  # so that padded queries do not count in the statistics

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        weights = super().drop(super().weigh(logits, entry, state), state)
        weights = ops.cast(weights, backend.result_type(weights.dtype, "float32"))
        bias, scale, offset = (_by_head(x, weights) for x in (self.mixing_bias, self.norm_scale, self.norm_offset))
        mixed = exchange_heads(weights, ops.cast(self.mixing_kernel, weights.dtype)) + bias
        mean, variance = self._statistics(mixed, state)
        normal = (mixed - mean) * ops.rsqrt(variance + EPSILON) * scale + offset
        factor = self.key_dim**-0.5 if self.transform_scale else 1.0
        return ops.cast(factor * where_allowed(normal, state.mask), logits.dtype)

    def drop(self, weights: Tensor, state: State) -> Tensor:
        return weights  # `weigh` has applied dropout

    def _statistics(self, mixed, state):
        """Returns each head's mean and variance `(1, h, 1, 1)`. Those of a training batch update the averages."""
        averages = self.moving_mean, self.moving_variance
        if not state.training or state.cache is not None or not self.trainable:
            return (_by_head(average, mixed) for average in averages)
        if state.masks.is_causal or self.role in ("decoder", "cross"):
            raise ValueError(
                "`use_causal_mask` and the roles of decoders rule out training ReAttention, whose statistics run over "
                "later queries, too, so that a query would see them: take another attention, or set "
                "`trainable=False`. "
                f"Received: use_causal_mask={state.masks.is_causal}, role={self.role!r}, training=True"
            )
        counts = _sums(ops.ones_like(mixed), state.mask)
        mean = _sums(mixed, state.mask) / ops.maximum(counts, 1)
        squares = _sums(ops.square(mixed - mean), state.mask)
        share = (1 - MOMENTUM) * ops.cast(counts > 0, mixed.dtype)
        for average, value in zip(averages, (mean, squares / ops.maximum(counts - 1, 1)), strict=True):
            step = ops.reshape(share * (value - _by_head(average, value)), (-1,))
            average.assign(average + ops.cast(step, average.dtype))
        return mean, squares / ops.maximum(counts, 1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, ReAttention)}


def _by_head(vector, maps):
    return ops.cast(vector, maps.dtype)[None, :, None, None]


def _sums(maps, mask):
    return ops.sum(where_allowed(maps, mask), axis=(0, 2, 3), keepdims=True)

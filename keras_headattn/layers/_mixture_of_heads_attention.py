from typing import Any

import numpy as np
from keras import backend, initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_index, check_number
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._intermediates import record
from keras_headattn.layers._state import CallState


@register_keras_serializable(package="keras_headattn")
class MixtureOfHeadsAttention(Attention):
    """Attention with a router that chooses the heads that count for each query (mixture of heads, MoH).

    A query x uses the S shared heads, the first, and the k most probable of the E routed heads. Gates multiply them:

        p = softmax(x W_r),    kept = 1 for the k largest p, else 0,    (a, b) = softmax(x W_0)
        gates = 2 a S softmax(x W_s) of shared heads,    2 b k kept p / sum(kept p) of routed heads

    If all heads are shared, or all routed, the factor 2 a or 2 b is 1. Training adds a loss that balances the heads,
    `balance * E * sum(mean(p) mean(kept))`, with means over real tokens. `training.HeadStatistics` draws `head_load`
    `(E,)`, a running average of `mean(kept)`. All heads are computed: this saves no time. Intermediates: `"gates"`
    `(B, h, n)`.

    Source: Jin et al. 2024, "MoH: Multi-head attention as mixture-of-head attention".

    Args:
        shared_heads: `S`. Defaults to a quarter of `num_heads`.
        active_heads: `k`. Defaults to half of the routed heads, rounded up.
        balance: weight of the loss. Keras sums the losses of all layers; the paper averages them.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. W_r, W_s and W_0 are
            `routed_kernel`, `shared_kernel` and `kind_kernel`. A `head_regularizer` sees heads before these gates.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(MixtureOfHeadsAttention(num_heads=4, key_dim=4)(x, x).shape)
    (2, 5, 16)
    """

    head_arguments = ()  # the router chooses among all

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        shared_heads: int | None = None,
        active_heads: int | None = None,
        balance: float = 0.01,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        num_heads = self.num_heads
        self.shared_heads = check_index("shared_heads", num_heads // 4 if shared_heads is None else shared_heads)
        routed = self.routed_heads = num_heads - self.shared_heads
        active = max(routed + 1, 0) // 2 if active_heads is None else active_heads
        self.active_heads = check_index("active_heads", active)
        self.balance = check_number("balance", balance, least=0)
        if not min(routed, 1) <= self.active_heads <= routed:
            raise ValueError(
                "`shared_heads` must be at most num_heads, `active_heads` from 1 to the rest, or 0 if there is none. "
                f"Received: num_heads={num_heads}, shared_heads={self.shared_heads}, active_heads={self.active_heads}"
            )

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        shared, routed, width = self.shared_heads, self.routed_heads, query_shape[-1] or 0
        self.shared_kernel = self.add_kernel("shared_kernel", (width, shared)) if shared > 1 else None
        self.routed_kernel = self.add_kernel("routed_kernel", (width, routed)) if routed > 1 else None
        self.kind_kernel = self.add_kernel("kind_kernel", (width, 2)) if shared and routed else None
        if routed:
            start = initializers.Constant(self.active_heads / routed)
            state = dict(trainable=False, dtype="float32", autocast=False, aggregation="mean")
            self.head_load = self.add_weight(name="head_load", shape=(routed,), initializer=start, **state)

    def adds_losses(self, training: bool | None = None) -> bool:
        return bool(training and self.routed_heads) or super().adds_losses(training)

    def merge(self, heads: Tensor, state: CallState) -> Tensor:
        x = ops.cast(state.query, backend.result_type(heads.dtype, "float32"))
        gates = [self.shared_heads * _softmax(x, self.shared_kernel)] if self.shared_heads else []
        if self.routed_heads:
            expected = _softmax(x, self.routed_kernel)
            kept = _largest(expected, self.active_heads)
            gates.append(self.active_heads * _shares(expected * kept, axis=-1))
            if state.training and state.cache is None:
                tokens = _shares(ops.cast(state.masks.real_queries(), x.dtype))[..., None]
                load = ops.sum(kept * tokens, axis=(0, 1))
                self.add_loss(self.balance * self.routed_heads * ops.sum(expected * tokens * load))
                self.head_load.assign(0.99 * self.head_load + 0.01 * ops.cast(load, "float32"))
        if len(gates) == 2:
            kinds = 2 * _softmax(x, self.kind_kernel)
            gates = [gates[0] * kinds[..., :1], gates[1] * kinds[..., 1:]]
        gates = ops.swapaxes(ops.concatenate(gates, axis=-1), 1, 2)  # (B, h, n)
        record(self, gates=gates)
        return super().merge(heads * ops.cast(ops.expand_dims(gates, -1), heads.dtype), state)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, MixtureOfHeadsAttention)}


def _softmax(x, kernel):
    return ops.ones_like(x[..., :1]) if kernel is None else ops.softmax(ops.tensordot(x, ops.cast(kernel, x.dtype), 1))


def _shares(x, axis=None):
    return x / ops.maximum(ops.sum(x, axis=axis, keepdims=True), backend.epsilon())


def _largest(x, count):
    """Returns 1 for the `count` largest of the last axis, else 0. Ties go to the first, on every backend."""
    own, other, first = ops.expand_dims(x, -1), ops.expand_dims(x, -2), np.tri(x.shape[-1], k=-1, dtype=bool)
    larger = ops.logical_or(other > own, ops.logical_and(ops.equal(other, own), first))
    return ops.cast(ops.sum(ops.cast(larger, "int32"), axis=-1) < count, x.dtype)

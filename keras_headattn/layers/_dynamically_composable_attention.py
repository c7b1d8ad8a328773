from typing import Any

import keras
from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_boolean, check_index
from keras_headattn.layers._attention import Attention, State
from keras_headattn.ops._compose_heads import compose_heads
from keras_headattn.ops._dense import rms_normalize


@register_keras_serializable(package="keras_headattn")
class DynamicallyComposableAttention(Attention):
    """Attention that mixes its heads by weights computed from each query and key (DCMHA).

    Composes the logits, and the weights after the softmax. With A the maps `(h,)` at one query and key,

        A' = A + A W + (A q1) q2 + A tanh(q_g) + (A k1) k2 + A tanh(k_g)

    W `(h, h)` is the same everywhere. A hidden layer with GELU makes q1 `(h, R)` and q2 `(R, h)` of the query input,
    and a linear one the gates q_g `(h,)`; k1, k2 and k_g come from the key input.

    Source: Xiao et al. 2024, "Improving Transformers with dynamically composable multi-head attention".

    Args:
        rank: `R`, rank of the mixing matrices. 0: gates only.
        pre_compose, post_compose: True to mix the logits of the heads, and their weights.
        query_compose, key_compose: True for mixing that depends on the query, and on the key.
        static: True to mix by the matrix W as well.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. With `c` compositions,
            logits first, the weights are `query_hidden_kernel` `(D, c, K)`, K = 2 R h, `query_composition_kernel`
            `(c, K, 2 R, h)`, `query_gate_kernel` `(D, c, h)`, the same for `key`, and `static_kernel` `(c, h, h)`.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(DynamicallyComposableAttention(num_heads=4, key_dim=4)(x, x).shape)
    (2, 5, 16)
    """

    head_arguments = ()  # hidden units are counted by heads

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        rank: int = 2,
        pre_compose: bool = True,
        post_compose: bool = True,
        query_compose: bool = True,
        key_compose: bool = True,
        static: bool = True,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.rank = check_index("rank", rank)
        self.pre_compose, self.post_compose = (
            check_boolean("pre_compose", pre_compose),
            check_boolean("post_compose", post_compose),
        )
        self.query_compose = check_boolean("query_compose", query_compose)
        self.key_compose, self.static = check_boolean("key_compose", key_compose), check_boolean("static", static)

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
        previous_scores_shape: Shape | None = None,
    ) -> None:
        super().build(query_shape, value_shape, key_shape)
        h, rank, number = self.num_heads, self.rank, self.pre_compose + self.post_compose
        sides = {"query": self.query_compose and number, "key": self.key_compose and number}
        for side in filter(sides.get, sides):
            width, hidden = self.widths[side], 2 * rank * h
            self._add(side, "gate", (width, number, h), 0.005 * (2 / (width + h)) ** 0.5)
            if rank:
                self._add(side, "hidden", (width, number, hidden), (2 / (width + hidden)) ** 0.5)
                self._add(side, "composition", (number, hidden, 2 * rank, h), 0.02 / (hidden**0.5 * (h + rank)))
        if self.static and number:
            start = initializers.RandomNormal(stddev=0.1 * h**-0.5)
            self.static_kernel = self.add_kernel("static_kernel", (number, h, h), start)

    def _add(self, side, part, shape, deviation):
        name = f"{side}_{part}_kernel"
        setattr(self, name, self.add_kernel(name, shape, initializers.RandomNormal(stddev=deviation)))

    def _factors(self, side, x):
        """Makes matrices and gate of each composition from an input `(B, n, D)`: `(B, c, n, 2 R + 1, h)`."""
        gates = ops.tanh(ops.tensordot(x, getattr(self, f"{side}_gate_kernel"), axes=1))  # (B, n, c, h)
        factors = [gates[:, :, :, None]]
        if self.rank:
            hidden = ops.tensordot(x, getattr(self, f"{side}_hidden_kernel"), axes=1)
            hidden = 0.5 * hidden * (1 + ops.erf(hidden * 2**-0.5))  # `ops.gelu` has only eight exact digits
            made = ops.einsum("bnck,ckrh->bncrh", hidden, getattr(self, f"{side}_composition_kernel"))
            first = rms_normalize(made[..., : self.rank, :], epsilon=1e-6)
            factors = [first, made[..., self.rank :, :], *factors]
        return ops.swapaxes(ops.concatenate(factors, axis=3), 1, 2)

    def project_key_value(self, key: Tensor, value: Tensor, state: State) -> dict[str, Tensor]:
        entry = super().project_key_value(key, value, state)
        if not self.key_compose or not (self.pre_compose or self.post_compose):
            return entry
        return entry | {"factors": self._factors("key", key)}

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        factors = {}
        if self.query_compose and (self.pre_compose or self.post_compose):
            factors[-1] = self._factors("query", state.query)
        if "factors" in entry:
            factors[-2] = entry["factors"]
        dtype = keras.backend.standardize_dtype(logits.dtype)
        if self.pre_compose:
            wide = "float32" if dtype == "float16" else dtype  # composed logits may be beyond float16
            logits = self._compose(ops.cast(logits, wide), 0, factors)
        weights = ops.cast(super().weigh(logits, entry, state), dtype)
        return self._compose(weights, -1, factors) if self.post_compose else weights

    def _compose(self, maps, number, factors):
        """Composes maps `(B, h, n, m)`; `factors` are by the axis of a map that they lack."""
        kernel = ops.cast(self.static_kernel[number], maps.dtype) if self.static else None
        factors = {axis: ops.cast(factor[:, number], maps.dtype) for axis, factor in factors.items()}
        return compose_heads(maps, kernel, factors)

    def get_config(self) -> dict[str, Any]:
        names = ("rank", "pre_compose", "post_compose", "query_compose", "key_compose", "static")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

from typing import Any

import keras
from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_boolean, check_index
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import CallState, State
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

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        h, count = self.num_heads, self.pre_compose + self.post_compose
        if self.query_compose and count:
            kernels = self._kernels_of("query", self.widths["query"], count)
            self.query_gate_kernel, self.query_hidden_kernel, self.query_composition_kernel = kernels
        if self.key_compose and count:
            kernels = self._kernels_of("key", self.widths["key"], count)
            self.key_gate_kernel, self.key_hidden_kernel, self.key_composition_kernel = kernels
        if self.static and count:
            start = initializers.RandomNormal(stddev=0.1 * h**-0.5)
            self.static_kernel = self.add_kernel("static_kernel", (count, h, h), start)

    def _kernels_of(self, side, width, count):
        h, rank, hidden = self.num_heads, self.rank, 2 * self.rank * self.num_heads
        shapes = {"gate": ((width, count, h), 0.005 * (2 / (width + h)) ** 0.5), "hidden": None, "composition": None}
        if rank:
            shapes["hidden"] = (width, count, hidden), (2 / (width + hidden)) ** 0.5
            shapes["composition"] = (count, hidden, 2 * rank, h), 0.02 / (hidden**0.5 * (h + rank))
        for part, spec in shapes.items():
            start = spec and initializers.RandomNormal(stddev=spec[1])
            yield spec and self.add_kernel(f"{side}_{part}_kernel", spec[0], start)

    def _factors(self, x, gate_kernel, hidden_kernel, composition_kernel):
        """Makes matrices and gate of each composition from an input `(B, n, D)`: `(B, c, n, 2 R + 1, h)`."""
        gates = ops.tanh(ops.tensordot(x, gate_kernel, axes=1))  # (B, n, c, h)
        factors = [ops.expand_dims(gates, 3)]
        if self.rank:
            hidden = ops.tensordot(x, hidden_kernel, axes=1)
            hidden = 0.5 * hidden * (1 + ops.erf(hidden * 2**-0.5))  # `ops.gelu` has only eight exact digits
            made = ops.einsum("bnck,ckrh->bncrh", hidden, composition_kernel)
            first, second = ops.split(made, 2, axis=3)
            factors = [rms_normalize(first, epsilon=1e-6), second, *factors]
        return ops.swapaxes(ops.concatenate(factors, axis=3), 1, 2)

    def project_key_value(self, key: Tensor, value: Tensor, state: CallState) -> dict[str, Tensor]:
        entry = super().project_key_value(key, value, state)
        if not self.key_compose or not (self.pre_compose or self.post_compose):
            return entry
        return entry | {
            "factors": self._factors(key, self.key_gate_kernel, self.key_hidden_kernel, self.key_composition_kernel)
        }

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        factors = {}
        if self.query_compose and (self.pre_compose or self.post_compose):
            kernels = self.query_gate_kernel, self.query_hidden_kernel, self.query_composition_kernel
            factors[-1] = ops.unstack(self._factors(state.query, *kernels), axis=1)
        if "factors" in entry:
            factors[-2] = ops.unstack(entry["factors"], axis=1)
        dtype = keras.backend.standardize_dtype(logits.dtype)
        if self.pre_compose:
            wide = "float32" if dtype == "float16" else dtype  # composed logits may be beyond float16
            logits = self._compose(ops.cast(logits, wide), 0, factors)
        weights = ops.cast(super().weigh(logits, entry, state), dtype)
        return self._compose(weights, -1, factors) if self.post_compose else weights

    def _compose(self, maps, index, factors):
        """Composes maps `(B, h, n, m)`; `factors`, of each composition, are by the axis of a map that they lack."""
        kernel = ops.cast(self.static_kernel[index], maps.dtype) if self.static else None
        factors = {axis: ops.cast(factor[index], maps.dtype) for axis, factor in factors.items()}
        return compose_heads(maps, kernel, factors)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, DynamicallyComposableAttention)}

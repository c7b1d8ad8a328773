import dataclasses
from typing import Any

import numpy as np
from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._heads import mark_heads
from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._attention_inputs import CallMask, tiled
from keras_headattn.layers._intermediates import record_by_token
from keras_headattn.layers._state import Attended, CallState, State
from keras_headattn.ops import exchange_heads
from keras_headattn.ops._attention import head_product
from keras_headattn.ops._dense import is_one


@register_keras_serializable(package="keras_headattn")
class InterleavedHeadAttention(Attention):
    """Attention over several pseudo-tokens for each token, which are composed of all heads (IHA).

    Each head has P queries, keys and values for each token. With Q_i the queries that projection i makes, and o'_ip the
    output of head i for pseudo-query p, the queries and the output of head h are

        Q'_hp = sum over i of Q_i alpha[i, h, p],    K' and V' likewise
        o_h = sum over i and p of R[iP + p, h] o'_ip

    alpha is `query_mixing_kernel`, `key_mixing_kernel` or `value_mixing_kernel` `(num_heads, num_heads, P)`, and R is
    `collapse_kernel` `(num_heads * P, num_heads)`. The layer starts as multi-head attention; noise on values cancels.

    Rotary positions, t P + p for pseudo-token p of token t, change this. Masks, windows, segments and biases apply
    to whole tokens: under a causal mask a query attends to all pseudo-tokens of its own token. Attention takes P^2
    times the time and memory. The cache holds composed keys and uncomposed values.

    Source: Duvvuri et al. 2026, "Interleaved head attention", section 4.1.

    Args:
        num_pseudo_tokens: `P`.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. Returned weights are
            `(B, num_heads * P, n, m)`: one row for each pseudo-query, summed over the pseudo-keys of a token.

    >>> x = keras.random.normal((2, 5, 16))
    >>> output, weights = InterleavedHeadAttention(num_heads=4, key_dim=4)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 8, 5, 5))
    """

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, *, num_pseudo_tokens: int = 2, **kwargs: Any
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.num_pseudo_tokens = check_positive("num_pseudo_tokens", num_pseudo_tokens)

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        h, p = self.num_heads, self.num_pseudo_tokens
        first = np.eye(h * p)[:, ::p]  # the collapse takes the first pseudo-query of each head
        self.query_mixing_kernel = self.add_kernel("query_mixing_kernel", (h, h, p), _alike)
        self.key_mixing_kernel = self.add_kernel("key_mixing_kernel", (h, h, p), _alike)
        self.value_mixing_kernel = self.add_kernel("value_mixing_kernel", (h, h, p), _unlike_values)
        self.collapse_kernel = self.add_kernel("collapse_kernel", first.shape, initializers.Constant(first))
        for kernel in (
            self.query_mixing_kernel,
            self.key_mixing_kernel,
            self.value_mixing_kernel,
            self.collapse_kernel,
        ):
            mark_heads(kernel, 1, kernel.name.removesuffix("_kernel"), self.role)

    def apply_positions(self, side: str, heads: Tensor, positions: Tensor) -> Tensor:
        # Composed for each pseudo-token: (B, h, n, d) -> (B, h * P, n, d)
        p, rotate = self.num_pseudo_tokens, super().apply_positions
        kernel = self.query_mixing_kernel if side == "query" else self.key_mixing_kernel
        made = [exchange_heads(rotate(side, heads, p * positions + i), kernel[:, :, i]) for i in range(p)]
        return ops.reshape(ops.stack(made, axis=2), (ops.shape(heads)[0], p * self.num_heads, *ops.shape(heads)[2:]))

    def before_attend(
        self, query: Tensor, entry: dict[str, Tensor], state: CallState
    ) -> tuple[dict[str, Tensor], CallState]:
        if state.cache is not None and is_one(query.shape[2]):
            return entry, state  # `mix` composes the weights of one query, in place of the values of a whole cache
        kernel = ops.reshape(self.value_mixing_kernel, (self.num_heads, -1))
        return entry | {"composed": exchange_heads(entry["value"], kernel)}, state

    def attend(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Attended:
        # A head's pseudo-tokens are stacked along the length axis: first all of p = 0, then all of p = 1, ...
        p, h, m = self.num_pseudo_tokens, self.num_heads, ops.shape(entry["key"])[2]
        batch, _, n, _ = ops.shape(query)
        *masks, kept = (tiled(tiled(x, -2, n, p), -1, m, p) for x in (*state.masks.parts(), state.kept))
        bias, places = tiled(state.bias, -2, n, p), ops.tile(state.query_positions, (p,))
        inside = dataclasses.replace(state, masks=CallMask(masks), bias=bias, kept=kept, query_positions=places)
        parts = [("query", query, n), ("key", entry["key"], m)]
        parts += [("value", entry["composed"], m)] if "composed" in entry else []
        stacked = {name: ops.reshape(x, (ops.shape(x)[0], h, p * length, x.shape[3])) for name, x, length in parts}
        attended = super().attend(stacked["query"], entry | stacked, inside)
        if "composed" in entry:
            heads = ops.reshape(attended.heads, (batch, h * p, n, self.value_dim))
            attended = dataclasses.replace(attended, heads=exchange_heads(heads, self.collapse_kernel))
        # Weights of (B, h, P * n, P * m)
        return record_by_token(self, attended, (batch, h * p, n, p, m), queries=query)

    @property
    def fused_class(self) -> type:
        return InterleavedHeadAttention  # `mix` differs for one query of a cache alone

    def mix(self, weights: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        if "composed" in entry:
            return super().mix(weights, entry, state)
        p, h, (batch, _, m, _) = self.num_pseudo_tokens, self.num_heads, ops.shape(entry["value"])
        collapse = ops.reshape(self.collapse_kernel, (h, p, h))
        kernel = ops.einsum("ipo,jiq->ipqjo", collapse, self.value_mixing_kernel)
        weights = ops.reshape(weights, (batch, h * p * p, 1, m))
        weights = exchange_heads(weights, ops.reshape(kernel, (h * p * p, h * h)))
        # For each head's values, the weights of every output: (B, h, h, m)
        products = head_product(ops.reshape(weights, (batch, h, h, m)), entry["value"])
        return ops.sum(products, axis=1)[:, :, None]

    def score_bias(self, query: Tensor, state: State) -> Tensor | None:
        return tiled(super().score_bias(query, state), -1, ops.shape(state.key_positions)[0], self.num_pseudo_tokens)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, InterleavedHeadAttention)}


def _alike(shape, dtype=None):
    return ops.cast(np.repeat(np.eye(shape[0])[:, :, None], shape[2], axis=2), dtype)


def _unlike_values(shape, dtype=None):
    # Without this noise, pseudo-keys would start alike, and stay alike unless rotation or dropout sets them apart.
    noise = initializers.RandomNormal(stddev=0.02)(shape, dtype)
    return _alike(shape, dtype) + noise - ops.mean(noise, axis=2, keepdims=True)

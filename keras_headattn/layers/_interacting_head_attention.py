import dataclasses
from typing import Any

from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Tensor
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._attention_inputs import CallMask, tiled
from keras_headattn.layers._intermediates import record
from keras_headattn.layers._state import Attended, CallState, State
from keras_headattn.ops._dense import is_one


@register_keras_serializable(package="keras_headattn")
class InteractingHeadAttention(Attention):
    """Attention that compares the queries of every head with the keys of every head.

    The paper gives two computations, which differ:

    - `interaction="sum"` (Algorithm 1): the logits of all query heads are added before one softmax per key head. As the
      sum over i of Q_i K_j^T is (sum of Q_i) K_j^T, the query projections are summed once: cost and weights are those
      of multi-head attention.
    - `interaction="pairwise"` (equations 11 and 12): every pair of a query head and a key head has its own softmax. The
      output projection's kernel is `(num_heads ** 2, value_dim, D)`, ordered by query head, then key head.

    Source: Li and Luo 2022, "Interacting-head attention". Logits are divided by the square root of `key_dim`, as in
    the equations.

    Args:
        interaction: `"sum"` or `"pairwise"`.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. With `"pairwise"` scores
            are returned as `(B, h, h, n, m)`, query head first, and an `attention_mask` may not differ between heads.
            With `"sum"` `qk_norm` normalises the summed queries.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(InteractingHeadAttention(num_heads=4, key_dim=4)(x, x).shape)
    (2, 5, 16)
    """

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, *, interaction: str = "sum", **kwargs: Any
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        if interaction not in ("sum", "pairwise"):
            raise ValueError(f"`interaction` must be 'sum' or 'pairwise'. Received: interaction={interaction!r}")
        self.interaction = interaction

    @property
    def merged_heads(self) -> int:
        return self.num_heads if self.interaction == "sum" else self.num_heads**2

    @property
    def softmax_heads(self) -> int:
        # Pairs of heads share one mask.
        return self.num_heads if self.interaction == "sum" else 1

    def projection_weights(self, name: str) -> tuple[Tensor, Tensor | None]:
        kernel, bias = super().projection_weights(name)
        if self.interaction == "pairwise" or name != "query":
            return kernel, bias
        return ops.sum(kernel, axis=1, keepdims=True), None if bias is None else ops.sum(bias, axis=0, keepdims=True)

    def project_query(self, query: Tensor, state: CallState) -> Tensor:
        if self.interaction == "pairwise" or "query" in state.projected:
            return super().project_query(query, state)
        dense = self._query_dense
        if dense.quantization_mode is not None:
            return ops.sum(super().project_query(query, state), axis=1, keepdims=True)
        kernel = ops.sum(dense.kernel, axis=1)
        summed = ops.tensordot(query, ops.cast(kernel, query.dtype), axes=1)
        if self.use_bias:
            summed = summed + ops.cast(ops.sum(dense.bias, axis=0), query.dtype)
        return ops.expand_dims(summed, 1)

    def attend(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Attended:
        if self.interaction == "sum" or self.fuses(state):
            return super().attend(query, entry, state)
        # Each key head meets the queries of all heads, stacked along the length axis.
        batch, h, n, width = ops.shape(query)
        mask, bias = (tiled(x, -2, n, h) for x in (state.mask, state.bias))
        positions = ops.tile(state.query_positions, (h,))
        masks = CallMask([] if mask is None else [mask])
        state = dataclasses.replace(state, masks=masks, bias=bias, query_positions=positions)
        stacked = ops.reshape(query, (batch, 1, h * n, width))
        attended = super().attend(stacked, entry, state)
        heads = ops.reshape(_by_query_head(attended.heads), (batch, h * h, n, self.value_dim))
        if attended.weights is None:
            return dataclasses.replace(attended, heads=heads)
        weights = _by_query_head(attended.weights)
        record(self, queries=query, logits=_by_query_head, weights=weights)
        return dataclasses.replace(attended, heads=heads, weights=weights)

    def attend_at_once(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        if self.interaction == "sum":
            return super().attend_at_once(query, entry, state)
        # Each key head has a group of queries, those of all heads.
        batch, h, n, _ = ops.shape(query)
        heads = super().attend_at_once(ops.tile(query, (1, h, 1, 1)), entry, state)
        heads = ops.swapaxes(ops.reshape(heads, (batch, h, h, n, self.value_dim)), 1, 2)
        return ops.reshape(heads, (batch, h * h, n, self.value_dim))

    def fuses(self, state: State) -> bool:
        by_key_head = self.relative_positions is not None and self.relative_positions.has_bias
        if state.bias is not None and len(state.bias.shape) > 2:
            by_key_head = by_key_head or not is_one(state.bias.shape[-3])
        return super().fuses(state) and not (self.interaction == "pairwise" and by_key_head)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, InteractingHeadAttention)}


def _by_query_head(x):
    """Reorders `(B, h, h * n, d)`, key heads and stacked query heads, to `(B, h, h, n, d)`, query head first."""
    batch, h, rows, width = ops.shape(x)
    return ops.swapaxes(ops.reshape(x, (batch, h, h, rows // h, width)), 1, 2)

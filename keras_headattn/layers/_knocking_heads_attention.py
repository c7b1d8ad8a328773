from collections.abc import Sequence
from typing import Any

from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn.layers._grouped_query_attention import GroupedQueryAttention
from keras_headattn.layers._state import CallState

PARTS = ("query", "key", "value", "value_mlp")


@register_keras_serializable(package="keras_headattn")
class KnockingHeadsAttention(GroupedQueryAttention):
    """Attention that transforms the queries, keys or values of all heads by the same learned matrices.

    With Q_i, K_i and V_i the projections of head i:

    - `"query"`, `"key"`, `"value"`: Q_i T_Q, K_i T_K, V_i T_V. `absorb` merges these matrices into the projections;
    - `"value_mlp"`: 2 ((V_i U) * sigmoid(V_i G)) N.

    T, U and N start as the identity and G as 0, so heads are unchanged at first. The weights hold the differences from
    this start, towards which weight decay pulls: `knocking_query_kernel` is T_Q - I, and likewise for `key`, `value`,
    `up` (U), `gate` (G) and `down` (N). They are `(key_dim, key_dim)` or `(value_dim, value_dim)`.

    Source: Zhou et al. 2025, "Knocking-heads attention", eqs. 5 to 9.

    Args:
        knocking: transformations, one or more of `"query"`, `"key"`, and `"value"` or `"value_mlp"`.
        num_key_value_heads: see `GroupedQueryAttention`. Defaults to `num_heads`.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors.

    >>> x = keras.random.normal((2, 5, 16))
    >>> layer = KnockingHeadsAttention(num_heads=4, key_dim=4, knocking=("query", "key", "value"))
    >>> tuple(layer(x, x).shape), layer.knocking
    ((2, 5, 16), ('query', 'key', 'value'))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        knocking: str | Sequence[str] = ("value_mlp",),
        num_key_value_heads: int | None = None,
        **kwargs: Any,
    ):
        groups = num_heads if num_key_value_heads is None else num_key_value_heads
        super().__init__(num_heads, key_dim, value_dim, num_key_value_heads=groups, **kwargs)
        parts = (knocking,) if isinstance(knocking, str) else knocking
        if (
            not isinstance(parts, (tuple, list))
            or not parts
            or sorted(set(parts) & set(PARTS)) != sorted(parts)
            or {"value", "value_mlp"} <= set(parts)
        ):
            raise ValueError(
                "`knocking` must be one or more of 'query', 'key', and 'value' or 'value_mlp', without repeats. "
                f"Received: knocking={knocking!r}"
            )
        self.knocking = tuple(parts)

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        query, key, value = (self.projections[part][1] for part in ("query", "key", "value"))
        has_mlp = "value_mlp" in self.knocking
        self.knocking_query_kernel = self._kernel("query", query, "query" in self.knocking)
        self.knocking_key_kernel = self._kernel("key", key, "key" in self.knocking)
        self.knocking_value_kernel = self._kernel("value", value, "value" in self.knocking)
        self.knocking_up_kernel = self._kernel("up", self.value_dim, has_mlp)
        self.knocking_gate_kernel = self._kernel("gate", self.value_dim, has_mlp)
        self.knocking_down_kernel = self._kernel("down", self.value_dim, has_mlp)

    def _kernel(self, part, width, exists):
        return self.add_kernel(f"knocking_{part}_kernel", (width, width), initializers.Zeros()) if exists else None

    def _product(self, part, x):
        return ops.tensordot(x, ops.cast(getattr(self, f"knocking_{part}_kernel"), x.dtype), axes=1)

    def _transform(self, part, x):
        return x + self._product(part, x)

    def projection_weights(self, name: str) -> tuple[Tensor, Tensor | None]:
        kernel, bias = super().projection_weights(name)
        if name not in self.knocking:
            return kernel, bias
        return self._transform(name, kernel), None if bias is None else self._transform(name, bias)

    def project(self, name: str, x: Tensor, state: CallState) -> Tensor:
        heads = super().project(name, x, state)
        if name in self.knocking and name not in state.projected:  # decoding kernels include it
            heads = self._transform(name, heads)
        if name == "value" and "value_mlp" in self.knocking:
            gate = ops.sigmoid(self._product("gate", heads))
            heads = self._transform("down", 2 * self._transform("up", heads) * gate)
        return heads

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, KnockingHeadsAttention)}

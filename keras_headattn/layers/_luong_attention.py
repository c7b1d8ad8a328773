from typing import Any

from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import State
from keras_headattn.ops._attention import key_product


@register_keras_serializable(package="keras_headattn")
class LuongAttention(Attention):
    """Luong attention: one head, scored by dot product, a bilinear form or a small network.

    For a projected query `m` and a projected key `x`, both `key_dim` wide:

    - `score_mode="dot"`: m . x, unscaled unless a `scale` is given;
    - `score_mode="general"`: m . W x, with `score_kernel` W `(key_dim, key_dim)`;
    - `score_mode="concat"`: v . tanh(W [m; x]), with `score_kernel` W `(2 * key_dim, key_dim)` and `score_vector` v
      `(key_dim,)`.

    Source: Luong et al. 2015, "Effective approaches to attention-based neural machine translation"; Li and Luo 2022,
    "Interacting-head attention", eqs. 1 and 2 (which print `concat` without v).

    Args:
        num_heads: 1.
        key_dim: width of projected queries and keys.
        score_mode: `"dot"`, `"general"` or `"concat"`.
        value_dim, **kwargs: see `Attention`, also for calls and errors.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(LuongAttention(key_dim=16, score_mode="concat")(x, x).shape)
    (2, 5, 16)
    """

    head_arguments = ()

    def __init__(
        self,
        num_heads: int = 1,
        key_dim: int | None = None,
        value_dim: int | None = None,
        *,
        score_mode: str = "dot",
        **kwargs: Any,
    ):
        if num_heads != 1:
            raise ValueError(
                f"LuongAttention has one head: give its width as `key_dim`. Received: num_heads={num_heads}"
            )
        super().__init__(num_heads, check_positive("key_dim", key_dim), value_dim, **kwargs)
        if score_mode not in ("dot", "general", "concat"):
            raise ValueError(f"`score_mode` must be 'dot', 'general' or 'concat'. Received: score_mode={score_mode!r}")
        self.score_mode = score_mode

    @property
    def scale(self) -> float:
        return 1.0 if self._scale is None else self._scale

    @property
    def scores_are_products(self) -> bool:
        return self.score_mode == "dot"

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        if self.score_mode != "dot":
            rows = self.key_dim * (2 if self.score_mode == "concat" else 1)
            self.score_kernel = self.add_kernel("score_kernel", (rows, self.key_dim))
        if self.score_mode == "concat":
            self.score_vector = self.add_kernel("score_vector", (self.key_dim,))

    def score(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        query, key = query * self.scale, entry["key"]
        if self.score_mode == "dot":
            return key_product(query, key)
        if self.score_mode == "general":
            return key_product(ops.matmul(query, self.score_kernel), key)
        of_query, of_key = ops.split(ops.convert_to_tensor(self.score_kernel), 2, axis=0)
        queries, keys = ops.matmul(query, of_query), ops.matmul(key, of_key)
        hidden = ops.tanh(queries[:, :, :, None] + keys[:, :, None])  # (B, 1, n, m, key_dim)
        return ops.sum(hidden * self.score_vector, axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, LuongAttention)}

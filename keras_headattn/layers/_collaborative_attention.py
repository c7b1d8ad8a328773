import dataclasses
from typing import Any

from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._heads import mark_heads
from keras_headattn._identifiers import arguments_of, initializer
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import Attended, CallState, State


@register_keras_serializable(package="keras_headattn")
class CollaborativeAttention(Attention):
    """Attention of heads that share queries and keys, and weigh their features differently (collaborative heads).

    With q and k the shared query and key, `shared_dim` wide, and z the key's input, the logits of head i are

        scale (sum over r of q_r M[i, r] k_r + z . C_i)

    M is `mixing_kernel` `(num_heads, shared_dim)`. C is `content_kernel` `(D_k, num_heads)`; it replaces the biases of
    queries and keys, starts at 0, and is left out without `use_bias`. The cache has one key for all heads.
    `interop.to_collaborative` converts trained multi-head attention to this layer.

    Source: Cordonnier et al. 2020, "Multi-head attention: collaborate instead of concatenate", and its public code.

    Args:
        key_dim: width of one head's query and key in multi-head attention; used only for the defaults of `shared_dim`
            and `scale`.
        shared_dim: width R of the shared query and key. Defaults to `num_heads * key_dim`, as wide as all heads of
            multi-head attention together.
        mixing_initializer: of M. Default `None`: normal with a standard deviation of 0.2.
        num_heads, value_dim, **kwargs: see `Attention`, also for calls and errors. Rotary positions are an error: they
            rotate pairs of features, which M weights separately. `qk_norm` normalises the shared query and key.

    >>> x = keras.random.normal((2, 5, 16))
    >>> layer = CollaborativeAttention(num_heads=4, key_dim=4, shared_dim=8)
    >>> tuple(layer(x, x).shape), tuple(layer.init_cache(2, 10)["key"].shape)
    ((2, 5, 16), (2, 1, 10, 8))
    """

    scores_are_products = False
    without_bias = ("query", "key")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        shared_dim: int | None = None,
        mixing_initializer: Initializer | None = None,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.shared_dim = check_positive("shared_dim", num_heads * key_dim if shared_dim is None else shared_dim)
        self.mixing_initializer = initializer("mixing_initializer", mixing_initializer)

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        return super().projections | {"query": (1, self.shared_dim), "key": (1, self.shared_dim)}

    @property
    def score_dim(self) -> int:
        return self.shared_dim

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        start = self.mixing_initializer or initializers.RandomNormal(stddev=0.2)
        self.mixing_kernel = self.add_kernel("mixing_kernel", (self.num_heads, self.shared_dim), start)
        mark_heads(self.mixing_kernel, 0, "mixing", self.role)
        if self.use_bias:
            shape = (self.widths["key"] or 0, self.num_heads)
            self.content_kernel = self.add_kernel("content_kernel", shape, self.bias_initializer)

    def project_key_value(self, key: Tensor, value: Tensor, state: CallState) -> dict[str, Tensor]:
        entry = super().project_key_value(key, value, state)
        if not self.use_bias:
            return entry
        content = ops.tensordot(key, ops.cast(self.content_kernel, key.dtype), axes=1)
        return entry | {"content": ops.expand_dims(ops.swapaxes(content, 1, 2), -1)}  # (B, h, m, 1)

    def attend(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Attended:
        mixing = ops.cast(self.mixing_kernel, query.dtype)[:, None]
        return super().attend(query * mixing, entry, state)  # (B, h, n, R)

    @property
    def fused_class(self) -> type:
        return CollaborativeAttention

    def attend_at_once(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        if self.use_bias:
            content = self.scale * ops.swapaxes(entry["content"], 2, 3)
            bias = content if state.bias is None else content + ops.cast(state.bias, content.dtype)
            state = dataclasses.replace(state, bias=bias)
        return super().attend_at_once(query, entry, state)

    def score(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        logits = super().score(query, entry, state)
        return logits + self.scale * ops.swapaxes(entry["content"], 2, 3) if self.use_bias else logits

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, CollaborativeAttention)}

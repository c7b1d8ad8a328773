import dataclasses
from typing import Any

from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._heads import mark_heads
from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._grouped_query_attention import GroupedQueryAttention
from keras_headattn.layers._state import Attended, CallState, State
from keras_headattn.ops import exchange_heads
from keras_headattn.ops._dense import rms_normalize


@register_keras_serializable(package="keras_headattn")
class MultiHeadExplicitAttention(GroupedQueryAttention):
    """Attention with keys and values composed of those of component heads, and a norm of each head (MEA).

    With K_c and V_c the projections of component c, the key and value of head j are

        K'_j = sum over c of K_c L_K[c, j],    V'_j = sum over c of V_c L_V[c, j]

    `key_mixing_kernel` L_K and `value_mixing_kernel` L_V are `(num_components, num_key_value_heads)`. They start as
    the identity or, if the two counts differ, as random matrices with orthonormal rows or columns. Each head's output
    is divided by its root mean square and multiplied by `norm_scale` `(value_dim,)`, which all heads share. This
    cancels nearly all of the effect of `use_sinks`.

    The cache holds components, so its size is `num_components / num_heads` of multi-head attention's. A
    `head_regularizer` of values sees the components, too.

    Source: Peng et al. 2026, "Explicit multi-head attention for inter-head interaction in large language models".

    Args:
        num_components: number of components. Defaults to `num_key_value_heads`.
        num_key_value_heads: number of composed keys and values, see `GroupedQueryAttention`. Defaults to `num_heads`.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors.

    >>> x = keras.random.normal((2, 5, 16))
    >>> layer = MultiHeadExplicitAttention(num_heads=4, key_dim=4, num_components=2)
    >>> tuple(layer(x, x).shape), tuple(layer.init_cache(2, 10)["value"].shape)
    ((2, 5, 16), (2, 2, 10, 4))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        num_components: int | None = None,
        num_key_value_heads: int | None = None,
        **kwargs: Any,
    ):
        groups = num_heads if num_key_value_heads is None else num_key_value_heads
        super().__init__(num_heads, key_dim, value_dim, num_key_value_heads=groups, **kwargs)
        count = groups if num_components is None else num_components
        self.num_components = check_positive("num_components", count)

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        count = self.num_components
        return super().projections | {"key": (count, self.key_dim), "value": (count, self.value_dim)}

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        shape = self.num_components, self.num_key_value_heads
        start = "identity" if self.num_components == self.num_key_value_heads else _orthogonal
        self.key_mixing_kernel = self.add_kernel("key_mixing_kernel", shape, start)
        self.value_mixing_kernel = self.add_kernel("value_mixing_kernel", shape, start)
        mark_heads(self.key_mixing_kernel, 1, "key_mixing", self.role)
        mark_heads(self.value_mixing_kernel, 1, "value_mixing", self.role)
        self.norm_scale = self.add_weight(name="norm_scale", shape=(self.value_dim,), initializer="ones")

    def before_attend(
        self, query: Tensor, entry: dict[str, Tensor], state: CallState
    ) -> tuple[dict[str, Tensor], CallState]:
        kernels = {"key": self.key_mixing_kernel, "value": self.value_mixing_kernel}
        return entry | {side: exchange_heads(entry[side], kernel) for side, kernel in kernels.items()}, state

    def attend(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Attended:
        attended = super().attend(query, entry, state)
        return dataclasses.replace(attended, heads=rms_normalize(attended.heads, self.norm_scale, epsilon=1e-5))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, MultiHeadExplicitAttention)}


def _orthogonal(shape, dtype=None):
    return ops.cast(initializers.Orthogonal()(shape, "float32"), dtype)  # 16-bit types have no QR decomposition

from typing import Any

from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._validation import check_group
from keras_headattn.layers._attention import Attention


@register_keras_serializable(package="keras_headattn")
class GroupedQueryAttention(Attention):
    """Attention whose query heads share keys and values in groups, which shrinks the cache.

    Query heads `i * r` to `(i + 1) * r - 1` read key and value head `i`, with `r = num_heads / num_key_value_heads`.
    The weights and their order are those of `keras.layers.GroupQueryAttention`.

    Source: Ainslie et al. 2023, "GQA: training generalized multi-query Transformer models from multi-head checkpoints";
    with one group Shazeer 2019, "Fast Transformer decoding: one write-head is all you need".

    Args:
        num_heads: number of query heads `h`.
        num_key_value_heads: number of key and value heads, a divisor of `num_heads`. Default 1, multi-query attention.
        key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors.

    >>> x = keras.random.normal((2, 5, 16))
    >>> layer = GroupedQueryAttention(num_heads=4, key_dim=4, num_key_value_heads=2)
    >>> tuple(layer(x, x).shape), tuple(layer.init_cache(2, 10)["value"].shape)
    ((2, 5, 16), (2, 2, 10, 4))
    """

    head_arguments = ("num_heads", "num_key_value_heads")

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, *, num_key_value_heads: int = 1, **kwargs: Any
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.num_key_value_heads = check_group("num_key_value_heads", num_key_value_heads, num_heads)

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        groups = self.num_key_value_heads
        return super().projections | {"key": (groups, self.key_dim), "value": (groups, self.value_dim)}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, GroupedQueryAttention)}

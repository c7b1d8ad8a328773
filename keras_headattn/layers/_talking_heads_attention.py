from typing import Any

from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import State
from keras_headattn.ops import exchange_heads


@register_keras_serializable(package="keras_headattn")
class TalkingHeadsAttention(Attention):
    """Attention with learned mixing of the heads before and after the softmax.

    Two matrices without biases act on the head axis: `pre_softmax_kernel` `(key_heads, num_heads)` on the logits,
    before the mask, and `post_softmax_kernel` `(num_heads, value_heads)` on the weights. They are the transposes of the
    papers' `W_t1` and `W_t2`.

    Source: Shazeer et al. 2020, "Talking-heads attention"; Li and Luo 2022, "Interacting-head attention", eqs. 6-9.

    Args:
        num_heads: number of heads in the softmax.
        key_heads, value_heads: numbers of heads of queries and keys, and of values. Default to `num_heads`.
        mixing_initializer: of the two matrices. Defaults to `kernel_initializer`.
        key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. Scores are returned after the second
            matrix, `(B, value_heads, n, m)`: a row need not sum to 1.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(TalkingHeadsAttention(num_heads=4, key_dim=4)(x, x).shape)
    (2, 5, 16)
    """

    head_arguments = ("num_heads", "key_heads", "value_heads")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        key_heads: int | None = None,
        value_heads: int | None = None,
        mixing_initializer: Initializer | None = None,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.key_heads = check_positive("key_heads", num_heads if key_heads is None else key_heads)
        self.value_heads = check_positive("value_heads", num_heads if value_heads is None else value_heads)
        self.mixing_initializer = initializer("mixing_initializer", mixing_initializer)

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        made = super().projections
        heads = {"query": self.key_heads, "key": self.key_heads, "gate": self.value_heads, "value": self.value_heads}
        return {name: (heads[name], width) for name, (_, width) in made.items()}

    @property
    def score_heads(self) -> int:
        return self.key_heads

    @property
    def merged_heads(self) -> int:
        return self.value_heads

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        pre, post = (self.key_heads, self.num_heads), (self.num_heads, self.value_heads)
        self.pre_softmax_kernel = self.add_kernel("pre_softmax_kernel", pre, self.mixing_initializer)
        self.post_softmax_kernel = self.add_kernel("post_softmax_kernel", post, self.mixing_initializer)

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        weights = super().weigh(exchange_heads(logits, self.pre_softmax_kernel), entry, state)
        return exchange_heads(weights, self.post_softmax_kernel)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, TalkingHeadsAttention)}

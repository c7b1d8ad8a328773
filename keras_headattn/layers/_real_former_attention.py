from typing import Any

from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Tensor
from keras_headattn._validation import chains
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import State


@register_keras_serializable(package="keras_headattn")
class RealFormerAttention(Attention):
    """Attention that adds the scores of the previous block to its own.

    It passes the sum on. Previous logits of another shape are ignored.

    Source: He et al. 2021, "RealFormer: Transformer likes residual attention"; Wang et al. 2021, "Evolving attention
    with residual convolutions", table 3. Arguments, calls and errors: see `Attention`.

    >>> x = keras.random.normal((2, 5, 16))
    >>> first, second = (RealFormerAttention(num_heads=4, key_dim=4) for _ in range(2))
    >>> y, map = first(x, x, return_logits=True)
    >>> tuple(second(y, y, previous_logits=map).shape)
    (2, 5, 16)
    """

    carries_logits = True

    def evolve(self, logits: Tensor, state: State) -> tuple[Tensor, Tensor | None, Any]:
        if state.previous_logits is not None and chains(state.previous_logits.shape, logits.shape):
            logits = logits + ops.cast(state.previous_logits, logits.dtype)
        return logits, logits, state.cache

import dataclasses
from typing import Any

from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Tensor
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._attention_inputs import CallMask, tiled
from keras_headattn.layers._intermediates import record_by_token
from keras_headattn.layers._state import Attended, State


@register_keras_serializable(package="keras_headattn")
class PairedHeadsAttention(Attention):
    """Attention in which two neighbouring heads share their keys and values in one softmax (paired heads).

    With Q_a, K_a and V_a the queries, keys and values of head a, and b the other head of its pair,

        head_a = softmax(Q_a [K_a, K_b]^T / sqrt(key_dim)) [V_a, V_b]

    where [K_a, K_b] are the keys of both, one after the other. Heads 2i and 2i + 1 are a pair. There are no new
    weights. Masks, windows, biases and positions apply to whole tokens: a query attends to both keys of a token or to
    neither. Attention takes twice the time and memory; the cache is that of multi-head attention.

    Source: ClassicLarry 2026, "Paired head attention", record 58 of modded-nanogpt. There, the two keys of a token are
    at positions 2t and 2t + 1, for causal masks, windows and rotary positions too.

    Args:
        num_heads: number of heads `h`, even.
        key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. Returned weights are `(B, h, n, m)`,
            summed over the two keys of a token.

    >>> x = keras.random.normal((2, 5, 16))
    >>> output, weights = PairedHeadsAttention(num_heads=4, key_dim=4)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """

    heads_together = 2

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, **kwargs: Any):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        if self.num_heads % 2:
            raise ValueError(f"`num_heads` must be even, to make pairs. Received: num_heads={num_heads}")

    def attend(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Attended:
        # (B, h, m, d) -> (B, h / 2, 2 * m, d), which two query heads share
        batch, _, m, _ = ops.shape(entry["value"])
        pairs = {
            name: ops.reshape(entry[name], (batch, self.num_heads // 2, 2 * m, entry[name].shape[3]))
            for name in ("key", "value")
        }
        *masks, kept = (tiled(x, -1, m, 2) for x in (*state.masks.parts(), state.kept))
        inside = dataclasses.replace(state, masks=CallMask(masks), kept=kept)
        attended = super().attend(query, entry | pairs, inside)
        return record_by_token(self, attended, (batch, self.num_heads, ops.shape(query)[2], 2, m))

    def score_bias(self, query: Tensor, state: State) -> Tensor | None:
        return tiled(super().score_bias(query, state), -1, ops.shape(state.key_positions)[0], 2)

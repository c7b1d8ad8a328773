import math
from typing import Any

from keras import backend, initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._attention import Attention, State
from keras_headattn.ops._dense import rms_normalize


@register_keras_serializable(package="keras_headattn")
class DifferentialAttention(Attention):
    """Attention with the difference of two softmaxes as its weights, which cancels the noise they share.

    With A1 and A2 the softmaxes of a head's two queries and keys,

        weights = A1 - lambda A2
        head = (1 - lambda_0) rms_normalization(weights V)
        lambda = exp(q1 . k1) - exp(q2 . k2) + lambda_0,    lambda_0 = 0.8 - 0.6 exp(-0.3 depth)

    The heads share q1, k1, q2 and k2, the rows of `lambda_vectors` `(4, key_dim)`, and the scale of the norm,
    `norm_scale` `(value_dim,)`.

    Source: Ye et al. 2024, "Differential Transformer", eqs. 1 to 3.

    Args:
        num_heads: number of heads `h`, each with two maps.
        key_dim: width of each of a head's two queries and keys. Their kernels are `(D, h, 2 * key_dim)`.
        value_dim: width of a value of one head. Defaults to `2 * key_dim`.
        **kwargs: see `Attention`, also for calls and errors. `depth=None` counts as 0. Masks per head, biases and maps
            have `2 * num_heads` heads: 2i and 2i + 1 belong to head i.

    >>> x = keras.random.normal((2, 5, 16))
    >>> output, weights = DifferentialAttention(num_heads=2, key_dim=4)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 2, 5, 5))
    """

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, **kwargs: Any):
        value_dim = 2 * check_positive("key_dim", key_dim) if value_dim is None else value_dim
        super().__init__(num_heads, key_dim, value_dim, **kwargs)

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        pair = (self.num_heads, 2 * self.key_dim)
        return super().projections | {"query": pair, "key": pair}

    @property
    def score_heads(self) -> int:
        return 2 * self.num_heads

    softmax_heads = score_heads

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        normal = initializers.RandomNormal(stddev=0.1)
        self.lambda_vectors = self.add_weight(name="lambda_vectors", shape=(4, self.key_dim), initializer=normal)
        self.norm_scale = self.add_weight(name="norm_scale", shape=(self.value_dim,), initializer="ones")

    @property
    def least_lambda(self) -> float:
        """The constant lambda_0."""
        return _least_lambda(self.depth or 0)

    def project_query(self, query: Tensor, state: State) -> Tensor:
        return self._each_by_itself(super().project_query(query, state))

    def project_key_value(self, key: Tensor, value: Tensor, state: State) -> dict[str, Tensor]:
        entry = super().project_key_value(key, value, state)
        return entry | {"key": self._each_by_itself(entry["key"])}

    def _each_by_itself(self, pairs):
        """Splits pairs of queries or keys, `(B, h, n, 2 * key_dim)`, into heads `(B, 2 * h, n, key_dim)`."""
        batch, _, n, _ = ops.shape(pairs)
        pairs = ops.reshape(pairs, (batch, self.num_heads, n, 2, self.key_dim))
        return ops.reshape(ops.swapaxes(pairs, 2, 3), (batch, 2 * self.num_heads, n, self.key_dim))

    @property
    def is_fused(self) -> bool:
        return self.attn_logits_soft_cap is None and backend.backend() != "tensorflow"

    def attend_at_once(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        entry = entry | {"value": ops.repeat(entry["value"], 2, axis=1)}
        return self._normalized(self._difference(super().attend_at_once(query, entry, state)))

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        return self._difference(super().weigh(logits, entry, state))

    def _difference(self, x):
        """Subtracts lambda times the second of each two heads from the first."""
        vectors = ops.cast(self.lambda_vectors, backend.result_type(x.dtype, "float32"))
        q1, k1, q2, k2 = ops.unstack(vectors, 4)
        share = ops.exp(ops.sum(q1 * k1)) - ops.exp(ops.sum(q2 * k2)) + self.least_lambda
        return x[:, ::2] - ops.cast(share, x.dtype) * x[:, 1::2]

    def mix(self, weights: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        return self._normalized(super().mix(weights, entry, state))

    def _normalized(self, heads):
        return normalize_heads(heads, self.norm_scale, self.depth or 0)


def normalize_heads(heads, scale, depth=None):
    """Divides each head by its root mean square; with a depth, also multiplies it by 1 - lambda_0."""
    factor = 1.0 if depth is None else 1 - _least_lambda(depth)
    return factor * rms_normalize(heads, scale, epsilon=1e-5)


def _least_lambda(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)

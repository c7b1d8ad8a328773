import math
from typing import Any

from keras import backend, initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_boolean, check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import CallState, State
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

    With `per_token` both queries of a head share its key, there is no norm, and each token of the query has a lambda of
    its own for each head, `sigmoid(x W)` with W `lambda_kernel` `(D, h)`: head = A1 V - lambda A2 V. Maps are plain
    softmaxes then, so that kernels can compute them.

    Source: Ye et al. 2024, "Differential Transformer", eqs. 1 to 3; for `per_token` its authors' "Differential
    Transformer V2" (2026).

    Args:
        num_heads: number of heads `h`, each with two maps.
        key_dim: width of each of a head's two queries and keys. Their kernels are `(D, h, 2 * key_dim)`; with
            `per_token`, `(D, 2 * h, key_dim)` for queries and `(D, h, key_dim)` for keys.
        value_dim: width of a value of one head. Defaults to `2 * key_dim`, with `per_token` to `key_dim`.
        per_token: True for the second version.
        **kwargs: see `Attention`, also for calls and errors. `depth=None` counts as 0. Masks per head, biases and maps
            have `2 * num_heads` heads: 2i and 2i + 1 belong to head i; so have returned weights with `per_token`.

    >>> x = keras.random.normal((2, 5, 16))
    >>> output, weights = DifferentialAttention(num_heads=2, key_dim=4)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 2, 5, 5))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        per_token: bool = False,
        **kwargs: Any,
    ):
        self.per_token = check_boolean("per_token", per_token)
        if value_dim is None and not per_token:
            value_dim = 2 * check_positive("key_dim", key_dim)
        super().__init__(num_heads, key_dim, value_dim, **kwargs)

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        if self.per_token:
            return super().projections | {"query": (2 * self.num_heads, self.key_dim)}
        pair = (self.num_heads, 2 * self.key_dim)
        return super().projections | {"query": pair, "key": pair}

    @property
    def score_heads(self) -> int:
        return 2 * self.num_heads

    softmax_heads = score_heads

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        if self.per_token:
            self.lambda_kernel = self.add_kernel("lambda_kernel", (self.widths["query"], self.num_heads))
            return
        normal = initializers.RandomNormal(stddev=0.1)
        self.lambda_vectors = self.add_weight(name="lambda_vectors", shape=(4, self.key_dim), initializer=normal)
        self.norm_scale = self.add_weight(name="norm_scale", shape=(self.value_dim,), initializer="ones")

    @property
    def least_lambda(self) -> float:
        """The constant lambda_0."""
        return _least_lambda(self.depth or 0)

    def project_query(self, query: Tensor, state: CallState) -> Tensor:
        queries = super().project_query(query, state)
        return queries if self.per_token else self._each_by_itself(queries)

    def project_key_value(self, key: Tensor, value: Tensor, state: CallState) -> dict[str, Tensor]:
        entry = super().project_key_value(key, value, state)
        return entry if self.per_token else entry | {"key": self._each_by_itself(entry["key"])}

    def _each_by_itself(self, pairs):
        """Splits pairs of queries or keys, `(B, h, n, 2 * key_dim)`, into heads `(B, 2 * h, n, key_dim)`."""
        batch, _, n, _ = ops.shape(pairs)
        pairs = ops.reshape(pairs, (batch, self.num_heads, n, 2, self.key_dim))
        return ops.reshape(ops.swapaxes(pairs, 2, 3), (batch, 2 * self.num_heads, n, self.key_dim))

    @property
    def fused_class(self) -> type:
        return DifferentialAttention

    @property
    def is_fused(self) -> bool:
        return super().is_fused and (self.per_token or backend.backend() != "tensorflow")

    def attend_at_once(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        if self.per_token:
            return super().attend_at_once(query, entry, state)
        entry = entry | {"value": ops.repeat(entry["value"], 2, axis=1)}
        return self._normalized(self._difference(super().attend_at_once(query, entry, state)))

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        weights = super().weigh(logits, entry, state)
        return weights if self.per_token else self._difference(weights)

    def _difference(self, x):
        """Subtracts lambda times the second of each two heads from the first."""
        vectors = ops.cast(self.lambda_vectors, backend.result_type(x.dtype, "float32"))
        q1, k1, q2, k2 = ops.unstack(vectors, 4)
        share = ops.exp(ops.sum(q1 * k1)) - ops.exp(ops.sum(q2 * k2)) + self.least_lambda
        first, second = _pairs(x)
        return first - ops.cast(share, x.dtype) * second

    def mix(self, weights: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        heads = super().mix(weights, entry, state)
        return heads if self.per_token else self._normalized(heads)

    def finish(self, heads: Tensor, state: CallState) -> Tensor:
        if self.per_token:
            shares = ops.sigmoid(ops.matmul(state.query, ops.cast(self.lambda_kernel, state.query.dtype)))
            first, second = _pairs(heads)
            heads = first - ops.expand_dims(ops.swapaxes(shares, 1, 2), -1) * second
        return super().finish(heads, state)

    def _normalized(self, heads):
        return normalize_heads(heads, self.norm_scale, self.depth or 0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, DifferentialAttention)}


def _pairs(x):
    """Returns the first and the second of each two heads."""
    batch, heads, *others = ops.shape(x)
    return ops.unstack(ops.reshape(x, (batch, heads // 2, 2, *others)), axis=2)


def normalize_heads(heads, scale, depth=None):
    """Divides each head by its root mean square; with a depth, also multiplies it by 1 - lambda_0."""
    factor = 1.0 if depth is None else 1 - _least_lambda(depth)
    return factor * rms_normalize(heads, scale, epsilon=1e-5)


def _least_lambda(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)

from collections.abc import Sequence
from typing import Any

from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._private import check_length
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import CallState, State
from keras_headattn.ops import masked_softmax
from keras_headattn.ops._dense import apply_head_kernels, take

PARTS = ("dense", "random", "dot_product")


@register_keras_serializable(package="keras_headattn")
class SynthesizerAttention(Attention):
    """Attention with scores that are learned, or predicted from the query alone.

    Logits, with Q the query projection of a head:

    - `"dense"`: ReLU(Q) times `dense_kernel` `(h, key_dim, max_length)`. With the query projection, this is the paper's
      two-layer network, with an output for each key position;
    - `"random"`: `random_logits` `(h, max_length, max_length)`, the same for every input;
    - `"dot_product"`: the logits of multi-head attention.

    Several parts are averaged with learned weights, the softmax of `mixture_logits`.

    Source: Tay et al. 2021, "Synthesizer: rethinking self-attention for Transformer models"; Wang et al. 2021,
    "Evolving attention with residual convolutions", table 3.

    Args:
        key_dim: width of a query of one head, the hidden width of `"dense"`.
        max_length: number of positions that have logits. Default 512.
        mixture: parts of the logits: some of `"dense"`, `"random"` and `"dot_product"`. Query and key projections that
            no part needs are left out.
        num_heads, value_dim, **kwargs: see `Attention`, also for calls and errors. Exceeding `max_length` is an error,
            except with XLA if the length is not known before.

    >>> x = keras.random.normal((2, 5, 16))
    >>> layer = SynthesizerAttention(num_heads=4, key_dim=4, max_length=10, mixture=("random", "dot_product"))
    >>> tuple(layer(x, x).shape)
    (2, 5, 16)
    """

    keeps_positions = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        max_length: int = 512,
        mixture: Sequence[str] = ("dense",),
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.max_length = check_positive("max_length", max_length)
        parts = (mixture,) if isinstance(mixture, str) else mixture
        if not isinstance(parts, (tuple, list)) or not parts or sorted(set(parts) & set(PARTS)) != sorted(parts):
            raise ValueError(
                "`mixture` must hold some of 'dense', 'random' and 'dot_product', each once. "
                f"Received: mixture={mixture!r}"
            )
        self.mixture = tuple(parts)

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        made = super().projections
        if self.mixture == ("random",) and self.relative_positions is None:
            del made["query"]
        if "dot_product" not in self.mixture:
            del made["key"]
        return made

    @property
    def scores_are_products(self) -> bool:
        return "dot_product" in self.mixture and "dense" not in self.mixture

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        h, length = self.num_heads, self.max_length
        if "dense" in self.mixture:
            self.dense_kernel = self.add_kernel("dense_kernel", (h, self.key_dim, length))
        if "random" in self.mixture:
            self.random_logits = self.add_kernel("random_logits", (h, length, length))
        if len(self.mixture) > 1:
            self.mixture_logits = self.add_weight(
                name="mixture_logits", shape=(len(self.mixture),), initializer="zeros"
            )

    def project_query(self, query: Tensor, state: CallState) -> Tensor:
        self._check_length("query", query)
        # Without a projection, only the number of queries counts.
        return super().project_query(query, state) if "query" in self.projections else query[:, None, :, :1]

    def project_key_value(self, key: Tensor, value: Tensor, state: CallState) -> dict[str, Tensor]:
        self._check_length("value", value)
        if "key" in self.projections:
            return super().project_key_value(key, value, state)
        return {"value": self.project("value", value, state)}

    def _check_length(self, name, x):
        rule = (
            f"`{name}` must fit the {self.max_length} positions with logits: make the layer with a larger `max_length`."
        )
        check_length(ops.shape(x)[1], self.max_length, rule)

    def score(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        last = self.max_length - 1
        rows, columns = ops.minimum(state.query_positions, last), ops.minimum(state.key_positions, last)
        parts = {
            "dense": lambda: _dense_logits(query, self.dense_kernel, columns),
            "random": lambda: _random_logits(self.random_logits, rows, columns),
            "dot_product": lambda: super(SynthesizerAttention, self).score(query, entry, state),
        }
        logits = [ops.cast(parts[part](), self.compute_dtype) for part in self.mixture]
        if len(logits) > 1:
            shares = ops.cast(masked_softmax(self.mixture_logits), self.compute_dtype)
            logits = [shares[i] * part for i, part in enumerate(logits)]
        shape = (ops.shape(query)[0], self.num_heads, ops.shape(query)[2], ops.shape(entry["value"])[2])
        return ops.broadcast_to(sum(logits), shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, SynthesizerAttention)}


# Positions are taken along axis 0: along other axes TensorFlow has no gradient for an empty list of positions.


def _dense_logits(query, kernel, columns):
    kernel = take(ops.transpose(kernel, (2, 0, 1)), columns, axis=0)  # (m, h, k)
    return apply_head_kernels(ops.relu(query), ops.transpose(kernel, (1, 2, 0)))


def _random_logits(logits, rows, columns):
    logits = take(ops.swapaxes(logits, 0, 1), rows, axis=0)  # (n, h, max_length)
    logits = take(ops.transpose(logits, (2, 1, 0)), columns, axis=0)  # (m, h, n)
    return ops.expand_dims(ops.transpose(logits, (1, 2, 0)), 0)

from typing import Any

from keras import initializers, ops, saving

from keras_headattn._heads import mark_heads
from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import as_kernel_size, check_boolean, check_group, check_switch
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._cache import rows_of_logits
from keras_headattn.layers._differential_attention import normalize_heads
from keras_headattn.layers._intermediates import record
from keras_headattn.layers._state import Attended, State
from keras_headattn.ops._exchange_heads import exchange_in_groups
from keras_headattn.ops._map_convolution import convolve_each_head


@saving.register_keras_serializable(package="keras_headattn")
class MultiTokenAttention(Attention):
    """Attention whose logits are convolved over neighbouring queries and keys (MTA).

    With C the kernel of a head and QK its products, set to 0 where masked and in rows of other segments,

        logits[i, j] = sum over a, b of C[a, b] QK[i - (c_q - 1 - a), j + b - (c_k - 1) / 2]

    Mask padded queries, too, with `query_mask`. Kernels and mixing matrices start as the identity, and weights hold the
    difference: without `head_norm` and `output_gate` the layer starts as multi-head attention. Decode without gaps.

    Source: Golovneva et al. 2025, "Multi-token attention".

    Args:
        logits_kernel_size, weights_kernel_size: `(c_q, c_k)`, c_k odd, or `None` for no convolution.
        mix_logits, mix_weights: True to mix the logits of all heads; size `g` of groups that mix weights, or `None`.
        head_norm: True for an RMS norm of each head; `"depth"`: times `1 - lambda_0`, see `DifferentialAttention`.
        output_gate: True to multiply a head's features by sigmoids of its own projection; `"head"`: all by one sigmoid.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. `query_chunk_size` is an
            error. Returned weights are mixed. Kernels: `logits_kernel`, `logits_mixing_kernel`; likewise for `weights`.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(MultiTokenAttention(num_heads=4, key_dim=4)(x, x, use_causal_mask=True).shape)
    (2, 5, 16)
    """

    separates_segments = True
    group_argument = "mix_weights"

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        logits_kernel_size: tuple[int, int] | None = (6, 11),
        weights_kernel_size: tuple[int, int] | None = None,
        mix_logits: bool = False,
        mix_weights: int | None = None,
        head_norm: bool | str = False,
        output_gate: bool | str = False,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.logits_kernel_size = as_kernel_size("logits_kernel_size", logits_kernel_size)
        self.weights_kernel_size = as_kernel_size("weights_kernel_size", weights_kernel_size)
        self.mix_logits = check_boolean("mix_logits", mix_logits)
        self.mix_weights = mix_weights if mix_weights is None else check_group("mix_weights", mix_weights, num_heads)
        self.head_norm = check_switch("head_norm", head_norm, "depth")
        self.output_gate = check_switch("output_gate", output_gate, "head")

    @property
    def score_rows(self) -> int:
        return sum(size[0] - 1 for size in (self.logits_kernel_size, self.weights_kernel_size) if size)

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        h, g, e = self.num_heads, self.mix_weights, self.value_dim
        self.logits_kernel = self._convolution("logits", self.logits_kernel_size)
        self.logits_mixing_kernel = self._mixing("logits", (1, h, h)) if self.mix_logits else None
        self.weights_kernel = self._convolution("weights", self.weights_kernel_size)
        self.weights_mixing_kernel = self._mixing("weights", (h // g, g, g)) if g else None
        if self.head_norm:
            self.norm_scale = self.add_weight(name="norm_scale", shape=(e,), initializer="ones")
        if self.output_gate:
            shape = e, 1 if self.output_gate == "head" else e
            start = initializers.TruncatedNormal(stddev=(query_shape[-1] or 1) ** -0.5)
            self.output_gate_kernel = self.add_kernel("output_gate_kernel", shape, start)
            self.output_gate_bias = self._add_bias("output_gate_bias", shape[1:])

    def _convolution(self, name, size):
        if not size:
            return None
        kernel = self.add_kernel(f"{name}_kernel", (self.num_heads, *size), initializers.Zeros())
        mark_heads(kernel, 0, name, self.role)
        return kernel

    def _mixing(self, name, shape):
        return self.add_kernel(f"{name}_mixing_kernel", shape, initializers.Zeros())

    def attend(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Attended:
        cache, rows = state.cache, (None, None)
        if remembers := cache is not None and "logits" in cache:
            rows = ops.split(rows_of_logits(cache, self.score_rows), [(self.logits_kernel_size or [1])[0] - 1], axis=2)
        logits, kernels = self.biased_score(query, entry, state), (self.logits_kernel, self.logits_mixing_kernel)
        logits, of_logits = self._compose(logits, *kernels, rows[0], state)
        weights, kernels = self.weigh(logits, entry, state), (self.weights_kernel, self.weights_mixing_kernel)
        weights, of_weights = self._compose(weights, *kernels, rows[1], state)
        record(self, queries=query, logits=logits, weights=weights)
        cache = cache | {"logits": ops.concatenate([of_logits, of_weights], axis=2)} if remembers else cache
        return Attended(self.mix(self.drop(weights, state), entry, state), weights, state.previous_logits, cache)

    def _compose(self, maps, kernel, mixing, rows, state):
        """Returns logits or weights, convolved and mixed, and with `rows` also the rows that the next call reads."""
        segment_ids = state.masks and state.masks.segment_ids
        maps, rows = convolve_each_head(maps, kernel, state.mask, rows, state.query_positions, segment_ids)
        return exchange_in_groups(maps, mixing), rows

    def mix(self, weights: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        heads = super().mix(weights, entry, state)
        if self.head_norm:
            heads = normalize_heads(heads, self.norm_scale, self.depth or 0 if self.head_norm == "depth" else None)
        if self.output_gate:
            heads = heads * ops.sigmoid(ops.tensordot(heads, self.output_gate_kernel, axes=1) + self.output_gate_bias)
        return heads

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, MultiTokenAttention)}

"""The stages of attention, shared by every layer of this library."""

import dataclasses
import functools
import string
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import initializers, ops, regularizers

from keras_headattn._heads import ROLES, mark_heads
from keras_headattn._identifiers import arguments_of, check_seed, constraint, initializer, regularizer
from keras_headattn._random import FixedSeed
from keras_headattn._saved_quantization import SavedQuantization
from keras_headattn._types import Constraint, Initializer, Regularizer, Shape, Tensor
from keras_headattn._validation import (
    as_axes,
    as_shape,
    check_boolean,
    check_epsilon,
    check_index,
    check_number,
    check_positive,
    check_probability,
    check_switch,
)
from keras_headattn.layers._attention_axes import AttentionAxes
from keras_headattn.layers._attention_inputs import (
    CallMask,
    as_floats,
    call_mask,
    check_built,
    check_inputs,
    check_lengths,
    check_maps,
    check_segments,
    check_step,
    query_of_each_item,
)
from keras_headattn.layers._cache import empty_cache, write_entry, write_positions
from keras_headattn.layers._decoding_kernels import make_kernels, merge_by_kernel, project_together
from keras_headattn.layers._exclusion import check_exclusive, exclude_own_values
from keras_headattn.layers._head_regularization import as_head_regularizer, head_loss, kernel_regularizer, regularizes
from keras_headattn.layers._intermediates import is_capturing, record
from keras_headattn.layers._query_chunks import as_chunk_size, attend_in_chunks, rows_at_once
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.layers._state import Attended, CallState, State
from keras_headattn.layers._value_residual import check_value_residual, mix_first_values
from keras_headattn.ops import attend, masked_softmax, sliding_window_mask
from keras_headattn.ops._attention import head_product, key_product
from keras_headattn.ops._dense import rms_normalize
from keras_headattn.positions import Positions
from keras_headattn.positions._positions import copy_positions

# Private methods of `keras.layers.MultiHeadAttention` that subclasses override, and what to override here instead.
STAGE_OF = {
    "_compute_attention": "`attend`",
    "_masked_softmax": "`weigh`",
    "_compute_attention_mask": "`call`, with another `attention_mask`",
    "_compute_causal_mask": "`call`, with another `attention_mask`",
    "_compute_sliding_window_mask": "`call`, with another `attention_mask`",
    "_build_from_signature": "`build`",
    "_build_attention": "`build`",
    "_make_output_dense": "`make_output_dense`",
    "_get_common_kwargs_for_sublayer": "`build`",
}
QUERY_KEY_VALUE = "query", "key", "value"
ALONE = "evolve", "rows_interact", "score_rows"  # overridden only if rows of scores interact or are passed on


class Attention(Rematerialized, SavedQuantization):
    """Base class of attention layers: a sequence of stages, of which a variant overrides one or more.

    | stage | from | to |
    |---|---|---|
    | `project_query` | `(B, n, D)` | queries `(B, h, n, key_dim)` |
    | `project_key_value` | `(B, m, D_k)`, `(B, m, D_v)` | entry: a dictionary of tensors with a row for each key |
    | `apply_positions` | queries or keys of heads, positions | the same, normalised and rotated |
    | `before_attend` | queries, entry | entry, with what `attend` needs from all queries |
    | `attend` | queries, entry | all stages from `score` to `mix`, for variants that replace them as a whole |
    | `attend_at_once` | queries, entry | the same as one operation, `(B, h, n, value_dim)`, if the call `fuses` |
    | `biased_score` | queries, entry | logits of `score`, with soft cap and biases |
    | `score_bias` | queries | what is added to the logits, or `None` |
    | `score` | queries, entry | logits `(B, h, n, m)` |
    | `evolve` | logits | logits, those for the next block, the cache |
    | `weigh` | logits, entry | weights `(B, h, n, m)` |
    | `drop` | weights | weights after dropout |
    | `mix` | weights, entry | `(B, h, n, value_dim)` |
    | `merge` | heads | `(B, n, output_shape)` |

    Every stage also receives the `State`, before and after `attend` the `CallState`. Decoding caches the tensors of the
    entry by name, so a variant that needs one more tensor for each key just adds a name.

    Arguments, call arguments, weights and their order are those of `keras.layers.MultiHeadAttention`, so that either
    can replace the other. In addition:

    - A query that may attend to nothing gets weights of 0 and head outputs of 0, in every dtype and on
      every path (the output projection's bias is still added).
    - Masks passed as `key_mask`, `value_mask` and `query_mask` are used, with or without Keras masks.
    - Decoding with a cache, see `init_cache` and `project_cache`.
    - Relative positions of every kind, a bias for the logits, packed sequences, and logits passed from block to block.

    Args:
        num_heads: number of heads `h`.
        key_dim: width of a query and of a key of one head.
        value_dim: width of a value of one head. Defaults to `key_dim`.
        dropout: rate at which attention weights are dropped in training.
        use_bias: True for projections with biases; `"inputs"`: all but the output projection (Qwen 2).
        output_shape: integer or tuple, size of the last axis of the output. Defaults to the query's width.
        attention_axes: axes attended over; `None` means all but batch and features.
        sliding_window: a query attends only to keys less than this many positions away.
        flash_attention: as in `keras.layers.MultiHeadAttention`; ignored on TensorFlow.
        kernel_initializer, bias_initializer: of the four projections.
        kernel_regularizer, bias_regularizer, activity_regularizer: of the four projections.
        kernel_constraint, bias_constraint: of the four projections.
        use_gate: True to multiply head outputs, feature by feature, by a sigmoid of a projection of the query;
            `"head"`: by one such factor per head (Qiu et al. 2025, "Gated attention for large language models").
        seed: seed of the dropout.
        relative_positions: layer of `keras_headattn.positions` to copy, which rotates queries and keys or adds to the
            logits.
        head_regularizer: one of `keras_headattn.regularizers`, a loss that keeps the heads apart. It is not added while
            decoding with a cache.
        qk_norm: True to divide queries and keys by their root mean square, each with a learned scale (Henry et al.
            2020, "Query-key normalization", in the form of Qwen3); a float is the epsilon of that norm, with True 1e-6.
        attn_logits_soft_cap: bound `c` on the logits, which become `c * tanh(logits / c)` (Gemma 2). Default: `None`,
            no cap.
        use_sinks: True to give each head a learned logit that takes part in the softmax but attends to nothing (Xiao et
            al. 2024, "Efficient streaming language models with attention sinks", in the form of gpt-oss).
        exclusive: True to take from each head's output its part along the token's own value, for self-attention (Zhai
            2026, "Exclusive self attention"); `"head"`: a learned share of it for each head, tanh of a weight that
            starts at 0 (in the form of modded-nanogpt).
        value_residual: True to replace the values V of each block but the first by `l_1 V + l_2 V_1`, with V_1 those of
            the first block and learned numbers l_1 and l_2 that start at 0.5, the weight `value_lambdas` `(2,)`. For
            self-attention in models and in chains of blocks (Zhou et al. 2024, "Value residual learning", ResFormer).
        scale: factor of the queries in the logits. Defaults to `key_dim ** -0.5`; T5 uses 1.
        role: `"encoder"`, `"decoder"` (causal self-attention) or `"cross"` (attention of a decoder to an encoder).
            Default `None`: set by the block.
        depth: number of blocks below this one. Default `None`: set by the model.
        query_chunk_size: number of queries to process at a time. Only their map is in memory, and the backward pass
            computes it again, so memory grows with `n * query_chunk_size`. Output and gradients are the same up to
            rounding. If sizes are known, a chunk skips keys that a causal mask or a sliding window hides from it.
            `"auto"` uses chunks for maps above 256 MB or of unknown size. Calls that return, regularize or record the
            weights compute the whole map, as does the default, `None`. Not for layers that pass scores on or let one
            query's scores depend on other queries. (Rabe and Staats 2021, "Self-attention does not need O(n^2) memory")

    Call arguments:
        query: `(B, n, D)`, or more axes, see `attention_axes`. Without a cache, queries `(1, n, D)` are repeated for
            every item of `value`.
        value: `(B, m, D_v)`. Optional if a cache holds the keys and values.
        key: `(B, m, D_k)`. Defaults to `value`.
        query_mask, value_mask, key_mask: `(B, n)`, `(B, m)`, `(B, m)`; boolean, True = a real token; for inputs with
            more axes, all axes but the features. Default to the Keras masks of the inputs. With `index`, the masks of
            value and key are ignored, as they do not cover the rows already in the cache: pass an `attention_mask`.
        attention_mask: broadcasts to `(B, n, m)` or, with four axes, to `(B, h, n, m)`; boolean or 0/1, True = may
            attend. For inputs with more axes, it has the axes of the scores. Convert an additive mask first:
            `mask == 0`.
        return_attention_scores: returns the weights as well. Never changes the output.
        training: True to apply dropout.
        use_causal_mask: forbids attending to later positions.
        cache, index: state of step-by-step decoding, see `init_cache`.
        positions: integers `(n,)`, positions of the queries in their sequence, for `sliding_window` and relative
            positions. Default to `index`, `index + 1`, ..., or from 0 without an `index`.
        previous_logits: those that the previous block's layer returned, `(B, h, n, m)`, or `None`. If a layer of a
            `depth` above 0 needs them, `None` is a warning.
        return_logits: returns this layer's logits `(B, h, n, m)` as well, for the next block. Most layers pass on none
            of their own and return `previous_logits` unchanged.
        first_values: values of the first block's layer, `(B, h, n, value_dim)`, for layers with `value_residual`.
        return_first_values: returns the first block's values as well, for the next block.
        bias: added to the logits, after the soft cap and before heads are mixed; broadcasts to `(B, h, n, m)`, with
            the `score_heads` as `h`. To forbid attention, use `attention_mask`.
        segment_ids: integers `(B, n)`, for several sequences packed into one: tokens attend only to tokens with the
            same id. For self-attention without a cache.
        key_lengths: integers `(B,)`: only so many keys of a sequence are real, its first ones. Says what
            `key_mask=ops.arange(m) < key_lengths[:, None]` says, and lets kernels on JAX skip the others.
        kernels: from `decoding_kernels`, for decoding with a cache, if query, key and value are the same input or the
            cache holds the keys and values. Default `None`: the layer's own.

    Returns:
        Output `(B, n, D)`; then, if asked for, the weights `(B, h, n, m)` before dropout, the logits, and the first
        block's values; then, if `index` was given, the updated cache. A tuple if there is more than one.

    Raises:
        ValueError: naming the argument and what was received.
    """

    # Whether the layer has logits that go from block to block.
    carries_logits = False
    # Projections that never have a bias.
    without_bias: tuple[str, ...] = ()
    # Whether rows of scores influence later rows of their own segment only.
    separates_segments = False
    # Arguments that count heads; none if heads cannot be removed, see `analysis.prune_heads`.
    head_arguments: tuple[str, ...] = ("num_heads",)
    # Argument with the size of a group of heads, which can only be removed as a whole.
    group_argument: str | None = None
    # Number of heads that can only be removed together, if there is no such argument.
    heads_together = 1
    # Returns the initializer of a projection's kernel from its name, in place of `kernel_initializer`. Set by a block.
    initializer_of: Callable[..., keras.initializers.Initializer] | None = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in filter(lambda name: hasattr(cls, name), STAGE_OF):
            raise TypeError(
                f"`{name}` of `keras.layers.MultiHeadAttention` is never called here: override {STAGE_OF[name]} "
                f"(docs/replace_attention.md). Received: class {cls.__name__} with {name}"
            )

    # Shapes are traced, which is right for every variant, with scores and caches.
    compute_output_spec = keras.Operation.compute_output_spec

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | str = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer | None = None,
        bias_regularizer: Regularizer | None = None,
        activity_regularizer: Regularizer | None = None,
        kernel_constraint: Constraint | None = None,
        bias_constraint: Constraint | None = None,
        use_gate: bool | str = False,
        seed: int | None = None,
        relative_positions: Positions | None = None,
        head_regularizer: Regularizer | None = None,
        qk_norm: bool | float = False,
        attn_logits_soft_cap: float | None = None,
        use_sinks: bool = False,
        exclusive: bool | str = False,
        value_residual: bool = False,
        scale: float | None = None,
        role: str | None = None,
        depth: int | None = None,
        query_chunk_size: int | str | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = check_positive("num_heads", num_heads)
        self.key_dim = check_positive("key_dim", key_dim)
        self.value_dim = self.key_dim if value_dim is None else check_positive("value_dim", value_dim)
        self.sliding_window = None if sliding_window is None else check_positive("sliding_window", sliding_window)
        self.dropout = check_probability("dropout", dropout)
        self.use_bias = check_switch("use_bias", use_bias, "inputs")
        self.use_gate = check_switch("use_gate", use_gate, "head")
        self._output_shape = as_shape(output_shape)
        self.attention_axes = as_axes(attention_axes)
        if flash_attention and dropout:
            raise ValueError(
                "`flash_attention` cannot drop attention weights: give dropout=0. "
                f"Received: flash_attention={flash_attention}, dropout={dropout}"
            )
        self.flash_attention = None if flash_attention is None else check_boolean("flash_attention", flash_attention)
        self.kernel_initializer = initializer("kernel_initializer", kernel_initializer)
        self.bias_initializer = initializer("bias_initializer", bias_initializer)
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.bias_regularizer = regularizer("bias_regularizer", bias_regularizer)
        self._activity_regularizer = regularizer("activity_regularizer", activity_regularizer)
        self.kernel_constraint = constraint("kernel_constraint", kernel_constraint)
        self.bias_constraint = constraint("bias_constraint", bias_constraint)
        self.seed = check_seed("seed", seed)
        self.relative_positions = copy_positions(relative_positions, self.dtype_policy)
        self.head_regularizer = as_head_regularizer(head_regularizer)
        self.qk_norm = check_epsilon("qk_norm", qk_norm)
        self.attn_logits_soft_cap = (
            None
            if attn_logits_soft_cap is None
            else check_number("attn_logits_soft_cap", attn_logits_soft_cap, above=0)
        )
        self.use_sinks = check_boolean("use_sinks", use_sinks)
        self.exclusive = check_switch("exclusive", exclusive, "head")
        self.value_residual = check_boolean("value_residual", value_residual)
        self._scale = None if scale is None else check_number("scale", scale, above=0)
        if role not in (None, *ROLES):
            raise ValueError(f"`role` must be 'encoder', 'decoder', 'cross' or None. Received: role={role!r}")
        self.role = role
        self.depth = None if depth is None else check_index("depth", depth)
        self._has_warned = False
        rows_are_alone = all(getattr(type(self), x) is getattr(Attention, x) for x in ALONE)
        self.query_chunk_size = as_chunk_size(query_chunk_size, self, rows_are_alone)
        if not isinstance(self.compute_dtype, str) or "float" not in self.compute_dtype:
            raise ValueError(f"Attention needs a dtype of floats. Received: dtype={kwargs.get('dtype')!r}")
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    # Numbers of heads. A variant overrides those that differ.

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """Number of heads and width of one head, by projection; those not listed are not made."""
        return {
            "query": (self.num_heads, self.key_dim),
            "key": (self.num_heads, self.key_dim),
            "gate": (self.merged_heads, 1 if self.use_gate == "head" else self.value_dim),
            "value": (self.num_heads, self.value_dim),
        }

    @property
    def score_heads(self) -> int:
        """Number of heads of the logits that `score` returns."""
        return self.num_heads

    @property
    def score_dim(self) -> int:
        """Width of the queries and keys that `score` receives."""
        return self.key_dim

    @property
    def softmax_heads(self) -> int:
        """Number of heads in the softmax, in masks and in previous logits."""
        return self.num_heads

    @property
    def merged_heads(self) -> int:
        """Number of heads that `merge` receives."""
        return self.num_heads

    @property
    def scale(self) -> float:
        """Factor of the queries in the logits."""
        return self.key_dim**-0.5 if self._scale is None else self._scale

    @property
    def scores_are_products(self) -> bool:
        """True if logits are products of queries and keys, as rotary positions require."""
        return True

    @property
    def reads_logits(self) -> bool:
        """True if the layer combines its scores with those of the previous block."""
        return self.carries_logits

    @property
    def rows_interact(self) -> bool:
        """True if a row of scores influences later rows.

        Padded queries are then masked, and the cache is kept in position order.
        """
        return self.score_rows > 0

    @property
    def looks_ahead(self) -> bool:
        """True if a row of scores influences earlier rows, which rules out decoding step by step."""
        return False

    @property
    def score_rows(self) -> int:
        """Number of earlier rows of scores that a decoding step reads."""
        return 0

    # The call

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        cache: dict[str, Tensor] | None = None,
        index: int | Tensor | None = None,
        positions: Tensor | None = None,
        previous_logits: Tensor | None = None,
        return_logits: bool = False,
        bias: Tensor | None = None,
        segment_ids: Tensor | None = None,
        kernels: dict[str, Any] | None = None,
        key_lengths: Tensor | None = None,
        first_values: Tensor | None = None,
        return_first_values: bool = False,
    ) -> Any:
        inputs = CallState(
            query=query,
            key=value if key is None else key,
            value=value,
            bias=bias,
            query_positions=positions,
            previous_logits=previous_logits,
            cache=cache,
            index=index,
            training=training,
            needs_weights=return_attention_scores,
            kernels=kernels or {},
            first_values=first_values,
        )
        if self.depth and previous_logits is None:
            self.warn_of_missing_logits()
        masks = dict(query_mask=query_mask, value_mask=value_mask, key_mask=key_mask, attention_mask=attention_mask)
        state, unfolded_query = self._prepare(inputs, masks, use_causal_mask, segment_ids, key_lengths)

        state, entry = self._enter(state)
        attended = self._attend(self._queries(state), entry, state)
        heads = self.finish(attended.heads, state)
        output = self.merge(heads, state)

        self._add_regularization(unfolded_query, state, entry, heads, attended.weights, output)
        results = [self.axes.unfold(output, unfolded_query)]
        if return_attention_scores:
            results.append(self.axes.unfold_scores(attended.weights, unfolded_query, value))
        if return_logits:
            results.append(attended.logits)
        if return_first_values:
            results.append(state.first_values)
        if index is not None:
            results.append(attended.cache)
        return results[0] if len(results) == 1 else tuple(results)

    def warn_of_missing_logits(self) -> None:
        """Warns, once, that a layer that `reads_logits` of the block before got none."""
        if self.reads_logits and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"`previous_logits` must be given to {type(self).__name__}, plain attention without them: pass "
                "those of the layer before (from `return_logits=True`), to a block `state['logits']` of the one before "
                "(from `return_state=True`); a first block has `depth=0`. "
                f"Received: previous_logits=None for {self}",
                stacklevel=3,
            )

    def _prepare(self, inputs, masks, use_causal_mask, segment_ids, key_lengths):
        """Returns the `CallState`, with axes folded, and the query before its axes were folded."""
        check_inputs(self, inputs.query, inputs.value, inputs.key, inputs.cache, inputs.index, inputs.query_positions)
        check_segments(self, segment_ids, inputs.query, inputs.cache)
        unfolded_query = query_of_each_item(inputs.query, inputs.value)
        check_lengths(self, key_lengths, unfolded_query)
        query, key, value = as_floats(self.compute_dtype, unfolded_query, inputs.key, inputs.value)
        query, key, value = (self.axes.fold(x, side) for x, side in ((query, "query"), (key, "key"), (value, "key")))
        writes = inputs.cache is not None and value is not None
        offset = 0 if inputs.index is None else ops.cast(inputs.index, "int32")
        batch, n, _ = ops.shape(query)
        positions, cache = inputs.query_positions, inputs.cache
        positions = ops.arange(n, dtype="int32") + offset if positions is None else ops.cast(positions, "int32")
        if writes:
            cache = write_positions(cache, positions, inputs.index)
        m = ops.shape(key)[1] if cache is None else ops.shape(cache["value"])[2]
        sizes = (batch, n, m)
        check_maps(self, inputs, sizes)
        first_row = offset if writes else None
        masks = call_mask(self, unfolded_query, inputs.value, sizes, masks, use_causal_mask, first_row, segment_ids)
        masks.key_lengths = None if writes else key_lengths  # as other masks of keys
        key_positions = (cache or {}).get("positions", ops.arange(m, dtype="int32"))
        masks.rules += self._window_rules(positions, key_positions)
        masks.window = self.sliding_window if cache is None and inputs.query_positions is None else None
        needs_weights = inputs.needs_weights or is_capturing()
        needs_weights = needs_weights or cache is None and regularizes(self.head_regularizer, "weights")
        chunk_size = None if needs_weights else rows_at_once(self, *sizes)
        drops = chunk_size is not None and self.dropout and inputs.training
        state = dataclasses.replace(
            inputs,
            query=query,
            key=key,
            value=value,
            masks=masks,
            chunk_size=chunk_size,
            seed=self._dropout_layer.seed_generator.next() if drops else None,
            query_positions=positions,
            key_positions=key_positions,
            cache=cache,
            needs_weights=needs_weights,
            projected=project_together(self, "query", query, inputs.kernels),
        )
        return state, unfolded_query

    def _attend(self, query, entry, state):
        """Runs `attend`, on a chunk of queries at a time if there is a `chunk_size`."""
        entry, state = self.before_attend(query, entry, state)
        if state.chunk_size is None:
            return self.attend(query, entry, state)
        return Attended(attend_in_chunks(self, query, entry, state), None, state.previous_logits, state.cache)

    def _enter(self, state):
        """Returns the attended entry: that of the call, or the cache with the call's rows written to it."""
        if state.value is None:
            return state, state.cache
        positions = state.key_positions if state.cache is None else state.query_positions
        entry = self._entry(state.key, state.value, positions, state)
        if self.value_residual:
            state, entry = mix_first_values(self, state, entry)
        state = dataclasses.replace(state, own_values=entry["value"]) if self.exclusive else state
        if state.cache is None:
            return state, entry
        cache = write_entry(state.cache, entry, state.index)
        return dataclasses.replace(state, cache=cache), cache

    def _add_regularization(self, unfolded_query, state, entry, heads, weights, output):
        """Adds the losses of the head regularizer and of the activity regularizer."""
        if state.cache is None and regularizes(self.head_regularizer, "weights", "outputs", "values"):
            self.add_loss(head_loss(self.head_regularizer, weights, heads, entry["value"], state.mask))
        if self._activity_regularizer is not None:
            self._regularize_activities(unfolded_query, state, output)

    def _regularize_activities(self, unfolded_query, state, output):
        """Projects once more, and adds a loss for each projection, divided by the batch size of `unfolded_query`."""
        projected = [(self._query_dense, state.query)]
        if state.value is not None:
            projected += [(self._key_dense, state.key), (self._value_dense, state.value)]
        if self.use_gate:
            projected.append((self._gate_dense, state.query))
        activities = [dense(ops.reshape(x, (-1, x.shape[-1]))) for dense, x in projected if dense is not None]
        for activity in (*activities, output):
            loss = self._activity_regularizer(activity)
            self.add_loss(ops.divide_no_nan(loss, ops.cast(ops.shape(unfolded_query)[0], loss.dtype)))

    def adds_losses(self, training: bool | None = None) -> bool:
        """Returns True if a call without a cache adds losses, which must leave out padded queries.

        Args:
            training: as in the call.

        Returns:
            bool.
        """
        return self.head_regularizer is not None

    # The stages

    def project_query(self, query: Tensor, state: CallState) -> Tensor:
        """Projects the query for each head."""
        # (B, n, D) -> (B, h, n, key_dim)
        return self.project("query", query, state)

    def project_key_value(self, key: Tensor, value: Tensor, state: CallState) -> dict[str, Tensor]:
        """Makes the entry: tensors by name with the keys on axis 2, which a cache keeps."""
        # (B, m, D_k), (B, m, D_v) -> {"key": (B, h, m, key_dim), "value": (B, h, m, value_dim)}
        return {"key": self.project("key", key, state), "value": self.project("value", value, state)}

    def apply_positions(self, side: str, heads: Tensor, positions: Tensor) -> Tensor:
        """Normalises projected queries or keys, and rotates them by their positions.

        Args:
            side: `"query"` or `"key"`.
            heads: `(B, h, n, key_dim)`.
            positions: int `(n,)`.

        Returns:
            `(B, h, n, key_dim)`.
        """
        if self.qk_norm:
            scale = self.query_norm_scale if side == "query" else self.key_norm_scale
            heads = rms_normalize(heads, scale, epsilon=1e-6 if self.qk_norm is True else self.qk_norm)
        return heads if self.relative_positions is None else self.relative_positions.rotate(heads, positions)

    def before_attend(
        self, query: Tensor, entry: dict[str, Tensor], state: CallState
    ) -> tuple[dict[str, Tensor], CallState]:
        """Computes what `attend` needs from all queries at once, before they are split into chunks.

        Args:
            query: `(B, h, n, key_dim)`.
            entry: from `project_key_value`, or the cache.
            state: `CallState`. Further tensors with a row for each query go into its `rows`.

        Returns:
            Entry and state for `attend`.
        """
        return entry, state

    def attend(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Attended:
        """Runs the stages from `score` to `mix`.

        Plain dot-product attention is one fused operation if nothing reads the weights.
        """
        if self.fuses(state):
            return Attended(self.attend_at_once(query, entry, state), None, state.previous_logits, state.cache)
        logits, passed_on, cache = self.evolve(self.biased_score(query, entry, state), state)
        weights = self.weigh(logits, entry, state)
        record(self, queries=query, logits=logits, weights=weights)
        return Attended(self.mix(self.drop(weights, state), entry, state), weights, passed_on, cache)

    def fuses(self, state: State) -> bool:
        """Returns True if a call is one operation: nothing reads its weights, and many queries make it pay off.

        Args:
            state: the call's `State`.
        """
        is_decoding = state.cache is not None or bool(state.kernels)
        drops = bool(self.dropout and state.training)
        return self.is_fused and not (is_decoding or drops or state.needs_weights)

    def attend_at_once(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        """Runs the stages from `score` to `mix` as one operation."""
        # (B, h, n, key_dim), entry -> (B, h, n, value_dim)
        return attend(
            query,
            entry["key"],
            entry["value"],
            scale=self.scale,
            flash_attention=self.flash_attention,
            bias=self.score_bias(query, state),
            sinks=self.sinks if self.use_sinks else None,
            **(state.masks or CallMask()).for_kernels(),
        )

    def biased_score(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        """Computes logits with the soft cap, and adds the biases of positions and of the call."""
        # queries (B, h, n, key_dim), entry -> (B, h, n, m)
        logits = self.score(query, entry, state)
        if self.attn_logits_soft_cap is not None:
            logits = self.attn_logits_soft_cap * ops.tanh(logits / self.attn_logits_soft_cap)
        bias = self.score_bias(query, state)
        return logits if bias is None else logits + ops.cast(bias, logits.dtype)

    def score_bias(self, query: Tensor, state: State) -> Tensor | None:
        """Adds the bias of `relative_positions` to the call's `bias`.

        Args:
            query: `(B, h, n, key_dim)`.
            state: `State`.

        Returns:
            A tensor that broadcasts to `(B, h, n, m)`, or `None`.
        """
        position_bias = None
        if self.relative_positions is not None:
            position_bias = self.relative_positions.bias(query * self.scale, state.query_positions, state.key_positions)
        if position_bias is None or state.bias is None:
            return state.bias if position_bias is None else position_bias
        return position_bias + ops.cast(state.bias, position_bias.dtype)

    def score(self, query: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        """Computes the logits of each query and key."""
        # queries (B, h, n, key_dim), entry -> (B, h, n, m)
        return key_product(query * self.scale, entry["key"])

    def evolve(self, logits: Tensor, state: State) -> tuple[Tensor, Tensor | None, Any]:
        """Combines logits with the previous block's. Returns logits, those for the next block, and the cache."""
        # (B, h, n, m) -> (B, h, n, m)
        return logits, state.previous_logits, state.cache

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        """Computes the weights of the values: the softmax of the logits under the mask."""
        # (B, h, n, m) -> (B, h, n, m)
        return masked_softmax(logits, state.mask, self.sinks[:, None, None] if self.use_sinks else None)

    def drop(self, weights: Tensor, state: State) -> Tensor:
        """Applies dropout to the weights."""
        # (B, h, n, m) -> (B, h, n, m)
        if state.kept is not None:
            return weights * ops.cast(state.kept, weights.dtype)
        if state.seed is not None:
            return keras.random.dropout(weights, self.dropout, seed=FixedSeed(state.seed))
        return self._dropout_layer(weights, training=state.training)

    def mix(self, weights: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        """Sums the values of each head by their weights."""
        # weights (B, h, n, m), entry -> (B, h, n, value_dim)
        return head_product(weights, entry["value"])

    def finish(self, heads: Tensor, state: CallState) -> Tensor:
        """Makes the heads that `merge` gets of those that `attend` returns: `exclusive` and `use_gate` act here.

        Args:
            heads: `(B, h, n, value_dim)`.
            state: `CallState`.

        Returns:
            `(B, h, n, value_dim)`.
        """
        if self.exclusive:
            share = self.exclusion if self.exclusive == "head" else None
            heads = exclude_own_values(heads, state.own_values, share)
        return heads * self.project("gate", state.query, state) if self.use_gate else heads

    def merge(self, heads: Tensor, state: CallState) -> Tensor:
        """Projects the outputs of all heads."""
        # (B, h, n, value_dim) -> (B, n, output_shape)
        if "output" not in state.kernels:
            return self.apply_dense(self._output_dense, ops.swapaxes(heads, 1, 2))
        return merge_by_kernel(state.kernels["output"], heads, self._output_shape)

    # Parts of stages

    def project(self, name: str, x: Tensor, state: CallState) -> Tensor:
        """Projects inputs for each head.

        Args:
            name: one of `projections`.
            x: `(B, n, D)`.
            state: `CallState`.

        Returns:
            `(B, heads, n, width)`.
        """
        if name in state.projected:
            return state.projected[name]
        return ops.swapaxes(self.apply_dense(getattr(self, f"_{name}_dense"), x), 1, 2)

    def apply_dense(self, dense: keras.layers.EinsumDense, x: Tensor) -> Tensor:
        """Applies a projection with batch and length as one axis: one product, forward and backward.

        With two axes, the gradient of the kernel would be a sum of one product for each item of the batch.

        Args:
            dense: `keras.layers.EinsumDense` of two axes.
            x: `(B, n, ...)`.

        Returns:
            `(B, n, ...)`.
        """
        batch, length = ops.shape(x)[:2]
        y = dense(ops.reshape(x, (-1, *x.shape[2:])))  # (B * n, ...)
        return ops.reshape(y, (batch, length, *y.shape[1:]))

    @property
    def fused_class(self) -> type:
        """The class whose stages `attend_at_once` replaces. A layer that overrides one below it is not fused."""
        return Attention

    @property
    def is_fused(self) -> bool:
        """True if `attend_at_once` replaces `score` to `mix`."""
        stages = ("score", "biased_score", "evolve", "weigh", "drop", "mix")
        plain = all(getattr(type(self), stage) is getattr(self.fused_class, stage) for stage in stages)
        return plain and self.attn_logits_soft_cap is None

    def _queries(self, state):
        """Returns the queries of each head, normalised and rotated: `(B, h, n, key_dim)`."""
        queries = self.project_query(state.query, state)
        return self.apply_positions("query", queries, state.query_positions) if "query" in self.projections else queries

    def _entry(self, key, value, positions, state):
        """Makes the entry of keys at these positions."""
        entry = self.project_key_value(key, value, dataclasses.replace(state, key_positions=positions))
        return entry | {"key": self.apply_positions("key", entry["key"], positions)} if "key" in entry else entry

    def _window_rules(self, positions, key_positions):
        """Returns the rule of the sliding window for a `CallMask`, if there is one."""
        if self.sliding_window is None:
            return []
        return [(functools.partial(sliding_window_mask, window=self.sliding_window), positions, key_positions)]

    # Building

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
        previous_logits_shape: Shape | None = None,
    ) -> None:
        if value_shape is None:
            raise ValueError("The first call of an attention layer needs `value`. Received: value=None")
        key_shape = value_shape if key_shape is None else key_shape
        if tuple(value_shape[1:-1]) != tuple(key_shape[1:-1]):
            raise ValueError(
                "`key` and `value` must have the same axes except the last. "
                f"Received: key of shape {tuple(key_shape)} and value of shape {tuple(value_shape)}"
            )
        self._check_positions()
        for name, shape in (("query", query_shape), ("value", value_shape), ("key", key_shape)):
            if shape[-1] is None:
                raise ValueError(
                    f"The width of `{name}`, its last axis, must be known. Received: {name} of shape {tuple(shape)}"
                )
        self.axes = AttentionAxes(len(query_shape), len(value_shape), self.attention_axes)
        self.widths: dict[str, Any] = {"query": query_shape[-1], "value": value_shape[-1], "key": key_shape[-1]}
        self.check_widths()
        check_value_residual(self)
        check_exclusive(self, all(getattr(type(self), x) is getattr(Attention, x) for x in ("attend", "mix")))
        # The attribute names are the stock layer's, so that a file of its weights loads here.
        self._query_dense = self._projection("query", query_shape[-1])
        self._key_dense = self._projection("key", key_shape[-1])
        if self.use_gate:
            self._gate_dense = self._projection("gate", query_shape[-1])
        self._value_dense = self._projection("value", value_shape[-1])
        self._output_dense = self.make_output_dense(query_shape)
        if self.qk_norm:
            shape = (self.score_dim,)
            self.query_norm_scale = self.add_weight(name="query_norm_scale", shape=shape, initializer="ones")
            self.key_norm_scale = self.add_weight(name="key_norm_scale", shape=shape, initializer="ones")
        if self.use_sinks:
            initializer = initializers.RandomNormal(stddev=0.02)
            self.sinks = self.add_weight(name="sinks", shape=(self.softmax_heads,), initializer=initializer)
        if self.exclusive == "head":
            self.exclusion = self.add_weight(name="exclusion", shape=(self.merged_heads,), initializer="zeros")
        if self.value_residual and self.depth:
            half = initializers.Constant(0.5)
            self.value_lambdas = self.add_weight(name="value_lambdas", shape=(2,), initializer=half)
        if self.relative_positions is not None and not self.relative_positions.built:
            self.relative_positions.build((None, self.score_heads, None, self.score_dim))
        self.build_heads(query_shape, value_shape, previous_logits_shape)

    def check_widths(self) -> None:
        """Checks `widths`, those of the inputs by name, before there are weights."""

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        """Makes the weights of a variant, after those of all layers; `widths` and `axes` are known by then.

        Args:
            query_shape, value_shape: of the inputs.
            previous_logits_shape: of `previous_logits`, or `None`.
        """

    def _check_positions(self):
        if self.relative_positions is not None and self.relative_positions.rotates and not self.scores_are_products:
            raise ValueError(
                "Positions that rotate queries and keys need logits that are products of both: use positions that add "
                f"to the logits, such as ALiBiPositions(). Received: {self.relative_positions} for {self}"
            )

    def make_output_dense(self, query_shape: Shape) -> keras.layers.EinsumDense | None:
        """Makes the output projection.

        Args:
            query_shape: `(B, n, D)`, or more axes.

        Returns:
            Built layer from `(rows, h, value_dim)` to `(rows, output_shape)`; `None` in a layer that has none.
        """
        output_shape = self._output_shape or (query_shape[-1],)
        letters = string.ascii_lowercase[3 : 3 + len(output_shape)]
        bias_axes = letters if self.use_bias is True else None
        equation, shape = f"abc,bc{letters}->a{letters}", (self.merged_heads, self.value_dim)
        return self._dense("attention_output", equation, output_shape, bias_axes, shape, head_axis=0)

    def _projection(self, name, width):
        if name not in self.projections:
            return None
        bias_axes = None if name in self.without_bias else "cd"
        head_axis = 1 if name != "gate" or self.use_gate == "head" else None
        return self._dense(name, "ab,bcd->acd", self.projections[name], bias_axes, (width,), head_axis)

    def _dense(self, name, equation, output_shape, bias_axes, input_shape, head_axis):
        base_regularizer = self.kernel_regularizer
        dense = keras.layers.EinsumDense(
            equation,
            output_shape=output_shape,
            activation="sigmoid" if name == "gate" else None,
            bias_axes=bias_axes if self.use_bias else None,
            # Fresh initializers: one without a seed gives the same numbers each time it is used.
            kernel_initializer=self.initializer_of(name) if self.initializer_of else self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            kernel_regularizer=kernel_regularizer(base_regularizer, self.head_regularizer)
            if name in QUERY_KEY_VALUE
            else base_regularizer,
            bias_regularizer=self.bias_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((None, *input_shape))
        if head_axis is not None and dense.quantization_mode is None:
            mark_heads(dense.kernel, head_axis, name, self.role)
        return dense

    def add_kernel(
        self,
        name: str,
        shape: Sequence[int],
        initializer: keras.initializers.Initializer | Callable[..., Tensor] | str | None = None,
    ) -> keras.Variable:
        """Adds a weight with the layer's kernel initializer, regularizer and constraint.

        Args:
            name: of the weight.
            shape: tuple of integers.
            initializer: in place of `kernel_initializer`.

        Returns:
            `keras.Variable`.
        """
        initializer = initializers.get(initializer or self.kernel_initializer)
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=initializer.clone() if hasattr(initializer, "clone") else initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def _add_bias(self, name, shape):
        """Adds a weight with the layer's bias initializer, regularizer and constraint."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=self.bias_initializer.clone(),
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    @property
    def query_dense(self) -> keras.layers.EinsumDense | None:
        return self._query_dense

    @property
    def key_dense(self) -> keras.layers.EinsumDense | None:
        return self._key_dense

    @property
    def value_dense(self) -> keras.layers.EinsumDense | None:
        return self._value_dense

    @property
    def output_dense(self) -> keras.layers.EinsumDense | None:
        return self._output_dense

    # Decoding step by step

    @property
    def keeps_positions(self) -> bool:
        """True if a cache stores the position of each of its rows."""
        has_bias = self.relative_positions is not None and self.relative_positions.has_bias
        return self.sliding_window is not None or has_bias

    def init_cache(
        self, batch_size: int | Tensor, max_length: int, kernels: dict[str, Any] | None = None
    ) -> dict[str, Tensor]:
        """Makes an empty cache for self-attention over at most `max_length` positions.

        Decode with `output, cache = layer(x, x, cache=cache, index=i, use_causal_mask=True)`, where the
        rows of `x` are positions `i, i + 1, ...`. The outputs equal those of the whole sequence at once. With an
        `attention_mask` `(B, n, max_length)` in place of the causal mask, a query may attend to any row written so far.

        Args:
            batch_size: number of sequences `B`; an integer or a scalar tensor.
            max_length: number of rows, positions of all steps together.
            kernels: from `decoding_kernels`, if the `role` is not `"cross"`. Default `None`: the layer's own.

        Returns:
            Dictionary of zeros in the form of `project_key_value`, such as `"key"` `(B, h, max_length, key_dim)` and
            `"value"` `(B, h, max_length, value_dim)`; also `"positions"` `(max_length,)` if the layer
            `keeps_positions`, and `"logits"`, the last rows of them, if rows influence later ones.

        Raises:
            ValueError: if the layer is not built, or a size is not positive.
        """
        check_built(self, "init_cache")
        if isinstance(max_length, int):
            check_positive("max_length", max_length)
        key, value = (ops.zeros((1, 1, self.widths[side]), self.compute_dtype) for side in ("key", "value"))
        projected = project_together(self, "query", key, kernels)
        entry = self._entry(key, value, ops.zeros((1,), "int32"), CallState(key=key, projected=projected))
        cache = empty_cache(entry, batch_size, max_length)
        if self.keeps_positions:
            cache["positions"] = ops.zeros((max_length,), "int32")
        return self._with_logits(cache)

    def step(
        self,
        query: Tensor,
        cache: dict[str, Tensor],
        mask: Tensor | None = None,
        position: int | Tensor = 0,
        kept: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Attends to a cache with one query for each item, for custom decoders such as a recurrent one.

        It computes `layer(query[:, None], cache=cache, key_mask=mask)` without the checks and the dropout of a call,
        so it can run in a loop inside a graph. It writes no keys or values: for self-attention, calls do.

        Args:
            query: `(B, D)`.
            cache: from `project_cache`, `init_cache`, a call, or the previous step.
            mask: boolean, `(B, m)` or with heads `(B, h, m)`, True = may attend. Default `None`: to all.
            position: integer or scalar tensor, position of the query in its sequence. Used by relative positions,
                `sliding_window`, and layers whose rows of scores influence later ones.
            kept: factors that replace dropout of the weights, broadcast to `(B, h, m)`. Draw them for all steps before
                the loop. Default `None`: no dropout.

        Returns:
            Output `(B, output_shape)`, and the cache for the next step, which changes only if rows of scores influence
            later ones.

        Raises:
            ValueError: if the layer is not built, or for a query that is not `(B, D)`.

        >>> from keras_headattn.layers import MultiHeadAttention
        >>> layer, memory = MultiHeadAttention(num_heads=4, key_dim=4), keras.random.normal((2, 7, 16))
        >>> layer.build((2, 1, 16), memory.shape)
        >>> output, cache = layer.step(memory[:, 0], layer.project_cache(memory))
        >>> tuple(output.shape)
        (2, 16)
        """
        check_built(self, "step")
        check_step(self, query, mask, cache["value"].shape[2])
        (query,) = as_floats(self.compute_dtype, query)
        positions = ops.reshape(ops.cast(position, "int32"), (1,))
        key_positions = cache.get("positions", ops.arange(ops.shape(cache["value"])[2], dtype="int32"))
        if mask is not None:
            mask = mask[:, None, None] if len(mask.shape) == 2 else mask[:, :, None]  # (B, h, 1, m)
        state = CallState(
            query=query[:, None],
            masks=CallMask([] if mask is None else [mask], self._window_rules(positions, key_positions)),
            query_positions=positions,
            key_positions=key_positions,
            cache=cache,
            training=False,
            kept=None if kept is None else ops.expand_dims(kept, -2),
        )
        attended = self._attend(self._queries(state), cache, state)
        output = self.merge(self.finish(attended.heads, state), state)[:, 0]
        output = ops.cast(output, self.compute_dtype)  # wider if no layer that is being called sets its precision
        return output, attended.cache

    def decoding_kernels(self) -> dict[str, Any]:
        """Makes the call argument `kernels` from the weights, once for all steps of decoding with a cache.

        The kernels have two axes, and those of the same input are concatenated, so that a step takes few products.

        Returns:
            Dictionary of `"query"`, applied to the query; `"memory"`, applied to keys and values, if the `role` is
            `"cross"`; and `"output"`. Each is a dictionary of `"kernel"` and, with biases, `"bias"`. Empty for
            quantised weights.
        """
        check_built(self, "decoding_kernels")
        return make_kernels(self)

    def projection_weights(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Returns the weights of a projection, for `decoding_kernels`.

        Args:
            name: one of `projections`.

        Returns:
            Kernel `(D, heads, width)` and bias `(heads, width)`, or `None`.
        """
        dense = getattr(self, f"_{name}_dense")
        return dense.kernel, dense.bias

    def project_cache(
        self, value: Tensor, key: Tensor | None = None, kernels: dict[str, Any] | None = None
    ) -> dict[str, Tensor]:
        """Makes a cache of all of `value`, for cross-attention: `layer(x, cache=cache, key_mask=...)`.

        Args:
            value: `(B, m, D_v)`.
            key: `(B, m, D_k)`. Defaults to `value`.
            kernels: from `decoding_kernels`, if the `role` is `"cross"` and `key` is not given. Default `None`: the
                layer's own.

        Returns:
            Dictionary as from `project_key_value`, such as `"key"` `(B, h, m, key_dim)` and `"value"`
            `(B, h, m, value_dim)`.

        Raises:
            ValueError: if the layer is not built.
        """
        check_built(self, "project_cache")
        value, key = as_floats(self.compute_dtype, value, value if key is None else key)
        value, key = self.axes.fold(value, "key"), self.axes.fold(key, "key")
        positions = ops.arange(ops.shape(value)[1], dtype="int32")
        projected = project_together(self, "memory", value, kernels)
        state = CallState(key=key, key_positions=positions, projected=projected)
        return self._with_logits(self._entry(key, value, positions, state))

    def grow_cache(self, cache: dict[str, Tensor], max_length: int) -> dict[str, Tensor]:
        """Returns a cache of self-attention with room for more positions.

        Args:
            cache: from `init_cache` or a call.
            max_length: new number of rows, an integer, at least the present one.

        Returns:
            Cache of the same structure.
        """
        axes = {"positions": 0, "logits": 3}
        return {name: _pad(x, axes.get(name, 2), max_length) for name, x in cache.items()}

    def reorder_cache(self, cache: dict[str, Tensor], rows: Tensor, same_keys: bool = False) -> dict[str, Tensor]:
        """Returns the cache of a batch whose items are `rows` of this one.

        Args:
            cache: from `init_cache`, `project_cache` or a call.
            rows: integers `(B,)`.
            same_keys: True if items only replace items with the same keys, as hypotheses of one source do in
                cross-attention.

        Returns:
            Cache of the same structure.
        """
        kept = cache.keys() - {"logits"} if same_keys else {"positions"}
        return {name: x if name in kept else ops.take(x, rows, axis=0) for name, x in cache.items()}

    def _with_logits(self, cache):
        """Returns the cache with the last rows of the logits, which the next row reads."""
        if not self.score_rows:
            return cache
        if self.looks_ahead:
            raise ValueError(
                "A layer that reads later rows of the logits cannot decode step by step: it needs role 'decoder' or "
                f"'cross'. Received: role={self.role!r}"
            )
        batch, _, length, _ = ops.shape(cache["value"])
        return cache | {"logits": ops.zeros((batch, self.softmax_heads, self.score_rows, length), self.compute_dtype)}

    # Shapes and configuration

    def compute_output_shape(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
        previous_logits_shape: Shape | None = None,
    ) -> Shape:
        batch = query_shape[0] if value_shape is None or query_shape[0] != 1 else value_shape[0]
        return (batch, *query_shape[1:-1], *(self._output_shape or query_shape[-1:]))

    def compute_logits_shape(
        self, query_shape: Shape, value_shape: Shape | None = None, previous_logits_shape: Shape | None = None
    ) -> Shape | None:
        """Returns the shape of the logits that the layer passes on, for `build` of the next block's layer.

        Args:
            query_shape, value_shape: of the inputs. `value_shape` defaults to `query_shape`.
            previous_logits_shape: of `previous_logits`, or `None`.

        Returns:
            `(B, h, n, m)`, with `None` for unknown sizes; `None` if there are none.
        """
        if not self.carries_logits:
            return previous_logits_shape
        value_shape = query_shape if value_shape is None else value_shape
        axes = AttentionAxes(len(query_shape), len(value_shape), self.attention_axes)
        lengths = axes.length(query_shape, "query"), axes.length(value_shape, "key")
        return (query_shape[0] if axes.trivial else None, self.softmax_heads, *lengths)

    def get_config(self) -> dict[str, Any]:
        hidden = {"output_shape": self._output_shape, "scale": self._scale}
        hidden["activity_regularizer"] = regularizers.serialize(self._activity_regularizer)
        return {**super().get_config(), **arguments_of(self, Attention, *hidden), **hidden}


def _pad(x, axis, length):
    """Pads the end of an axis of known size with zeros."""
    if length < x.shape[axis]:
        raise ValueError(f"`max_length` must be at least the {x.shape[axis]} rows of the cache. Received: {length}")
    return ops.pad(x, [(0, length - size if i == axis else 0) for i, size in enumerate(x.shape)])

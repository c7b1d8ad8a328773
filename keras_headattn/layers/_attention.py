"""The five stages of attention that every layer of this library shares."""

import dataclasses
import string
from typing import Any

import keras
from keras import constraints, initializers, ops, regularizers

from keras_headattn import _heads
from keras_headattn._validation import as_axes, as_shape, check_inputs, positive, rate
from keras_headattn.layers._attention_axes import AttentionAxes
from keras_headattn.layers._cached_decoding import CachedDecoding
from keras_headattn.layers._head_regularization import as_head_regularizer, head_loss, mark_heads, regularizes
from keras_headattn.ops import attend, causal_mask, combine_masks, masked_softmax, sliding_window_mask
from keras_headattn.positions._relative import as_template, make_relative_positions


@dataclasses.dataclass(frozen=True)
class State:
    """What the stages between projection and merging need besides queries, keys and values.

    Args:
        query, key: what was given, `(B, n, D)` and `(B, m, D_k)`; `key` is `None` where a cache alone is attended to.
        mask: boolean, broadcasts to `(B, h, n, m)`, True = may attend; or `None`.
        query_positions, key_positions: integers `(n,)` and `(m,)`.
        previous_map, cache, training: see `Attention`.
        return_attention_scores: whether the weights are needed, by the caller or by the head regularizer.
    """

    query: Any
    key: Any
    mask: Any
    query_positions: Any
    key_positions: Any
    previous_map: Any
    cache: Any
    training: bool | None
    return_attention_scores: bool


class Attention(CachedDecoding, keras.layers.Layer):
    """Base class: attention as five stages, of which a variant replaces one.

    | stage | from | to |
    |---|---|---|
    | `project_query`, `project_key_value` | `(B, n, D)` | `(B, h, n, key_dim)`, `(B, h, m, value_dim)` |
    | `score`, `evolve` | queries, keys | logits `(B, h, n, m)` |
    | `weigh` | logits, mask | weights `(B, h, n, m)` |
    | `mix` | weights, values | `(B, h, n, value_dim)` |
    | `merge` | heads | `(B, n, output_shape)` |

    Arguments, call arguments, weights and their order are those of
    `keras.layers.MultiHeadAttention`, so that one can stand in for the other. Three things are added:

    - A query that may attend to nothing gets weights of 0 and head outputs of 0, in every dtype and on
      every path (the output projection's bias is still added).
    - `key_mask`, `value_mask` and `query_mask` given by hand are used, with or without Keras masks.
    - Decoding with a cache, see `init_cache` and `project_cache`.
    - Logits that depend on relative positions, and a map of logits that goes from block to block.

    Args:
        num_heads: number of heads `h`.
        key_dim: width of a query and of a key of one head.
        value_dim: width of a value of one head. Defaults to `key_dim`.
        dropout: rate at which attention weights are dropped in training.
        use_bias: whether the projections have biases.
        output_shape: integer or tuple, what the last axis of the query becomes. Defaults to the query's width.
        attention_axes: axes attended over; `None` means all but batch and features.
        sliding_window: a query attends only to keys less than this many positions away.
        flash_attention: as in `keras.layers.MultiHeadAttention`; without effect on TensorFlow.
        kernel_initializer, bias_initializer: of the four projections.
        kernel_regularizer, bias_regularizer, activity_regularizer: of the four projections.
        kernel_constraint, bias_constraint: of the four projections.
        use_gate: multiplies the head outputs by a sigmoid of a projection of the query.
        seed: seed of the dropout.
        relative_positions: `RelativePositions` or `RelativePositions2D`, whose configuration is copied.
        head_regularizer: one of `keras_headattn.regularizers`, a loss that keeps the heads apart. There is
            none while decoding with a cache.

    Call arguments:
        query: `(B, n, D)`, or more axes, see `attention_axes`.
        value: `(B, m, D_v)`. May be left out when a cache holds what is attended to.
        key: `(B, m, D_k)`. Defaults to `value`.
        query_mask, value_mask, key_mask: `(B, n)`, `(B, m)`, `(B, m)`; boolean, True = a real token.
            Taken from the Keras masks of the inputs if not given. With `index`, the masks of value and key say
            nothing about rows already in the cache and are not used: give an `attention_mask`.
        attention_mask: `(B, n, m)`, or anything that broadcasts to it, or to `(B, h, n, m)` with four
            axes; boolean or 0/1, True = may attend.
        return_attention_scores: returns the weights as well. Never changes the output.
        training: whether dropout is active.
        use_causal_mask: forbids attending to later positions.
        cache, index: state of step-by-step decoding, see `init_cache`.
        positions: integers `(n,)`, where the queries stand in their sequence, if not in the rows `index`,
            `index + 1`, ... of the cache. What is relative to a position, as `sliding_window`, uses them.
        previous_map: what the layer of the block before returned as its map, `(B, h, n, m)`, or `None`.
        return_map: returns this layer's map as well, for the next block: logits `(B, h, n, m)`. A layer that
            carries none, which most are, returns the `previous_map` it was given.

    Returns:
        Output `(B, n, D)`; then, if asked for, the weights `(B, h, n, m)` before dropout; then, with
        `return_map`, the map; then, if `index` was given, the updated cache. A tuple where there is more than one.

    Raises:
        ValueError: naming the argument and what was received.
    """

    # Whether the layer has a map that goes from block to block.
    carries_map = False
    # Whether a row of the map has a part in the rows after it: padded queries must then be masked, and rows of a
    # cache be in the order of positions.
    rows_interact = False

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        attention_axes=None,
        sliding_window=None,
        flash_attention=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        use_gate=False,
        seed=None,
        relative_positions=None,
        head_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = positive("num_heads", num_heads)
        self.key_dim = positive("key_dim", key_dim)
        self.value_dim = self.key_dim if value_dim is None else positive("value_dim", value_dim)
        self.sliding_window = None if sliding_window is None else positive("sliding_window", sliding_window)
        self.dropout = rate("dropout", dropout)
        self.use_bias = use_bias
        self.use_gate = use_gate
        self._output_shape = as_shape(output_shape)
        self.attention_axes = as_axes(attention_axes)
        self.flash_attention = flash_attention
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self._activity_regularizer = regularizers.get(activity_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.seed = seed
        self._relative_positions = as_template(relative_positions)
        self.relative_positions = None  # the layer itself, after `build`
        self.head_regularizer = as_head_regularizer(head_regularizer)
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    # Building

    def build(self, query_shape, value_shape=None, key_shape=None, previous_map_shape=None):
        if value_shape is None:
            raise ValueError("The first call of an attention layer needs `value`. Received: value=None")
        key_shape = value_shape if key_shape is None else key_shape
        if tuple(value_shape[1:-1]) != tuple(key_shape[1:-1]):
            raise ValueError(
                "`key` and `value` must have the same axes except the last. "
                f"Received: key of shape {tuple(key_shape)} and value of shape {tuple(value_shape)}"
            )
        self._axes = AttentionAxes(len(query_shape), len(value_shape), self.attention_axes)
        self._widths = {"query": query_shape[-1], "value": value_shape[-1], "key": key_shape[-1]}
        # The attribute names are the stock layer's, so that a file of its weights loads here.
        self._query_dense = self._projection("query", query_shape[-1], self.query_heads, self.key_dim)
        self._key_dense = self._projection("key", key_shape[-1], self.key_heads, self.key_dim)
        if self.use_gate:
            self._gate_dense = self._projection("gate", query_shape[-1], self.merged_heads, self.value_dim, "sigmoid")
        self._value_dense = self._projection("value", value_shape[-1], self.value_heads, self.value_dim)
        for dense in (self._query_dense, self._key_dense, self._value_dense):
            if dense is not None and dense.quantization_mode is None:
                mark_heads(dense.kernel, self.head_regularizer)
        output_shape = self._output_shape or (query_shape[-1],)
        letters = string.ascii_lowercase[3 : 3 + len(output_shape)]
        self._output_dense = keras.layers.EinsumDense(
            f"abc,bc{letters}->a{letters}",
            output_shape=output_shape,
            bias_axes=letters if self.use_bias else None,
            name="attention_output",
            **self._projection_arguments(),
        )
        self._output_dense.build((None, self.merged_heads, self.value_dim))
        if self._output_dense.quantization_mode is None:
            _heads.mark_heads(self._output_dense.kernel, 0, "attention_output")
        if self._relative_positions is not None:
            self.relative_positions = make_relative_positions(self._relative_positions, self.dtype_policy)
            self.relative_positions.build((None, self.query_heads, None, self.key_dim))
        self.built = True

    # How many heads each side has; a variant with several counts overrides what differs.

    @property
    def query_heads(self):
        return self.num_heads

    key_heads = value_heads = softmax_heads = merged_heads = query_heads

    def _projection(self, name, width, heads, head_width, activation=None):
        dense = keras.layers.EinsumDense(
            "ab,bcd->acd",
            output_shape=(heads, head_width),
            bias_axes="cd" if self.use_bias else None,
            activation=activation,
            name=name,
            **self._projection_arguments(),
        )
        dense.build((None, width))
        return dense

    def _projection_arguments(self):
        # Fresh initializers: one without a seed gives the same numbers each time it is used.
        return dict(
            kernel_initializer=_clone(self.kernel_initializer),
            bias_initializer=_clone(self.bias_initializer),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=self.dtype_policy,
        )

    query_dense = property(lambda self: self._query_dense)
    key_dense = property(lambda self: self._key_dense)
    value_dense = property(lambda self: self._value_dense)
    output_dense = property(lambda self: self._output_dense)

    def adds_losses(self, training=None):
        """Whether a call without a cache adds losses, in which padded queries must not count.

        Args:
            training: as of the call.

        Returns:
            bool.
        """
        return self.head_regularizer is not None

    # The five stages

    def project_query(self, query):
        """Queries of each head.

        Args:
            query: `(B, n, D)`.

        Returns:
            `(B, h, n, key_dim)`.
        """
        return ops.swapaxes(self._apply(self._query_dense, query), 1, 2)

    def project_key_value(self, key, value):
        """Keys and values of each head.

        Args:
            key: `(B, m, D_k)`.
            value: `(B, m, D_v)`.

        Returns:
            `(B, h, m, key_dim)` and `(B, h, m, value_dim)`.
        """
        keys, values = self._apply(self._key_dense, key), self._apply(self._value_dense, value)
        return ops.swapaxes(keys, 1, 2), ops.swapaxes(values, 1, 2)

    def score(self, query, key, query_positions, key_positions):
        """Logits, how well each key suits each query.

        Args:
            query: `(B, h, n, key_dim)`.
            key: `(B, h, m, key_dim)`.
            query_positions, key_positions: integers `(n,)` and `(m,)`.

        Returns:
            `(B, h, n, m)`.
        """
        return ops.matmul(query * self.scale, ops.swapaxes(key, -1, -2))

    def evolve(self, logits, mask, previous_map, cache, query_positions):
        """Logits that take account of the map of the block before.

        Args:
            logits: `(B, h, n, m)`.
            mask: boolean, broadcasts to `(B, h, n, m)`, True = may attend; or `None`.
            previous_map: `(B, h, n, m)` or `None`.
            cache: of decoding, or `None`.
            query_positions: `(n,)`.

        Returns:
            Logits `(B, h, n, m)`, the map for the next block, and the cache.
        """
        return logits, previous_map, cache

    def weigh(self, logits, mask):
        """Weights of the values.

        Args:
            logits: `(B, h, n, m)`.
            mask: boolean, broadcasts to `(B, h, n, m)`, True = may attend; or `None`.

        Returns:
            `(B, h, n, m)`.
        """
        return masked_softmax(logits, mask)

    def mix(self, weights, value):
        """Head outputs.

        Args:
            weights: `(B, h, n, m)`.
            value: `(B, h, m, value_dim)`.

        Returns:
            `(B, h, n, value_dim)`.
        """
        return ops.matmul(weights, value)

    def merge(self, heads):
        """The output of all heads.

        Args:
            heads: `(B, h, n, value_dim)`.

        Returns:
            `(B, n, output_shape)`.
        """
        return self._apply(self._output_dense, ops.swapaxes(heads, 1, 2))

    def _apply(self, dense, x):
        """A projection of `x` `(B, n, ...)`, with batch and length as one axis: one product, forward and backward.

        On two axes the gradient of the kernel is one product an item of the batch, and their sum.
        """
        batch, length = ops.shape(x)[:2]
        y = dense(ops.reshape(x, (-1, *x.shape[2:])))
        return ops.reshape(y, (batch, length, *y.shape[1:]))

    def _regularize_activities(self, inputs, query, key, value, output):
        """A loss for each projection that the layer has, by item of the batch of `inputs`, as the stock layer has them.

        Projected once more: no stage knows the batch before its axes were folded, and a variant may never make a
        projection by itself.
        """
        projected = [(self._query_dense, query)]
        if value is not None:
            projected += [(self._key_dense, key), (self._value_dense, value)]
        if self.use_gate:
            projected.append((self._gate_dense, query))
        activities = [dense(ops.reshape(x, (-1, x.shape[-1]))) for dense, x in projected if dense is not None]
        for activity in (*activities, output):
            loss = self._activity_regularizer(activity)
            self.add_loss(ops.divide_no_nan(loss, ops.cast(ops.shape(inputs)[0], loss.dtype)))

    @property
    def scale(self):
        return self.key_dim**-0.5

    @property
    def _stages_are_fused(self):
        """Whether `score`, `weigh` and `mix` are plain dot-product attention."""
        stages = ("score", "evolve", "weigh", "mix")
        plain = all(getattr(type(self), stage) is getattr(Attention, stage) for stage in stages)
        return plain and self.relative_positions is None

    def call(
        self,
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        cache=None,
        index=None,
        positions=None,
        previous_map=None,
        return_map=False,
    ):
        key = value if key is None else key
        check_inputs(query, value, key, cache, index, self._axes.rank, self._widths)
        axes = self._axes
        inputs, query = query, axes.fold(query, "query")
        folded_key = None if key is None else axes.fold(key, "key")
        offset = 0 if index is None else ops.cast(index, "int32")
        if positions is None:
            positions = ops.arange(ops.shape(query)[1], dtype="int32") + offset
        if cache is None:
            keys, values = self.project_key_value(folded_key, axes.fold(value, "key"))
        else:
            cache = cache if value is None else self._extend_cache(cache, key, value, index, positions)
            keys, values = ops.swapaxes(cache["key"], 2, 3), cache["value"]
        stored = None if cache is None else cache.get("positions")
        key_positions = ops.arange(ops.shape(keys)[2], dtype="int32") if stored is None else stored
        mask = self._attention_mask(
            inputs, query, keys, query_mask, value_mask, key_mask, attention_mask, use_causal_mask, index, value
        )
        if self.sliding_window is not None:
            window = sliding_window_mask(positions, key_positions, self.sliding_window)
            mask = combine_masks(mask, window[:, None])
        regularizer = self.head_regularizer if cache is None else None
        needs_weights = return_attention_scores or regularizes(regularizer, "weights")
        state = State(query, folded_key, mask, positions, key_positions, previous_map, cache, training, needs_weights)
        heads, weights, own_map, cache = self._attend(self.project_query(query), keys, values, state)
        if self.use_gate:
            heads = heads * ops.swapaxes(self._apply(self._gate_dense, query), 1, 2)
        if regularizes(regularizer, "weights", "outputs", "values"):
            self.add_loss(head_loss(regularizer, self._maps_by_head(weights), heads, values, mask))
        output = self.merge(heads)
        if self._activity_regularizer is not None:
            self._regularize_activities(inputs, query, key, value, output)
        results = [axes.unfold(output, inputs)]
        if return_attention_scores:
            results.append(axes.unfold_scores(weights, inputs, value))
        if return_map:
            results.append(own_map)
        if index is not None:
            results.append(cache)
        return results[0] if len(results) == 1 else tuple(results)

    def _attend(self, query, key, value, state):
        """Head outputs, weights (or `None`), the map for the next block, and the cache."""
        dropping = self.dropout > 0 and state.training
        if self._stages_are_fused and not state.return_attention_scores and not dropping:
            heads = attend(query, key, value, state.mask, self.scale, self.flash_attention)
            return heads, None, state.previous_map, state.cache
        logits, *carried = self._logits(query, key, state)
        weights = self.weigh(logits, state.mask)
        return self.mix(self._dropout_layer(weights, training=state.training), value), weights, *carried

    def _logits(self, query, key, state):
        """Logits, the map for the next block, and the cache."""
        positions = state.query_positions, state.key_positions
        logits = self.score(query, key, *positions)
        if self.relative_positions is not None:
            logits = logits + self.relative_positions(query * self.scale, *positions)
        return self.evolve(logits, state.mask, state.previous_map, state.cache, state.query_positions)

    def _maps_by_head(self, weights):
        """Weights of pairs of heads with the pairs along one axis: `(B, h, n, m)`."""
        if weights is None or len(weights.shape) == 4:
            return weights
        shape = ops.shape(weights)
        return ops.reshape(weights, (shape[0], self.merged_heads, *shape[-2:]))

    def _attention_mask(
        self, inputs, query, keys, query_mask, value_mask, key_mask, attention_mask, use_causal_mask, index, value
    ):
        """All masks as one boolean mask that broadcasts to `(B, h, n, m)`, or `None`.

        `query` is `inputs`, the query as given, with its axes folded. `value` is written to the cache at `index`.
        """
        writing = index is not None and value is not None
        axes = self._axes
        batch, n, m = query.shape[0], query.shape[1], keys.shape[2]
        length, key_length = ops.shape(query)[1], ops.shape(keys)[2]
        offset = 0 if index is None else ops.cast(index, "int32")
        masks = [axes.fold_mask("attention_mask", attention_mask, (batch, self.softmax_heads, n, m), inputs)]
        if query_mask is not None:
            masks.append(axes.fold_mask("query_mask", query_mask, (batch, n), inputs)[:, None, :, None])
        for name, mask in (("value_mask", value_mask), ("key_mask", key_mask)):
            # With a cache, masks of the new rows say nothing about the rows already there.
            if mask is not None and not writing:
                masks.append(axes.fold_mask(name, mask, (batch, m), inputs)[:, None, None, :])
        if use_causal_mask:
            masks.append(causal_mask(length, key_length, offset)[:, None])
        elif writing and attention_mask is None:
            masks.append(ops.less(ops.arange(key_length, dtype="int32"), offset + length)[None, None, None])
        return combine_masks(*masks)

    # Shapes and configuration

    def compute_output_shape(self, query_shape, value_shape=None, key_shape=None):
        return (*query_shape[:-1], *(self._output_shape or query_shape[-1:]))

    def compute_map_shape(self, query_shape, value_shape=None, previous_map_shape=None):
        """Shape of what `return_map` returns, for `build` of the layer in the next block.

        Args:
            query_shape, value_shape: of the inputs. `value_shape` defaults to `query_shape`.
            previous_map_shape: of the map that this layer is given, or `None`.

        Returns:
            `(B, h, n, m)`, with `None` for what is not known; `None` if there is no map.
        """
        if not self.carries_map:
            return previous_map_shape
        value_shape = query_shape if value_shape is None else value_shape
        axes = AttentionAxes(len(query_shape), len(value_shape), self.attention_axes)
        lengths = axes.length(query_shape, "query"), axes.length(value_shape, "key")
        return (query_shape[0] if axes.trivial else None, self.softmax_heads, *lengths)

    def compute_output_spec(self, *args, **kwargs):
        # Traced, not written down: right for every variant, with scores and caches.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_shape,
            "attention_axes": self.attention_axes,
            "sliding_window": self.sliding_window,
            "flash_attention": self.flash_attention,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": regularizers.serialize(self._activity_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "use_gate": self.use_gate,
            "seed": self.seed,
            "relative_positions": self._relative_positions,
            "head_regularizer": regularizers.serialize(self.head_regularizer),
        }


def _clone(initializer):
    return initializer.__class__.from_config(initializer.get_config())

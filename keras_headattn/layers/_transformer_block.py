"""Encoder and decoder block of the Transformer, for any attention layer of this library."""

import itertools

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn.layers._feed_forward import FeedForward
from keras_headattn.layers._template import Template


class _Block(layers.Layer):
    """What both blocks share: sublayers with dropout, residual connection and normalisation."""

    def __init__(
        self,
        attention,
        intermediate_dim,
        dropout=0.1,
        activation="relu",
        activation_dropout=0.0,
        norm_first=False,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.templates = {"attention": Template("attention", attention)}
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.activation = activation
        self.activation_dropout = activation_dropout
        self.norm_first = norm_first
        self.seed = seed

    def _build_sublayers(self, input_shape, names):
        self.norms, self.dropouts = {}, {}
        for number, name in enumerate(names):
            seed = None if self.seed is None else self.seed + number
            self.norms[name] = layers.LayerNormalization(epsilon=1e-6, dtype=self.dtype_policy, name=f"{name}_norm")
            self.norms[name].build(input_shape)
            self.dropouts[name] = layers.Dropout(
                self.dropout, seed=seed, dtype=self.dtype_policy, name=f"{name}_dropout"
            )
        self.feed_forward = FeedForward(
            self.intermediate_dim,
            self.activation,
            self.activation_dropout,
            seed=None if self.seed is None else self.seed + len(names),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward.build(input_shape)

    # What the attention of each name is, for layers that differ by it.
    roles = {}

    def _make(self, name):
        seed = {} if self.seed is None else {"seed": self.seed + 5 + list(self.templates).index(name)}
        role = {"role": self.roles[name]}
        return self.templates[name].make(role, name=name, dtype=self.dtype_policy, **seed)

    def _normalised(self, name, x):
        return self.norms[name](x) if self.norm_first else x

    def _add(self, name, x, y, training):
        x = x + self.dropouts[name](y, training=training)
        return x if self.norm_first else self.norms[name](x)

    def _feed_forward(self, x, training):
        y = self.feed_forward(self._normalised("feed_forward", x), training=training)
        return self._add("feed_forward", x, y, training)

    def compute_output_spec(self, *args, **kwargs):
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            **{name: template.serialize() for name, template in self.templates.items()},
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "activation": self.activation,
            "activation_dropout": self.activation_dropout,
            "norm_first": self.norm_first,
            "seed": self.seed,
        }


@register_keras_serializable(package="keras_headattn")
class EncoderBlock(_Block):
    """Self-attention and a feed-forward layer (Vaswani et al. 2017, section 3.1).

    Args:
        attention: template of the self-attention. It is never used itself: its configuration is cloned.
        intermediate_dim: width of the feed-forward layer.
        dropout: rate of dropout of each sublayer's output.
        activation: of the feed-forward layer.
        activation_dropout: rate of dropout inside the feed-forward layer.
        norm_first: whether each sublayer's input is normalised (pre-norm), not its sum with the input.
        seed: of all dropouts of the block.

    Call arguments:
        x: `(B, n, D)`.
        mask: boolean `(B, n)`, True = a real token. Defaults to the Keras mask of `x`.
        return_attention_scores: returns the weights after the output.
        previous_map, return_map: as in `Attention`.

    Returns:
        `(B, n, D)`, then the weights and the map if asked for.
    """

    roles = {"attention": "encoder"}

    def build(self, x_shape, previous_map_shape=None):
        self._build_sublayers(x_shape, ("attention", "feed_forward"))
        self.attention = self._make("attention")
        self.attention.build(x_shape, x_shape, previous_map_shape=previous_map_shape)
        self.map_shape = self.attention.compute_map_shape(x_shape, x_shape, previous_map_shape)

    def call(self, x, mask=None, training=None, return_attention_scores=False, previous_map=None, return_map=False):
        y = self._normalised("attention", x)
        y, *others = _as_tuple(
            self.attention(
                y,
                y,
                key_mask=mask,
                query_mask=mask if self.attention.rows_interact or self.attention.adds_losses(training) else None,
                training=training,
                return_attention_scores=return_attention_scores,
                previous_map=previous_map,
                return_map=return_map,
            )
        )
        x = self._feed_forward(self._add("attention", x, y, training), training)
        return (x, *others) if others else x


@register_keras_serializable(package="keras_headattn")
class DecoderBlock(_Block):
    """Causal self-attention, attention to the encoder, and a feed-forward layer.

    Source: Vaswani et al. 2017, section 3.1.

    Args:
        attention: template of the self-attention. It is never used itself: its configuration is cloned.
        intermediate_dim: width of the feed-forward layer.
        dropout: rate of dropout of each sublayer's output.
        activation: of the feed-forward layer.
        activation_dropout: rate of dropout inside the feed-forward layer.
        norm_first: whether each sublayer's input is normalised (pre-norm), not its sum with the input.
        seed: of all dropouts of the block.
        cross_attention: template of the attention to the encoder. Defaults to `attention`.

    Call arguments:
        x: `(B, m, D)`.
        x_mask: boolean `(B, m)`, True = a real token, for attention's losses: nothing else depends on later padding.
            Defaults to the Keras mask of `x`.
        memory: output of the encoder, `(B, n, D)`. Not needed with a cache.
        memory_mask: boolean `(B, n)`, True = a real token. Defaults to the Keras mask of `memory`.
        attention_mask: as in `Attention`, of the self-attention: with a cache in place of causality, so that it
            may name any rows; without one beside it.
        cache, index: see `init_cache`, and `Attention.init_cache` for `index`.
        positions: as in `Attention`, also of the queries of the attention to the encoder.
        return_attention_scores: returns the weights of self-attention and cross-attention after the output.
        previous_map, previous_cross_map: `previous_map` of self-attention and of cross-attention, see `Attention`.
        return_map: returns the maps of self-attention and cross-attention as well.

    Returns:
        `(B, m, D)`, the weights and the maps if asked for, and the updated cache if `index` was given.
    """

    roles = {"attention": "decoder", "cross_attention": "cross"}

    def __init__(self, attention, intermediate_dim, *args, cross_attention=None, **kwargs):
        super().__init__(attention, intermediate_dim, *args, **kwargs)
        cross_attention = attention if cross_attention is None else cross_attention
        self.templates["cross_attention"] = Template("cross_attention", cross_attention)

    def build(self, x_shape, memory_shape=None, previous_map_shape=None, previous_cross_map_shape=None):
        memory_shape = x_shape if memory_shape is None else memory_shape
        self._build_sublayers(x_shape, ("attention", "cross_attention", "feed_forward"))
        self.attention = self._make("attention")
        self.attention.build(x_shape, x_shape, previous_map_shape=previous_map_shape)
        self.map_shape = self.attention.compute_map_shape(x_shape, x_shape, previous_map_shape)
        self.cross_attention = self._make("cross_attention")
        self.cross_attention.build(x_shape, memory_shape, previous_map_shape=previous_cross_map_shape)
        self.cross_map_shape = self.cross_attention.compute_map_shape(x_shape, memory_shape, previous_cross_map_shape)

    def init_cache(self, memory, max_length):
        """State of step-by-step decoding: an empty cache of the self-attention, and the encoder's keys and values.

        Args:
            memory: output of the encoder, `(B, n, D)`.
            max_length: number of rows for the self-attention, positions of all steps together.

        Returns:
            Dictionary of `"attention"`, see `Attention.init_cache`, and `"cross_attention"`, see
            `Attention.project_cache`.
        """
        return {
            "attention": self.attention.init_cache(memory.shape[0] or ops.shape(memory)[0], max_length),
            "cross_attention": self.cross_attention.project_cache(memory),
        }

    def reorder_cache(self, cache, rows):
        """The cache of a batch whose sentences are `rows` of this one; they keep the encoder's keys and values.

        Args:
            cache: from `init_cache` or a call.
            rows: integers `(B,)`.

        Returns:
            Cache of the same structure.
        """

        def take(state, fixed=()):
            return {
                name: x if name in ("positions", *fixed) else ops.take(x, rows, axis=0) for name, x in state.items()
            }

        return {
            "attention": take(cache["attention"]),
            "cross_attention": take(cache["cross_attention"], ("key", "value")),
        }

    def call(
        self,
        x,
        memory=None,
        memory_mask=None,
        attention_mask=None,
        cache=None,
        index=None,
        positions=None,
        training=None,
        return_attention_scores=False,
        previous_map=None,
        previous_cross_map=None,
        return_map=False,
        x_mask=None,
    ):
        common = dict(
            index=index,
            positions=positions,
            training=training,
            return_attention_scores=return_attention_scores,
            return_map=return_map,
        )
        y = self._normalised("attention", x)
        y, *others = _as_tuple(
            self.attention(
                y,
                y,
                query_mask=x_mask if self.attention.adds_losses(training) else None,
                attention_mask=attention_mask,
                use_causal_mask=cache is None or attention_mask is None,
                cache=None if cache is None else cache["attention"],
                previous_map=previous_map,
                **common,
            )
        )
        x = self._add("attention", x, y, training)
        y = self._normalised("cross_attention", x)
        y, *cross_others = _as_tuple(
            self.cross_attention(
                y,
                memory,
                query_mask=x_mask if self.cross_attention.adds_losses(training) else None,
                key_mask=memory_mask,
                cache=None if cache is None else cache["cross_attention"],
                previous_map=previous_cross_map,
                **common,
            )
        )
        x = self._feed_forward(self._add("cross_attention", x, y, training), training)
        # Weights, maps and caches, each of self-attention and of cross-attention.
        results = list(itertools.chain(*zip(others, cross_others, strict=True)))
        if index is not None:
            results[-2:] = [{**cache, "attention": results[-2], "cross_attention": results[-1]}]
        return (x, *results) if results else x


def _as_tuple(result):
    return result if isinstance(result, tuple) else (result,)

"""Encoder and decoder blocks of the Transformer with any attention layer."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
from keras import layers
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, regularizer
from keras_headattn._recompute import recompute
from keras_headattn._saved_quantization import SavedQuantization
from keras_headattn._types import Activation, AttentionLike, Regularizer, Shape, Tensor
from keras_headattn._validation import check_boolean, check_index, check_positive, check_probability
from keras_headattn.layers._attention_inputs import check_residual
from keras_headattn.layers._feed_forward import FeedForward
from keras_headattn.layers._intermediates import is_capturing
from keras_headattn.layers._norms import apply_norm, norm_weights
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.layers._template import Template
from keras_headattn.ops._dense import normalize

NORMALIZATIONS = ("post", "pre", "parallel", "sandwich", "output")


class _Block(Rematerialized, SavedQuantization):
    """Sublayers with dropout, residual connection and normalisation."""

    compute_output_spec = keras.Operation.compute_output_spec

    def compute_output_shape(self, x_shape: Shape, *args: Any, **kwargs: Any) -> Shape:
        return tuple(x_shape)

    def __init__(
        self,
        attention: AttentionLike,
        intermediate_dim: int | None = None,
        dropout: float = 0.1,
        activation: Activation = "relu",
        activation_dropout: float = 0.0,
        kernel_regularizer: Regularizer | None = None,
        normalization: str = "post",
        norm: keras.layers.Layer | None = None,
        feed_forward: keras.layers.Layer | None = None,
        depth: int | None = None,
        seed: int | None = None,
        recompute: bool = False,
        stochastic_depth: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.recompute = check_boolean("recompute", recompute)
        if (intermediate_dim is None) == (feed_forward is None):
            raise ValueError(
                "A block needs either `intermediate_dim` or `feed_forward`, a layer to copy. "
                f"Received: intermediate_dim={intermediate_dim}, feed_forward={feed_forward}"
            )
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.activation_dropout = check_probability("activation_dropout", activation_dropout)
        if intermediate_dim is not None:
            feed_forward = FeedForward(
                intermediate_dim, activation, activation_dropout, kernel_regularizer=self.kernel_regularizer
            )
        self.templates = {
            "attention": Template.of_attention("attention", attention),
            "norm": Template.of_norm(norm),
            "feed_forward": Template("feed_forward", feed_forward),
        }
        self.intermediate_dim = (
            None if intermediate_dim is None else check_positive("intermediate_dim", intermediate_dim)
        )
        self.dropout = check_probability("dropout", dropout)
        self.stochastic_depth = check_probability("stochastic_depth", stochastic_depth)
        self.activation = activation
        if normalization not in NORMALIZATIONS:
            raise ValueError(
                f"`normalization` must be one of {', '.join(NORMALIZATIONS)}. Received: normalization={normalization!r}"
            )
        self.normalization = normalization
        # Replaces the self-attention's own. A model sets the same positions in its blocks before it builds them.
        self.relative_positions = None
        # True in a model whose pre-norm block gets an input that is normalised already.
        self.takes_normalized = False
        # Returns the initializer of a projection's kernel from its path, such as "attention", "query". Set by a model.
        self.initializer_of = None
        self.depth = None if depth is None else check_index("depth", depth)
        self.seed = check_seed("seed", seed)

    roles = {}  # role of each attention, by name

    def _build_sublayers(self, x_shape, memory_shapes, previous_logits_shape):
        """Makes and builds all sublayers; `memory_shapes` are by name of the attention."""
        self.norms, self.dropouts, self.skips, self.attentions, self.logits_shapes = {}, {}, {}, {}, {}
        names = [*memory_shapes, "feed_forward"]
        for index, name in enumerate(names):
            for norm in self._norms_of(name):
                is_there = self.takes_normalized and index == 0
                self.norms[norm] = layers.Identity() if is_there else self._make("norm", f"{norm}_norm")
                self.norms[norm].supports_masking = True  # Keras's RMSNormalization does not say so
                self.norms[norm].build(x_shape)
            self.dropouts[name] = layers.Dropout(
                self.dropout, dtype=self.dtype_policy, name=f"{name}_dropout", **self._seed(index)
            )
            if self.stochastic_depth:
                seed, noise = self._seed(7 + index), (None, 1, 1)
                self.skips[name] = layers.Dropout(
                    self.stochastic_depth, noise, dtype=self.dtype_policy, name=f"{name}_skip", **seed
                )
        self.feed_forward = self._make("feed_forward", "feed_forward", **self._seed(len(names)))
        self._name_initializers("feed_forward", self.feed_forward)
        self.feed_forward.build(x_shape)
        for index, (name, memory_shape) in enumerate(memory_shapes.items()):
            defaults = {"role": self.roles[name], "depth": self.depth}
            attention = self.attentions[name] = self._make(name, name, defaults, **self._seed(5 + index))
            if name == "attention" and self.relative_positions is not None:
                attention.relative_positions = self.relative_positions
            check_residual(name, attention, x_shape)
            self._name_initializers(name, attention)
            previous = (previous_logits_shape or {}).get(name)
            attention.build(x_shape, memory_shape, previous_logits_shape=previous)
            self.logits_shapes[name] = attention.compute_logits_shape(x_shape, memory_shape, previous)
        self.attention = self.attentions["attention"]

    def _norms_of(self, name):
        """Returns the names of a sublayer's norms: of its input or its sum, and of its output."""
        first = [] if self.normalization == "output" else [name]
        return first + ([f"{name}_output"] if self.normalization in ("sandwich", "output") else [])

    def _name_initializers(self, name, layer):
        if self.initializer_of is not None:
            layer.initializer_of = functools.partial(self.initializer_of, name)

    def _make(self, template, name, defaults=None, **overrides):
        return self.templates[template].make(defaults, name=name, dtype=self.dtype_policy, **overrides)

    def _seed(self, offset):
        """Returns the seed of a layer as an argument, if the block has one."""
        return {} if self.seed is None else {"seed": self.seed + offset}

    def _run(self, function, training, inputs, **options):
        """Calls `function(**inputs, **options, training=training)`, which the backward pass repeats if asked to."""

        def run(inputs):
            return function(**inputs, **options, training=training)

        is_training = training and options.get("cache") is None
        return recompute(self, run, inputs) if self.recompute and is_training and not is_capturing() else run(inputs)

    def _warn_of_lost_logits(self, previous_logits, return_state):
        """Warns of attention whose scores neither come from another block nor go to one."""
        if self.depth is None and not previous_logits and not return_state:
            for attention in self.attentions.values():
                attention.warn_of_missing_logits()

    def _attend(self, name, x, state, previous_logits, memory=None, training=None, **call):
        """Applies a sublayer of attention, whose logits and cache go into `state`."""
        y = self._normalize_input(name, x, state)
        has_residual = self.attentions[name].value_residual
        if has_residual:
            call |= {"first_values": state["first_values"], "return_first_values": True}
        y, own_logits, *results = self.attentions[name](
            y,
            y if name == "attention" else memory,
            training=training,
            cache=state["cache"].get(name),
            previous_logits=(previous_logits or {}).get(name),
            kernels=state.get("kernels", {}).get(name),
            return_logits=True,
            **call,
        )
        if own_logits is not None:
            state["logits"][name] = own_logits
        if has_residual:
            state["first_values"] = results.pop(0)
        if results:
            state["cache"][name] = results[0]
        return self._add(name, x, y, state, training)

    def _feed_forward(self, x, block_input, state, training):
        y = self._normalize_input("feed_forward", block_input if self.normalization == "parallel" else x, state)
        return self._add("feed_forward", x, self.feed_forward(y, training=training), state, training)

    def _normalize_input(self, name, x, state):
        return self._normalize(name, x, state) if self.normalization in ("pre", "parallel", "sandwich") else x

    def _add(self, name, x, y, state, training):
        y = self._normalize(f"{name}_output", y, state) if f"{name}_output" in self.norms else y
        y = self.dropouts[name](y, training=training)
        x = x + (self.skips[name](y, training=training) if self.skips else y)
        return self._normalize(name, x, state) if self.normalization == "post" else x

    def _normalize(self, name, x, state):
        weights = state.get("kernels", {}).get(f"{name}_norm")
        norm = self.norms[name]
        return apply_norm(norm, x) if weights is None else normalize(x, epsilon=norm.epsilon, **weights)

    def get_config(self) -> dict[str, Any]:
        templates = {name: self.templates[name].serialize() for name in ("attention", "norm", "feed_forward")}
        if self.intermediate_dim is not None:
            templates["feed_forward"] = None
        return {**super().get_config(), **arguments_of(self, _Block, *templates), **templates}


def _passed_on(state):
    """Returns the state that the next block gets."""
    return {name: state[name] for name in ("logits", "first_values") if state[name] is not None}


@register_keras_serializable(package="keras_headattn")
class EncoderBlock(_Block):
    """Self-attention and a feed-forward layer (Vaswani et al. 2017, section 3.1).

    Args:
        attention: self-attention, as `layers.get` takes it; the configuration of a layer is copied.
        intermediate_dim: width of the feed-forward layer.
        dropout: rate of dropout of each sublayer's output.
        activation, activation_dropout, kernel_regularizer: of the feed-forward layer.
        normalization: with x the input of sublayer F and N its norm, `"post"`: N(x + F(x)); `"pre"`: x + F(N(x));
            `"parallel"`: the same, but the feed-forward layer gets the block's input, as attention does (GPT-NeoX);
            `"output"`: x + N(F(x)) (OLMo 2); `"sandwich"`: x + N'(F(N(x))), with two norms (Gemma 2).
        norm: layer to copy, such as `keras.layers.RMSNormalization()`. Defaults to
            `keras.layers.LayerNormalization(epsilon=1e-6)`.
        feed_forward: layer to copy, such as `FeedForward(32, "gelu", gated=True)`, in place of `intermediate_dim`,
            `activation`, `activation_dropout` and `kernel_regularizer`.
        depth: number of blocks below this one, for attention that depends on it.
        seed: of all dropouts of the block.
        recompute: True to keep only the block's inputs for the backward pass, which computes the rest again.
        stochastic_depth: probability with which an example skips a sublayer in training (Huang et al. 2016, "Deep
            networks with stochastic depth"). Other examples' outputs are scaled to keep the mean.

    Call arguments:
        x: `(B, n, D)`.
        mask: boolean `(B, n)`, True = a real token. Defaults to the Keras mask of `x`.
        attention_mask, bias, segment_ids: as in `Attention`.
        previous_logits: `state["logits"]` of the block before. Evolving and RealFormer attention need it.
        first_values: `state["first_values"]` of the block before. Attention with `value_residual` needs it.
        return_state: returns `(y, state)`.

    Returns:
        `(B, n, D)`; with `return_state` also a dictionary for the next block: `"logits"`, from `"attention"` to its
        logits, if it passes any on; and `"first_values"`, if there are any.

    >>> from keras_headattn.layers import RealFormerAttention
    >>> first, second = (EncoderBlock(RealFormerAttention(4, 4), intermediate_dim=32) for _ in range(2))
    >>> y, state = first(keras.ops.ones((2, 5, 16)), return_state=True)
    >>> tuple(second(y, previous_logits=state["logits"]).shape)
    (2, 5, 16)
    """

    roles = {"attention": "encoder"}

    def build(self, x_shape: Shape, previous_logits_shape: dict[str, Shape] | None = None) -> None:
        self._build_sublayers(x_shape, {"attention": x_shape}, previous_logits_shape)

    def call(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        bias: Tensor | None = None,
        segment_ids: Tensor | None = None,
        training: bool | None = None,
        previous_logits: dict[str, Tensor] | None = None,
        return_state: bool = False,
        first_values: Tensor | None = None,
    ) -> Any:
        self._warn_of_lost_logits(previous_logits, return_state)
        inputs = dict(x=x, mask=mask, attention_mask=attention_mask, bias=bias, segment_ids=segment_ids)
        inputs |= dict(previous_logits=previous_logits, first_values=first_values)
        x, state = self._run(self._forward, training, inputs)
        return (x, state) if return_state else x

    def _forward(self, x, mask, attention_mask, bias, segment_ids, previous_logits, first_values, training):
        state, block_input = {"logits": {}, "cache": {}, "first_values": first_values}, x
        counts = self.attention.rows_interact or self.attention.adds_losses(training)
        masks = dict(query_mask=mask if counts else None, key_mask=mask, attention_mask=attention_mask)
        call = dict(training=training, bias=bias, segment_ids=segment_ids, **masks)
        x = self._attend("attention", x, state, previous_logits, **call)
        return self._feed_forward(x, block_input, state, training), _passed_on(state)


@register_keras_serializable(package="keras_headattn")
class DecoderBlock(_Block):
    """Causal self-attention, attention to the encoder or to several memories, and a feed-forward layer.

    Source: Vaswani et al. 2017, section 3.1.

    Args:
        attention, intermediate_dim, dropout, activation, activation_dropout: as in `EncoderBlock`.
        kernel_regularizer, normalization, norm, feed_forward: as in `EncoderBlock`.
        depth, seed, recompute, stochastic_depth: as in `EncoderBlock`.
        cross_attention: attention to the memory, as `layers.get` takes it. Defaults to `attention` without relative
            positions, sliding window and value residual. A list has one for each of several memories, applied in turn;
            an empty list makes a block of a language model.

    Call arguments:
        x: `(B, m, D)`.
        memory: output of the encoder, `(B, n, D)`; a list for a list of attentions. Not needed with a cache.
        memory_mask: boolean `(B, n)`, True = a real token; a list for a list. Defaults to the Keras mask of `memory`.
        attention_mask: as in `Attention`, of the self-attention, which is causal too; with a cache, it replaces
            causality.
        bias, segment_ids: as in `Attention`, of the self-attention.
        cache, index: see `init_cache`, and `Attention.init_cache` for `index`.
        positions: as in `Attention`, of all attentions.
        previous_logits, first_values: as in `EncoderBlock`.
        return_state: returns `(y, state)`.
        x_mask: boolean `(B, m)`, True = a real token, for the losses of attention only. Defaults to `mask`.
        mask: boolean `(B, m)`, True = a real token; with a cache, one for each of its positions. Defaults to the Keras
            mask of `x`.

    Returns:
        `(B, m, D)`; with `return_state` also a dictionary: `"logits"` for the next block, from `"attention"` and
        `"cross_attention"` to their logits, if any; `"first_values"`, if any; and `"cache"` for the next step.
    """

    roles = {"attention": "decoder"}

    def __init__(
        self,
        attention: AttentionLike,
        *args: Any,
        cross_attention: AttentionLike | Sequence[AttentionLike] | None = None,
        **kwargs: Any,
    ):
        super().__init__(attention, *args, **kwargs)
        if cross_attention is None:
            cross_attention = self.templates["attention"].across()
        self.has_memories = isinstance(cross_attention, (list, tuple))
        cross_attentions = cross_attention if self.has_memories else [cross_attention]
        self.cross_names = [
            "cross_attention" + (f"_{index}" if index else "") for index in range(len(cross_attentions))
        ]
        for name, identifier in zip(self.cross_names, cross_attentions, strict=True):
            self.templates[name] = Template.of_attention("cross_attention", identifier)
        self.roles = {**self.roles, **dict.fromkeys(self.cross_names, "cross")}

    def build(
        self, x_shape: Shape, memory_shape: Any = None, previous_logits_shape: dict[str, Shape] | None = None
    ) -> None:
        memory_shapes = self._as_list("memory", memory_shape)
        memory_shapes = [x_shape if shape is None else shape for shape in memory_shapes]
        shapes = {"attention": x_shape, **dict(zip(self.cross_names, memory_shapes, strict=True))}
        self._build_sublayers(x_shape, shapes, previous_logits_shape)
        self.cross_attention = self.attentions.get("cross_attention")

    def _as_list(self, name, value):
        """Returns the argument for each attention to a memory, as a list."""
        if not self.has_memories or value is None:
            return [value] * len(self.cross_names)
        if len(value) != len(self.cross_names):
            raise ValueError(
                f"`{name}` must have one item for each of {len(self.cross_names)} memories. Received: {len(value)}"
            )
        return value

    def decoding_kernels(self) -> dict[str, Any]:
        """Makes the call argument `kernels` of decoding steps.

        Returns:
            Dictionary from attention names to `Attention.decoding_kernels`, and from `"attention_norm"` etc. to the
            weights of layer normalisation, see `ops.normalize`.
        """
        norms = {f"{name}_norm": norm_weights(norm) for name, norm in self.norms.items()}
        kernels = {name: layer.decoding_kernels() for name, layer in self.attentions.items()}
        return kernels | {name: weights for name, weights in norms.items() if weights is not None}

    def init_cache(self, memory: Tensor, max_length: int, kernels: dict[str, Any] | None = None) -> dict[str, Any]:
        """Makes the cache for decoding: an empty one for the self-attention, and the memory's keys and values.

        Args:
            memory: output of the encoder, `(B, n, D)`; a list for a list of attentions. An empty list is a batch of
                one.
            max_length: number of positions of all steps together.
            kernels: from `decoding_kernels`. Default `None`: the layers' own.

        Returns:
            Dictionary of `"attention"`, see `Attention.init_cache`, and `"cross_attention"`, see
            `Attention.project_cache`.
        """
        memories, kernels = self._as_list("memory", memory), kernels or {}
        batch_size = 1 if not memories else memories[0].shape[0] or keras.ops.shape(memories[0])[0]
        crossed = {
            name: self.attentions[name].project_cache(memory, kernels=kernels.get(name))
            for name, memory in zip(self.cross_names, memories, strict=True)
        }
        return {"attention": self.attention.init_cache(batch_size, max_length, kernels.get("attention")), **crossed}

    def grow_cache(self, cache: dict[str, Any], max_length: int) -> dict[str, Any]:
        """Returns the cache with room for more positions; the memory's keys and values stay.

        Args:
            cache: from `init_cache` or a call.
            max_length: new number of positions, an integer, at least the present one.
        """
        return {**cache, "attention": self.attention.grow_cache(cache["attention"], max_length)}

    def reorder_cache(self, cache: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Returns the cache of a batch whose sentences are `rows` of this one; the memory's keys and values stay.

        Args:
            cache: from `init_cache` or a call.
            rows: integers `(B,)`.
        """
        return {
            name: self.attentions[name].reorder_cache(part, rows, same_keys=name != "attention")
            for name, part in cache.items()
        }

    def call(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        bias: Tensor | None = None,
        segment_ids: Tensor | None = None,
        cache: dict[str, Any] | None = None,
        index: int | Tensor | None = None,
        positions: Tensor | None = None,
        training: bool | None = None,
        previous_logits: dict[str, Tensor] | None = None,
        return_state: bool = False,
        x_mask: Tensor | None = None,
        mask: Tensor | None = None,
        kernels: dict[str, Any] | None = None,
        first_values: Tensor | None = None,
    ) -> Any:
        self._warn_of_lost_logits(previous_logits, return_state)
        inputs = dict(x=x, memory=memory, memory_mask=memory_mask, attention_mask=attention_mask, bias=bias)
        inputs |= dict(segment_ids=segment_ids, positions=positions, previous_logits=previous_logits)
        inputs |= dict(first_values=first_values, x_mask=mask if x_mask is None else x_mask, mask=mask)
        decoding = dict(cache=cache, index=index, kernels=kernels)
        x, state, cache = self._run(self._forward, training, inputs, **decoding)
        if not return_state:
            return x
        return x, state | ({} if cache is None else {"cache": cache})

    def _forward(
        self,
        x,
        memory,
        memory_mask,
        attention_mask,
        bias,
        segment_ids,
        positions,
        previous_logits,
        first_values,
        x_mask,
        mask,
        cache,
        index,
        kernels,
        training,
    ):
        state, block_input = {"logits": {}, "cache": dict(cache or {}), "kernels": kernels or {}}, x
        state["first_values"] = first_values
        common = dict(state=state, previous_logits=previous_logits, training=training, index=index, positions=positions)
        x = self._attend(
            "attention",
            x,
            query_mask=x_mask if self.attention.adds_losses(training) else None,
            key_mask=mask,
            attention_mask=attention_mask,
            use_causal_mask=cache is None or attention_mask is None,
            bias=bias,
            segment_ids=segment_ids,
            **common,
        )
        memories, masks = self._as_list("memory", memory), self._as_list("memory_mask", memory_mask)
        for name, memory, memory_mask in zip(self.cross_names, memories, masks, strict=True):
            counts = self.attentions[name].adds_losses(training)
            x = self._attend(
                name, x, memory=memory, query_mask=x_mask if counts else None, key_mask=memory_mask, **common
            )
        x = self._feed_forward(x, block_input, state, training)
        return x, _passed_on(state), None if cache is None else state["cache"]

    def get_config(self) -> dict[str, Any]:
        crossed = [self.templates[name].serialize() for name in self.cross_names]
        return {**super().get_config(), "cross_attention": crossed if self.has_memories else crossed[0]}

import functools
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus
from keras_headattn._private import check_length
from keras_headattn._types import Activation, AttentionLike, Tensor
from keras_headattn._validation import (
    as_python,
    check_boolean,
    check_number,
    check_positive,
    check_probability,
    known_values,
)
from keras_headattn.layers import (
    DecoderBlock,
    FeedForward,
    GraphAttention,
    ReAttention,
    SynthesizerAttention,
)
from keras_headattn.layers._attention_inputs import check_built
from keras_headattn.layers._intermediates import with_intermediates
from keras_headattn.layers._norms import apply_norm
from keras_headattn.layers._template import Template
from keras_headattn.models._blocks import Stack
from keras_headattn.models._causal_lm.sizes import CAUSAL_SIZES
from keras_headattn.models._decoder_model import DecoderModel
from keras_headattn.models._sizes import arguments_of_size
from keras_headattn.ops._masks import causal_mask
from keras_headattn.positions import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions

DEVIATION = 0.02  # of new kernels and embeddings
RESIDUAL = ("attention_output", "outer")  # projections whose output is added to the residual


@register_keras_serializable(package="keras_headattn")
class CausalLM(DecoderModel):
    """Decoder-only language model with any attention layer of this library.

    Covers GPT-2, Llama, Qwen, SmolLM, Gemma 2 and 3, and GPT-NeoX. Outputs are logits, in float32 even under mixed
    precision. No id is padding: give padded tokens a `sample_weight` of 0 and the document -1.

    New kernels and embeddings are normal with a deviation of 0.02, divided by `sqrt(2 * num_layers)` in the last kernel
    of attention and of `FeedForward`; other weights of an attention start as in the layer itself. For one `seed`,
    weights of the same path and shape start the same with every attention, so that comparisons are paired.

    Source: Radford et al. 2019, "Language models are unsupervised multitask learners"; Touvron et al. 2023, "LLaMA".

    Args:
        vocabulary_size: number of token ids, `V`.
        num_layers, hidden_dim: number of blocks, and width of the model `D`.
        intermediate_dim: width of the feed-forward layers. Default `None`: `4 * D`, or with a gate `8 / 3 * D` rounded
            up to a multiple of 64.
        attention: a name, a class, a layer or its configuration, see `layers.get`; or a list of them, repeated over the
            blocks. A layer's own `relative_positions` replace the model's. `ReAttention` and `GraphAttention` are
            errors.
        num_heads: for attention given by a name or a class, with `key_dim = D / num_heads` and the model's `dropout`.
        attention_arguments: dictionary of further arguments of such attention, which override these.
        norm: layer to copy. Default `None`: `keras.layers.RMSNormalization(epsilon=1e-6)`.
        normalization: `"pre"`, `"parallel"`, `"sandwich"`, `"output"` or `"post"`, see `layers.EncoderBlock`. All but
            `"post"` have a norm after the last block.
        feed_forward: layer to copy, such as `FeedForward(activation="silu", gated=True)`, in place of `activation`.
        activation: of the feed-forward layers.
        positions: `"rotary"`, or what is added to the embeddings: `"learned"`, `"sinusoidal"`, a layer to copy, or
            `None` for nothing.
        relative_positions: one of `keras_headattn.positions` to copy, shared by the blocks. Default `None`:
            `RotaryPositions()` if `positions="rotary"`, or else none.
        max_length: largest number of tokens for `"learned"` positions; longer inputs are then an error.
        tie_output: True for the transposed embedding as output layer, False for a layer of its own.
        output_bias: True for a bias of the output layer.
        embedding_scale: factor of the embeddings. Default `None`: 1.
        logits_soft_cap: bound `c` on the logits, which become `c * tanh(logits / c)`. Default `None`: no bound.
        dropout: rate of dropout of embeddings, sublayers, and attention weights (a layer given as `attention` sets its
            own).
        suppress: list of token ids that a `decoding.Generator` never produces.
        recompute: True to keep only each block's inputs for the backward pass and compute the rest again: less memory,
            but a third more time.
        loss_chunk_size: number of tokens per chunk of logits in `fit` and `evaluate`, see `ChunkedLossModel`.
        seed: of initial weights and dropouts.

    Call arguments:
        inputs: token ids, integers `(B, n)`; or a dictionary of `"token_ids"` and optionally `"sequence_ids"`, both
            `(B, n)`: documents of a row, -1 at padding. A token attends only to tokens of its document, and learned
            positions count from 0 in each. Evolving and synthesizer attention refuse documents.
        return_intermediates: returns `(logits, out)`: a dictionary of attentions, such as `"block_0/attention"`, to
            their tensors by name, such as `"weights"` `(B, h, n, n)`, see `layers.capture_intermediates`.

    Returns:
        Logits `(B, n, V)` of the tokens that follow.

    Raises:
        ValueError: naming the argument and what was received.

    >>> model = CausalLM(100, num_layers=2, hidden_dim=16, num_heads=4, attention="talking_heads")
    >>> logits, out = model(np.ones((2, 5), "int32"), return_intermediates=True)
    >>> tuple(logits.shape), tuple(out["block_1/attention"]["weights"].shape)
    ((2, 5, 100), (2, 4, 5, 5))
    >>> last, cache = model.prefill(np.ones((2, 5), "int32"), model.init_cache(2, 8))
    >>> step, cache = model.decode_step(np.ones((2, 1), "int32"), cache, 5)
    >>> tuple(last.shape), tuple(step.shape)
    ((2, 100), (2, 1, 100))
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int = 12,
        hidden_dim: int = 768,
        intermediate_dim: int | None = None,
        attention: AttentionLike | Sequence[AttentionLike] = "multi_head",
        num_heads: int = 12,
        attention_arguments: Mapping[str, Any] | None = None,
        norm: keras.layers.Layer | None = None,
        normalization: str = "pre",
        feed_forward: keras.layers.Layer | None = None,
        activation: Activation = "gelu_tanh",
        positions: str | keras.layers.Layer | None = "rotary",
        relative_positions: Positions | None = None,
        max_length: int | None = None,
        tie_output: bool = True,
        output_bias: bool = False,
        embedding_scale: float | None = None,
        logits_soft_cap: float | None = None,
        dropout: float = 0.0,
        suppress: Sequence[int] = (),
        recompute: bool = False,
        loss_chunk_size: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(loss_chunk_size=loss_chunk_size, **kwargs)
        self.vocabulary_size = check_positive("vocabulary_size", vocabulary_size)
        self.num_layers = check_positive("num_layers", num_layers)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.intermediate_dim = (
            None if intermediate_dim is None else check_positive("intermediate_dim", intermediate_dim)
        )
        self.num_heads = check_positive("num_heads", num_heads)
        self.normalization = normalization
        self.activation = activation
        self.max_length = None if max_length is None else check_positive("max_length", max_length)
        self.tie_output = check_boolean("tie_output", tie_output)
        self.output_bias = check_boolean("output_bias", output_bias)
        self.embedding_scale = (
            None if embedding_scale is None else check_number("embedding_scale", embedding_scale, above=0)
        )
        self.logits_soft_cap = (
            None if logits_soft_cap is None else check_number("logits_soft_cap", logits_soft_cap, above=0)
        )
        self.dropout = check_probability("dropout", dropout)
        self.suppress = tuple(map(as_python, suppress))
        self.recompute = check_boolean("recompute", recompute)
        self.seed = check_seed("seed", seed)
        self.attention_templates = self._attention_templates(attention, attention_arguments)
        self.templates = {
            "norm": Template("norm", norm or layers.RMSNormalization(epsilon=1e-6)),
            "feed_forward": self._feed_forward_template(feed_forward),
            "positions": self._positions_template(positions),
            "relative_positions": self._relative_positions_template(relative_positions, positions),
        }
        self._make_layers()

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int | None = None, **overrides: Any) -> Self:
        """Makes a `CausalLM` of a published size, with random weights.

        Args:
            size: one of `keras_headattn.models.CAUSAL_SIZES`, such as "nano", "gpt2" or "smollm2_135m".
            vocabulary_size: replaces the size's. Default `None`: the size's own.
            **overrides: arguments of `CausalLM`, which override the size's. Another `attention` is made with the
                size's `attention_arguments`, except for its number of key and value heads.

        >>> model = CausalLM.from_size("nano_cpu", attention="talking_heads", num_layers=2)
        >>> model.hidden_dim, model.num_layers, model.vocabulary_size
        (128, 2, 65)
        """
        if vocabulary_size is not None:
            overrides["vocabulary_size"] = vocabulary_size
        sizes = {name: arguments() if name == size else None for name, arguments in CAUSAL_SIZES.items()}
        arguments = arguments_of_size(sizes, size, **overrides)
        if "attention" in overrides and "attention_arguments" not in overrides:
            attention_arguments = arguments.get("attention_arguments", {})
            arguments["attention_arguments"] = {
                name: value for name, value in attention_arguments.items() if name != "num_key_value_heads"
            }
        return cls(**arguments)

    # Layers

    def _attention_templates(self, attention, attention_arguments):
        attentions = [*attention] if isinstance(attention, (list, tuple)) else [attention]
        if not attentions:
            raise ValueError(f"`attention` must name at least one attention. Received: attention={attention!r}")
        if attention_arguments and all(isinstance(identifier, (layers.Layer, dict)) for identifier in attentions):
            raise ValueError(
                "`attention_arguments` are for attention given by a name or a class; a layer has its own. "
                f"Received: attention_arguments={attention_arguments} for attention={attention!r}"
            )
        arguments = {"dropout": self.dropout, **(attention_arguments or {})}
        heads = arguments.pop("num_heads", self.num_heads)
        templates = [
            Template.of_attention(
                "attention", identifier, check_positive("num_heads", heads), self.hidden_dim, **arguments
            )
            for identifier in attentions
        ]
        for template in templates:
            layer = template.layer
            if isinstance(layer, (ReAttention, GraphAttention)) or layer.role not in (None, "decoder"):
                raise ValueError(
                    "`attention` must be causal: re-attention normalises by later queries in training, graph attention "
                    "reads a graph, and a role other than 'decoder' lets later tokens in. "
                    f"Received: attention={type(layer).__name__} with role={layer.role!r}"
                )
        return templates

    def _feed_forward_template(self, feed_forward):
        template = Template("feed_forward", feed_forward or FeedForward(activation=self.activation))
        width = getattr(template.layer, "intermediate_dim", None)
        if None not in (width, self.intermediate_dim) and width != self.intermediate_dim:
            raise ValueError(
                "`intermediate_dim` must be left out, or be that of `feed_forward`. "
                f"Received: intermediate_dim={self.intermediate_dim}, and {width} in feed_forward"
            )
        return template

    def _positions_template(self, positions):
        if positions == "learned" and self.max_length is None:
            raise ValueError("`max_length` must be given for learned positions. Received: max_length=None")
        self.positions = positions if isinstance(positions, str) else None
        names = {
            "learned": lambda: LearnedPositions(self.max_length, self._initializer("position_embedding")),
            "sinusoidal": SinusoidalPositions,
            "rotary": lambda: None,
        }
        if isinstance(positions, str) and positions not in names:
            raise ValueError(
                f"`positions` must be one of {', '.join(names)}, a layer, or None. Received: positions={positions!r}"
            )
        return Template("positions", names[positions]() if self.positions else positions)

    def _relative_positions_template(self, relative_positions, positions):
        if relative_positions is None and positions == "rotary":
            relative_positions = RotaryPositions()
            for template in self.attention_templates:
                if template.layer.relative_positions is None and not template.layer.scores_are_products:
                    raise ValueError(
                        'Rotary positions, the default, need logits that are products: give positions="learned" and '
                        f"`max_length`. Received: attention={type(template.layer).__name__} with positions='rotary'"
                    )
        return Template("relative_positions", relative_positions)

    def _initializer(self, *path):
        deviation = DEVIATION / (math.sqrt(2 * self.num_layers) if path[-1] in RESIDUAL else 1)
        seed = None if self.seed is None else zlib.crc32(f"{self.seed}/{'/'.join(path)}".encode())
        return keras.initializers.RandomNormal(stddev=deviation, seed=seed)

    def _make_layers(self):
        """Makes all layers, in the order of `weights`."""
        self.token_embedding = layers.ReversibleEmbedding(
            self.vocabulary_size,
            self.hidden_dim,
            embeddings_initializer=self._initializer("token_embedding"),
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        self.position_embedding = self._make("positions", "position_embedding")
        self.embedding_dropout = layers.Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        self.relative_positions = self._make("relative_positions", "relative_positions")
        self.blocks = [self._make_block(index) for index in range(self.num_layers)]
        self.decoder_stack = Stack(self.blocks)
        self.final_norm = None if self.normalization == "post" else self._make("norm", "final_norm")
        if not self.tie_output:
            initializer = self._initializer("output_projection")
            self.output_projection = self._make_output_projection(self.vocabulary_size, initializer)

    def _make(self, template, name):
        return self.templates[template].make(name=name, dtype=self.dtype_policy)

    def _make_block(self, index):
        attention = self.attention_templates[index % len(self.attention_templates)]
        width = {} if self.intermediate_dim is None else {"intermediate_dim": self.intermediate_dim}
        block = DecoderBlock(
            attention,
            cross_attention=[],
            feed_forward=self.templates["feed_forward"].make(width),
            dropout=self.dropout,
            normalization=self.normalization,
            norm=self.templates["norm"],
            depth=index,
            seed=seed_plus(self.seed, 10 * (index + 1)),
            recompute=self.recompute,
            dtype=self.dtype_policy,
            name=f"block_{index}",
        )
        block.initializer_of = functools.partial(self._initializer, block.name)
        if attention.layer.relative_positions is None:
            block.relative_positions = self.relative_positions
        return block

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.hidden_dim)
        self.token_embedding.build((None, None))
        if self.position_embedding is not None:
            self.position_embedding.build(shape)
        self.decoder_stack.build(shape, None)
        if self.final_norm is not None:
            self.final_norm.build(shape)
        self._build_output(shape)
        self.built = True

    @property
    def output_embedding(self) -> layers.ReversibleEmbedding:
        return self.token_embedding

    # The call

    def call(
        self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None, return_intermediates: bool = False
    ) -> Any:
        if return_intermediates:
            return with_intermediates({block.name: block for block in self.blocks}, self.call, inputs, training)
        states = self.states(inputs, training)
        return states if self.needs_states else self._logits(states)

    def states(self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        """Computes the inputs of the output layer, `(B, n, D)`.

        Args:
            inputs: as in a call.
            training: True to apply dropout.
        """
        ids, documents = self._read(inputs)
        self._check_length("inputs", ops.shape(ids)[1])
        positions = real = None
        if documents is not None:
            self._check_documents("sequence_ids")
            documents = ops.cast(documents, "int32")
            positions, real = _positions_in(documents), ops.greater_equal(documents, 0)
        x = self._embed(ids, positions, training)
        x = self.decoder_stack(x, segment_ids=documents, x_mask=real, training=training)
        return self._finish(x)

    def _read(self, inputs):
        """Returns token ids, and those of documents or `None`."""
        if not isinstance(inputs, dict):
            return inputs, None
        if "token_ids" not in inputs or not set(inputs) <= {"token_ids", "sequence_ids"}:
            raise ValueError(
                '`inputs` must be token ids, or a dictionary of "token_ids" and, for documents in a row, '
                f'"sequence_ids". Received: inputs={sorted(inputs)}'
            )
        return inputs["token_ids"], inputs.get("sequence_ids")

    @property
    def position_count(self) -> int | None:
        """Largest number of tokens for which there are positions, or `None` without a limit."""
        limits = [getattr(x, "max_length", None) for x in (self.position_embedding, *self._attentions())]
        return min((limit for limit in limits if limit is not None), default=None)

    def _check_length(self, name, length):
        most = self.position_count
        if most is not None:
            check_length(length, most, f"`{name}` must have at most max_length={most} tokens, the number of positions.")

    @property
    def takes_documents(self) -> bool:
        """True if attention tells documents of a row, and padding on the left, from other tokens."""
        return not self._without_documents()

    def _without_documents(self):
        return [
            layer
            for layer in self._attentions()
            if layer.rows_interact and not layer.separates_segments or isinstance(layer, SynthesizerAttention)
        ]

    def _check_documents(self, name):
        for layer in self._without_documents()[:1]:
            raise ValueError(
                f"`{name}` must not be given to attention that convolves scores of neighbouring tokens or knows "
                f"absolute positions alone. Received: {name} for {type(layer).__name__}"
            )

    def _embed(self, ids, positions, training):
        _check_ids(ids, self.vocabulary_size)
        # Ids in a graph are not checked.
        x = self.token_embedding(ops.clip(ops.cast(ids, "int32"), 0, self.vocabulary_size - 1))
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions)
        return self.embedding_dropout(x, training=training)

    def _finish(self, x):
        return x if self.final_norm is None else apply_norm(self.final_norm, x)

    # Decoding step by step

    def init_cache(
        self, batch_size: int | Tensor, max_length: int, kernels: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Returns an empty cache for `prefill` and `decode_step`.

        Args:
            batch_size: number of texts `B`; an integer or a scalar tensor.
            max_length: number of tokens of a prompt and all steps together.
            kernels: from `decoding_kernels`. Default `None`: the layers' own.

        Returns:
            Dictionary of `"blocks"`, a list of the blocks' caches. Prompts padded on the left add `"first"` `(B,)`.
        """
        check_built(self, "init_cache")
        block_kernels = (kernels or {}).get("blocks") or [{}] * self.num_layers
        caches = [
            {"attention": block.attention.init_cache(batch_size, max_length, of_block.get("attention"))}
            for block, of_block in zip(self.blocks, block_kernels, strict=True)
        ]
        return {"blocks": caches}

    def prefill(
        self,
        token_ids: Tensor,
        cache: dict[str, Any],
        first: Tensor | None = None,
        chunk_size: int = 512,
        kernels: dict[str, Any] | None = None,
        index: int | Tensor = 0,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Reads prompts in chunks, and computes the logits of the token that follows each.

        Args:
            token_ids: integers `(B, n)`, at least one a prompt; shorter prompts are padded on the left.
            cache: from `init_cache`.
            first: integers `(B,)`, index of each prompt's first token; n if it is yet to come. Needs `index=0`. Default
                `None`: 0. Evolving and synthesizer attention refuse it.
            chunk_size: number of tokens that run at a time. Lengths that are not known statically are one chunk.
            kernels: from `decoding_kernels`. Default `None`: the layers' own.
            index: row of the cache for the first token, to go on after earlier tokens. Default 0.

        Returns:
            `(logits (B, V), cache)`.

        Raises:
            ValueError: for empty prompts, or a `first` above n or after earlier tokens.
        """
        check_positive("chunk_size", chunk_size)
        length = token_ids.shape[1]
        if length == 0:
            raise ValueError(
                f"`token_ids` must hold at least one token. Received: token_ids of shape {tuple(token_ids.shape)}"
            )
        if first is not None:
            self._check_documents("first")
            _check_first(first, length, index)
            cache = {**cache, "first": ops.cast(first, "int32")}
        starts = [0] if length is None else range(0, length, chunk_size)
        for start in starts:
            chunk = token_ids if length is None else token_ids[:, start : start + chunk_size]
            states, cache = self._advance(chunk, cache, start + index, kernels=kernels or {})
        return self._logits(states[:, -1], (kernels or {}).get("output")), cache

    def decode_step(
        self,
        tokens: Tensor,
        cache: dict[str, Any],
        index: int | Tensor,
        positions: Tensor | None = None,
        attention_mask: Tensor | None = None,
        kernels: dict[str, Any] | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes logits of the tokens that follow `tokens`.

        Args:
            tokens: `(B, n)`, written to rows `index, index + 1, ...` of the cache.
            cache: from `init_cache`, `prefill` or the step before.
            index: integer or scalar tensor.
            positions: positions of the tokens in the text, `(n,)`, with its padding. Default to their rows.
            attention_mask: boolean `(B, n, max_length)`: the rows each token may attend to. Defaults to its own and all
                before. Padding is never attended to.
            kernels: from `decoding_kernels`. Default `None`: the layers' own.

        Returns:
            `(logits (B, n, V), cache)`.
        """
        kernels = kernels or {}
        states, cache = self._advance(tokens, cache, index, positions, attention_mask, kernels)
        return self._logits(states, kernels.get("output")), cache

    def _advance(self, tokens, cache, index, positions=None, attention_mask=None, kernels=None):
        """Returns the inputs of the output layer, `(B, n, D)`, and the cache."""
        if positions is None and isinstance(index, int):
            self._check_length("tokens", index + ops.shape(tokens)[1])
        count, length = ops.shape(tokens)[1], ops.shape(cache["blocks"][0]["attention"]["value"])[2]
        positions = ops.arange(count, dtype="int32") + index if positions is None else positions
        mask = causal_mask(count, length, index) if attention_mask is None else attention_mask
        embedded, first = positions, cache.get("first")
        if first is not None:
            embedded = ops.maximum(positions[None] - first[:, None], 0)
            is_real = ops.greater_equal(ops.arange(length, dtype="int32")[None], first[:, None])
            mask = ops.logical_and(mask, is_real[:, None])
        x, blocks = self.decoder_stack.step(
            self._embed(tokens, embedded, training=False),
            cache["blocks"],
            kernels.get("blocks"),
            attention_mask=mask[:, None],  # once for all blocks
            index=index,
            positions=positions,
        )
        return self._finish(x), {**cache, "blocks": blocks}

    def reorder_cache(self, cache: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Returns the cache of a batch whose texts are `rows` of this one.

        Args:
            cache: from `init_cache`, `prefill` or `decode_step`.
            rows: integers, as many as the new batch has texts.
        """
        first = {"first": ops.take(cache["first"], rows, axis=0)} if "first" in cache else {}
        return {**super().reorder_cache(cache, rows), **first}

    def copy_cache(self, cache: dict[str, Any], count: int) -> dict[str, Any]:
        """Returns the cache of a batch with each text `count` times in a row, for several continuations.

        Args:
            cache: from `init_cache`, `prefill` or `decode_step`.
            count: positive integer.
        """
        batch = ops.shape(cache["blocks"][0]["attention"]["value"])[0]
        rows = ops.repeat(ops.arange(batch, dtype="int32"), check_positive("count", count))
        return self.reorder_cache(cache, rows)

    def trim_cache(self, cache: dict[str, Any], length: int | Tensor) -> dict[str, Any]:
        """Returns the cache as it was after its first `length` rows, with as much room as before.

        Args:
            cache: from `prefill` or `decode_step`.
            length: number of rows to keep; an integer or a scalar tensor.

        Raises:
            ValueError: for attention whose cache holds scores of the last tokens alone.
        """
        if not self.beams_share_rows:
            raise ValueError(
                "`trim_cache` needs attention without a map of the last tokens in its cache. "
                f"Received: {', '.join(sorted({type(layer).__name__ for layer in self._attentions()}))}"
            )

        def trimmed(x, axis):
            is_kept = ops.less(ops.arange(ops.shape(x)[axis], dtype="int32"), length)
            shape = [-1 if i == axis else 1 for i in range(len(x.shape))]
            return ops.where(ops.reshape(is_kept, shape), x, ops.zeros((), x.dtype))

        blocks = [
            {"attention": {name: trimmed(x, 0 if name == "positions" else 2) for name, x in block["attention"].items()}}
            for block in cache["blocks"]
        ]
        return {**cache, "blocks": blocks}

    def get_config(self) -> dict[str, Any]:
        attentions = [template.serialize() for template in self.attention_templates]
        serialized = {name: template.serialize() for name, template in self.templates.items()}
        return {
            **super().get_config(),
            **arguments_of(self, CausalLM, "attention", "attention_arguments", *self.templates),
            **serialized,
            "attention": attentions if len(attentions) > 1 else attentions[0],
            "positions": self.positions or serialized["positions"],
        }


def _positions_in(documents):
    """Returns the position of each token in its document, `(B, n)`, from the ids of documents."""
    length = ops.shape(documents)[1]
    index = ops.arange(length, dtype="int32")[None]
    begins = ops.not_equal(documents[:, 1:], documents[:, :-1])
    begins = ops.concatenate([ops.ones_like(documents[:, :1], "bool"), begins], axis=1)
    starts = ops.sort(ops.where(begins, index, length), axis=1)  # of the documents, in order
    document_index = ops.cumsum(ops.cast(begins, "int32"), axis=1) - 1
    return index - ops.take_along_axis(starts, document_index, axis=1)


def _check_ids(ids, size):
    """Raises a ValueError for ids outside the vocabulary, where their values are known."""
    values = known_values(ids)
    if values is not None and values.size and not 0 <= values.min() <= values.max() < size:
        wrong = values[(values < 0) | (values >= size)]
        raise ValueError(f"Token ids must be at least 0 and below {size}. Received: token_ids with {wrong[0]}")


def _check_first(first, length, index):
    if known_values(index) != 0:
        raise ValueError(f"`first` is for prompts at the start of a cache, `index=0`. Received: index={index}")
    values = known_values(first)
    if values is not None and length is not None and values.size and not 0 <= values.min() <= values.max() <= length:
        raise ValueError(
            f"`first` must be indices of first tokens, at most {length}. Received: first={values.tolist()}"
        )

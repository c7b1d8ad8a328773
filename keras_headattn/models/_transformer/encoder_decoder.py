"""Base of encoder-decoder Transformers."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import layers, ops

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus
from keras_headattn._types import Tensor
from keras_headattn._validation import as_python, check_boolean, check_positive, check_probability
from keras_headattn.layers import DecoderBlock, EncoderBlock
from keras_headattn.layers._intermediates import with_intermediates
from keras_headattn.layers._norms import apply_norm
from keras_headattn.layers._template import Template
from keras_headattn.models._blocks import Stack
from keras_headattn.models._decoder_model import DecoderModel
from keras_headattn.ops._masks import causal_mask

SIDES, STACKS = ("source", "target"), ("encoder", "decoder")
SOURCE, TARGET = 0, 1  # indices of either side in lists of layers


class EncoderDecoder(DecoderModel):
    """Base of `Transformer` and `T5`, which document most of its arguments.

    Args:
        templates: dictionary of `Template` by name: `"attention"`, `"decoder_attention"`, `"cross_attention"`,
            `"norm"`, `"feed_forward"`, `"positions"` and `"relative_positions"`.
        embedding_deviation: of new embeddings.
        embedding_scale, output_scale: factors of embeddings, and of the input of the output layer, or `None`.
        output_dropout: True for dropout of the output of each stack.
        padding_begins: True if the first token of a target counts although it has the id of padding.
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int | None,
        num_layers: int,
        num_decoder_layers: int | None,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        *,
        templates: Mapping[str, Template],
        dropout: float,
        normalization: str,
        tie_output: bool,
        output_bias: bool,
        suppress: Sequence[int],
        force_end: bool,
        recompute: bool,
        loss_chunk_size: int | None,
        seed: int | None,
        embedding_deviation: float,
        embedding_scale: float | None = None,
        output_scale: float | None = None,
        output_dropout: bool = False,
        padding_begins: bool = False,
        **kwargs: Any,
    ):
        super().__init__(loss_chunk_size=loss_chunk_size, **kwargs)
        self.source_vocabulary_size = check_positive("source_vocabulary_size", source_vocabulary_size)
        self.target_vocabulary_size = (
            None if target_vocabulary_size is None else check_positive("target_vocabulary_size", target_vocabulary_size)
        )
        self.num_layers = check_positive("num_layers", num_layers)
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        self.num_decoder_layers = check_positive("num_decoder_layers", num_decoder_layers)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.intermediate_dim = check_positive("intermediate_dim", intermediate_dim)
        self.num_heads = check_positive("num_heads", num_heads)
        self.dropout = check_probability("dropout", dropout)
        self.normalization = normalization
        self.tie_output = check_boolean("tie_output", tie_output)
        self.output_bias = check_boolean("output_bias", output_bias)
        self.suppress = tuple(map(as_python, suppress))
        self.force_end = check_boolean("force_end", force_end)
        self.recompute = check_boolean("recompute", recompute)
        self.seed = check_seed("seed", seed)
        self.templates = templates
        self.embedding_deviation = embedding_deviation
        self.embedding_scale = embedding_scale
        self.output_scale = output_scale
        self.padding_begins = padding_begins
        self._make_layers(output_dropout)

    @property
    def output_embedding(self) -> layers.ReversibleEmbedding:
        """Embedding whose transpose is a tied output layer."""
        return self.target_embedding

    @property
    def max_length(self) -> int | None:
        """Largest number of positions, or `None` without a limit."""
        return getattr(self.positions[0], "max_length", None) if self.positions else None

    def _make_layers(self, output_dropout):
        """Makes all layers, in the order of `weights`."""
        seeds = (seed_plus(self.seed, 10 * i) for i in itertools.count())
        self._make_embeddings()
        has_positions = self.templates["positions"].layer is not None
        self.positions = [self._make("positions", f"{side}_positions") for side in SIDES if has_positions]
        self.dropouts = self._make_dropouts("dropout", seeds)
        self.relative_positions = [self._make_relative_positions(stack) for stack in STACKS]
        self._make_blocks(seeds)
        self.norms = [self._make("norm", f"{stack}_norm") for stack in STACKS if self.normalization != "post"]
        self.output_dropouts = self._make_dropouts("output_dropout", seeds) if output_dropout else []

    def _make(self, template, name, **overrides):
        return self.templates[template].make(name=name, dtype=self.dtype_policy, **overrides)

    def _make_dropouts(self, name, seeds):
        return [
            layers.Dropout(self.dropout, seed=next(seeds), dtype=self.dtype_policy, name=f"{side}_{name}")
            for side in SIDES
        ]

    def _make_embeddings(self):
        """Makes the embeddings, one for a shared vocabulary, and the output layer unless it is tied."""
        target_size = self.target_vocabulary_size or self.source_vocabulary_size
        self.target_embedding = self.source_embedding = self._make_embedding("target_embedding", target_size)
        if self.target_vocabulary_size is not None:
            self.source_embedding = self._make_embedding("source_embedding", self.source_vocabulary_size)
        if not self.tie_output:
            normal = keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5)
            self.output_projection = self._make_output_projection(target_size, normal)

    def _make_embedding(self, name, size):
        normal = keras.initializers.RandomNormal(stddev=self.embedding_deviation)
        return layers.ReversibleEmbedding(
            size, self.hidden_dim, embeddings_initializer=normal, dtype=self.dtype_policy, name=name
        )

    def _make_relative_positions(self, stack):
        # A decoder needs no buckets for later keys.
        looks_back = stack == "decoder" and hasattr(self.templates["relative_positions"].layer, "bidirectional")
        one_way = {"bidirectional": False} if looks_back else {}
        return self._make("relative_positions", f"{stack}_relative_positions", **one_way)

    def _make_blocks(self, seeds):
        common = dict(
            norm=self.templates["norm"],
            feed_forward=self.templates["feed_forward"],
            dropout=self.dropout,
            normalization=self.normalization,
            recompute=self.recompute,
            dtype=self.dtype_policy,
        )
        encoder = dict(attention=self.templates["attention"], **common)
        decoder = dict(
            attention=self.templates["decoder_attention"], cross_attention=self.templates["cross_attention"], **common
        )
        self.encoder_blocks = [
            EncoderBlock(depth=i, seed=next(seeds), name=f"encoder_{i}", **encoder) for i in range(self.num_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(depth=i, seed=next(seeds), name=f"decoder_{i}", **decoder)
            for i in range(self.num_decoder_layers)
        ]
        self.encoder_stack = Stack(self.encoder_blocks, self.relative_positions[SOURCE])
        self.decoder_stack = Stack(self.decoder_blocks, self.relative_positions[TARGET])

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.hidden_dim)
        self.target_embedding.build((None, None))
        if self.source_embedding is not self.target_embedding:
            self.source_embedding.build((None, None))
        for layer in (*self.positions, *self.norms):
            layer.build(shape)
        self.encoder_stack.build(shape)
        self.decoder_stack.build(shape, shape)
        self._build_output(shape)
        self.built = True

    def call(
        self, inputs: Mapping[str, Tensor], training: bool | None = None, return_intermediates: bool = False
    ) -> Any:
        if return_intermediates:
            blocks = {block.name: block for block in (*self.encoder_blocks, *self.decoder_blocks)}
            return with_intermediates(blocks, self.call, inputs, training)
        states = self.states(inputs, training)
        return states if self.needs_states else self._logits(states)

    def states(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        """Computes the inputs of the output layer, `(B, m, D)`.

        Args:
            inputs: as in a call.
            training: True to apply dropout.
        """
        if not isinstance(inputs, dict) or not {"source", "target"} <= set(inputs):
            received = sorted(inputs) if isinstance(inputs, dict) else type(inputs)
            raise ValueError(f'`inputs` must be a dictionary of "source" and "target". Received: inputs={received}')
        source, target = inputs["source"], inputs["target"]
        memory = self.encode(source, training)
        x = self._embed(TARGET, target, training)
        masks = {"memory_mask": ops.not_equal(source, 0), "x_mask": self._target_mask(target)}
        x = self.decoder_stack(x, memory, training=training, **masks)
        return self._finish(TARGET, x, training)

    def _target_mask(self, target):
        mask = ops.not_equal(target, 0)
        if not self.padding_begins:
            return mask
        return ops.logical_or(ops.equal(ops.arange(ops.shape(target)[1]), 0), mask)

    def encode(self, source: Tensor, training: bool | None = None) -> Tensor:
        """Returns the output of the encoder, `(B, n, D)`.

        Args:
            source: token ids `(B, n)`, 0 = padding.
            training: True to apply dropout.
        """
        x = self._embed(SOURCE, source, training)
        x = self.encoder_stack(x, ops.not_equal(source, 0), training=training)
        return self._finish(SOURCE, x, training)

    def _finish(self, side, x, training):
        """Returns the output of a stack from that of its last block."""
        x = apply_norm(self.norms[side], x) if self.norms else x
        x = self.output_dropouts[side](x, training=training) if self.output_dropouts else x
        return x * self.output_scale if side == TARGET and self.output_scale is not None else x

    def init_cache(
        self, source: Tensor, max_length: int, copies: int = 1, kernels: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Returns the initial state for `decode_step`, to translate `source`.

        Args:
            source: token ids `(B, n)`, 0 = padding.
            max_length: number of tokens of all steps together.
            copies: number of consecutive translations of each source, which is encoded once.
            kernels: from `decoding_kernels`. Default `None`: the layers' own.

        Returns:
            Dictionary of `"blocks"`, the decoder blocks' caches, and `"source_mask"` `(B * copies, n)`.
        """
        memory, mask = self.encode(source, training=False), ops.not_equal(source, 0)
        if copies > 1:
            memory, mask = (ops.repeat(x, copies, axis=0) for x in (memory, mask))
        return {
            "blocks": self.decoder_stack.init_cache(memory, max_length, (kernels or {}).get("blocks")),
            "source_mask": mask,
        }

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
            cache: from `init_cache` or the step before.
            index: integer or scalar tensor.
            positions: positions of the tokens in the sentence, `(n,)`. Default to their rows.
            attention_mask: boolean `(B, n, max_length)`: the rows each token may attend to. Defaults to its own and all
                before.
            kernels: from `decoding_kernels`. Default `None`: the layers' own.

        Returns:
            `(logits (B, n, vocabulary), cache)`.
        """
        if positions is None:
            positions = ops.arange(ops.shape(tokens)[1], dtype="int32") + index
        x = self._embed(TARGET, tokens, False, positions)
        if attention_mask is None:
            length = ops.shape(cache["blocks"][0]["attention"]["value"])[2]
            attention_mask = causal_mask(ops.shape(tokens)[1], length, index)
        kernels = kernels or {}
        x, blocks = self.decoder_stack.step(
            x,
            cache["blocks"],
            kernels.get("blocks"),
            memory_mask=cache["source_mask"],
            attention_mask=attention_mask[:, None],  # once for all blocks
            index=index,
            positions=positions,
        )
        states = self._finish(TARGET, x, training=False)
        return self._logits(states, kernels.get("output")), {**cache, "blocks": blocks}

    def _embed(self, side, tokens, training, positions=None):
        embedding = (self.source_embedding, self.target_embedding)[side]
        x = embedding(tokens)
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        if self.positions:
            x = self.positions[side](x, positions)
        return self.dropouts[side](x, training=training)

    def _config_of(self, cls, templates):
        """Returns a configuration with the arguments of a class, some of which are templates."""
        return {
            **super().get_config(),
            **arguments_of(self, cls, *templates),
            **{name: self.templates[name].serialize() for name in templates},
        }

import itertools

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._model import Model
from keras_headattn._validation import positive, rate
from keras_headattn.layers import DecoderBlock, EncoderBlock, FeedForward, capture_intermediates
from keras_headattn.layers._template import Template
from keras_headattn.models._blocks import build_blocks, call_blocks
from keras_headattn.models._sizes import SIZES
from keras_headattn.ops import apply_kernel, sizes
from keras_headattn.positions import SinusoidalPositions

SIDES, STACKS = ("source", "target"), ("encoder", "decoder")
SOURCE, TARGET = 0, 1  # where lists of layers have those of either side


@register_keras_serializable(package="keras_headattn")
class Transformer(Model):
    """Encoder-decoder Transformer whose attention is any layer of this library.

    Token id 0 is padding. The output is logits, in float32 under mixed precision too.

    Source: Vaswani et al. 2017, "Attention is all you need".

    Args:
        source_vocabulary_size: number of source token ids.
        target_vocabulary_size: number of target token ids. `None` means that both languages share one
            vocabulary and one embedding.
        num_layers: number of encoder blocks.
        num_decoder_layers: number of decoder blocks. Defaults to `num_layers`.
        hidden_dim: width of the model.
        intermediate_dim: width of the feed-forward layers.
        attention: a layer, such as `InteractingHeadAttention(8, 64)`, whose configuration every block copies; or a
            class or a name, such as `"talking_heads"`, of which each block makes one with `num_heads` heads, together
            as wide as the model; or the stock Keras layer. See `layers.get`.
        decoder_attention, cross_attention: for the decoder's self-attention and for its attention to the encoder.
            Default to `attention`, that to the encoder without relative positions and sliding window.
        num_heads: of attention that is given by a class or a name. Default 8.
        dropout: rate of dropout of embeddings and sublayers.
        activation_dropout: rate of dropout inside the feed-forward layers. (Dropout of attention weights
            is set in `attention`.)
        activation: of the feed-forward layers.
        normalize_first: pre-norm (True) or post-norm (False) blocks.
        norm: normalisation layer whose configuration is copied, such as `keras.layers.RMSNormalization()`. Defaults to
            `keras.layers.LayerNormalization(epsilon=1e-6)`.
        feed_forward: layer whose configuration is copied, in place of `intermediate_dim`, `activation` and
            `activation_dropout`, such as `FeedForward(32, "gelu", gated=True)`.
        positions: layer whose configuration is copied, which adds positions to the embeddings, such as
            `LearnedPositions(128)`. Default `"sinusoidal"`: `SinusoidalPositions()`. `None` for none.
        relative_positions: one of `keras_headattn.positions`, such as `BucketPositions()`, whose configuration is
            copied: the self-attentions of the encoder share one, and those of the decoder another.
        tie_output: whether the output layer is the transposed target embedding.
        output_bias: whether the output layer has a bias. Default False.
        suppress: list of token ids that a `decoding.Searcher` never produces. Default `()`: there are none.
        force_end: whether a `decoding.Searcher` ends each result within its `max_length`. Default False.
        seed: of the dropouts.

    Call arguments:
        inputs: dictionary of integer tensors `"source"` `(B, n)` and `"target"` `(B, m)`, the target
            shifted to the right.
        training: whether dropout is active.
        return_intermediates: returns `(logits, out)`: a dictionary of the name of each attention, such as
            `"encoder_0/attention"`, `"decoder_0/attention"` and `"decoder_0/cross_attention"`, to what it computes on
            the way, by name: `"weights"` `(B, h, n, m)` and so on, see `layers.capture_intermediates`.

    Returns:
        Logits `(B, m, target_vocabulary_size)`.

    Raises:
        ValueError: naming the argument and what was received.

    >>> model = Transformer(100, num_layers=1, hidden_dim=16, intermediate_dim=32, attention="talking_heads")
    >>> inputs = {"source": np.ones((2, 5), "int32"), "target": np.ones((2, 7), "int32")}
    >>> logits, out = model(inputs, return_intermediates=True)
    >>> tuple(logits.shape), tuple(out["decoder_0/cross_attention"]["weights"].shape)
    ((2, 7, 100), (2, 8, 7, 5))
    """

    def __init__(
        self,
        source_vocabulary_size,
        target_vocabulary_size=None,
        num_layers=6,
        num_decoder_layers=None,
        hidden_dim=512,
        intermediate_dim=2048,
        attention="multi_head",
        decoder_attention=None,
        cross_attention=None,
        num_heads=8,
        dropout=0.1,
        activation_dropout=0.0,
        activation="relu",
        normalize_first=False,
        norm=None,
        feed_forward=None,
        positions="sinusoidal",
        relative_positions=None,
        tie_output=True,
        output_bias=False,
        suppress=(),
        force_end=False,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.source_vocabulary_size = positive("source_vocabulary_size", source_vocabulary_size)
        self.target_vocabulary_size = target_vocabulary_size
        if target_vocabulary_size is not None:
            positive("target_vocabulary_size", target_vocabulary_size)
        self.num_layers = positive("num_layers", num_layers)
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        self.num_decoder_layers = positive("num_decoder_layers", num_decoder_layers)
        self.hidden_dim = positive("hidden_dim", hidden_dim)
        self.intermediate_dim = positive("intermediate_dim", intermediate_dim)
        self.num_heads = positive("num_heads", num_heads)
        self.dropout = rate("dropout", dropout)
        self.activation_dropout = rate("activation_dropout", activation_dropout)
        self.activation = activation
        self.normalize_first = normalize_first
        self.tie_output = tie_output
        self.output_bias = output_bias
        self.suppress = tuple(suppress)
        self.force_end = force_end
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ValueError(f"`seed` must be an integer or None. Received: seed={seed!r}")
        self.seed = seed
        self.templates = {
            **self._attention_templates(attention, decoder_attention, cross_attention),
            "norm": Template.of_norm(norm),
            "feed_forward": Template(
                "feed_forward", feed_forward or FeedForward(intermediate_dim, activation, activation_dropout)
            ),
            "positions": Template("positions", SinusoidalPositions() if positions == "sinusoidal" else positions),
            "relative_positions": Template("relative_positions", relative_positions),
        }
        self._make_layers()

    def _attention_templates(self, attention, decoder_attention, cross_attention):
        heads = dict(num_heads=self.num_heads, width=self.hidden_dim)
        template = Template.of_attention("attention", attention, **heads)
        templates = {"attention": template, "decoder_attention": template, "cross_attention": template.across()}
        for name, given in (("decoder_attention", decoder_attention), ("cross_attention", cross_attention)):
            if given is not None:
                templates[name] = Template.of_attention(name, given, **heads)
        return templates

    @classmethod
    def from_size(cls, size, *args, num_heads=None, **kwargs):
        """A `Transformer` of a named size.

        Args:
            size: one of `keras_headattn.models.SIZES`: "tiny", "small", "base", "lite", "interacting".
            num_heads: in place of the size's. Must divide the width.
            *args, **kwargs: as for `Transformer`; arguments that are given replace those of the size.

        Raises:
            ValueError: for a size that is not there, or heads that do not divide the width.

        >>> model = Transformer.from_size("tiny", 100, attention="real_former", num_heads=8)
        >>> model.hidden_dim, model.num_layers
        (128, 4)
        """
        if size not in SIZES:
            raise ValueError(f"There are the sizes {', '.join(SIZES)}. Received: size={size!r}")
        shape = {**SIZES[size], **kwargs}
        if num_heads is not None:
            shape["num_heads"] = num_heads
        return cls(*args, **shape)

    @property
    def max_length(self):
        """Largest number of positions, or `None` where there is no limit."""
        return getattr(self.positions[0], "max_length", None) if self.positions else None

    def _make_layers(self):
        """Makes all layers, in the order in which `weights` has theirs."""
        seeds = (None if self.seed is None else self.seed + 10 * i for i in itertools.count())
        self._make_embeddings()
        has_positions = self.templates["positions"].layer is not None
        self.positions = [self._make("positions", f"{side}_positions") for side in SIDES if has_positions]
        self.dropouts = [
            layers.Dropout(self.dropout, seed=next(seeds), dtype=self.dtype_policy, name=f"{side}_dropout")
            for side in SIDES
        ]
        self.relative_positions = [self._make_relative_positions(stack) for stack in STACKS]
        self._make_blocks(seeds)
        self.norms = [self._make("norm", f"{stack}_norm") for stack in STACKS if self.normalize_first]

    def _make(self, template, name, **overrides):
        return self.templates[template].make(name=name, dtype=self.dtype_policy, **overrides)

    def _make_embeddings(self):
        """Makes the embeddings, one for a shared vocabulary, and the output layer unless it is tied."""
        target_size = self.target_vocabulary_size or self.source_vocabulary_size
        self.target_embedding = self.source_embedding = self._embedding("target_embedding", target_size)
        if self.target_vocabulary_size is not None:
            self.source_embedding = self._embedding("source_embedding", self.source_vocabulary_size)
        self.output_projection = None
        if not self.tie_output:
            self.output_projection = layers.Dense(
                target_size,
                use_bias=self.output_bias,
                kernel_initializer=self._normal(),
                dtype=self.dtype_policy,
                name="output_projection",
            )

    def _embedding(self, name, size):
        return layers.ReversibleEmbedding(
            size, self.hidden_dim, embeddings_initializer=self._normal(), dtype=self.dtype_policy, name=name
        )

    def _normal(self):
        return keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5)

    def _make_relative_positions(self, stack):
        # A decoder looks back only. It needs no buckets for later keys.
        looks_back = stack == "decoder" and hasattr(self.templates["relative_positions"].layer, "bidirectional")
        one_way = {"bidirectional": False} if looks_back else {}
        return self._make("relative_positions", f"{stack}_relative_positions", **one_way)

    def _make_blocks(self, seeds):
        """Makes the blocks. Those of a stack share its relative positions."""
        common = dict(
            norm=self.templates["norm"],
            feed_forward=self.templates["feed_forward"],
            dropout=self.dropout,
            normalize_first=self.normalize_first,
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
        for blocks, positions in zip((self.encoder_blocks, self.decoder_blocks), self.relative_positions, strict=True):
            for block in blocks:
                block.relative_positions = positions

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        self.target_embedding.build((None, None))
        if self.source_embedding is not self.target_embedding:
            self.source_embedding.build((None, None))
        for layer in (*self.positions, *self.norms):
            layer.build(shape)
        build_blocks(self.encoder_blocks, shape)
        build_blocks(self.decoder_blocks, shape, shape)
        if self.output_projection:
            self.output_projection.build(shape)
        elif self.output_bias:
            size = self.target_vocabulary_size or self.source_vocabulary_size
            self.tied_bias = self.add_weight(name="output_bias", shape=(size,), initializer="zeros")
        self.built = True

    def call(self, inputs, training=None, return_intermediates=False):
        if return_intermediates:
            with capture_intermediates() as found:
                logits = self.call(inputs, training)
            return logits, self._by_name(found)
        if not isinstance(inputs, dict) or not {"source", "target"} <= set(inputs):
            received = sorted(inputs) if isinstance(inputs, dict) else type(inputs)
            raise ValueError(f'`inputs` must be a dictionary of "source" and "target". Received: inputs={received}')
        source, target = inputs["source"], inputs["target"]
        memory = self.encode(source, training)
        x = self._embed(TARGET, target, training)
        masks = {"memory_mask": ops.not_equal(source, 0), "x_mask": self._target_mask(target)}
        x = call_blocks(self.decoder_blocks, x, memory, training=training, **masks)
        return self._logits(x, training=training)

    def _target_mask(self, target):
        return ops.not_equal(target, 0)

    def _by_name(self, found):
        """The captured tensors by names of blocks and attentions, in place of paths."""
        named = {
            f"{block.name}/{name}": layer
            for block in (*self.encoder_blocks, *self.decoder_blocks)
            for name, layer in block.attentions.items()
        }
        return {name: found[layer.path] for name, layer in named.items() if layer.path in found}

    def encode(self, source, training=None):
        """Output of the encoder.

        Args:
            source: token ids `(B, n)`, 0 = padding.
            training: whether dropout is active.

        Returns:
            `(B, n, D)`.
        """
        x = self._embed(SOURCE, source, training)
        x = call_blocks(self.encoder_blocks, x, ops.not_equal(source, 0), training=training)
        return self._finish(SOURCE, x, training)

    def _finish(self, side, x, training):
        """Output of a stack from that of its last block."""
        return self.norms[side](x) if self.norms else x

    def decoding_kernels(self):
        """Kernels of decoding, made once from the weights, see `Attention.decoding_kernels`.

        Returns:
            Dictionary of `"blocks"`, a list of those of the decoder blocks, and `"output"`, of the output layer.
        """
        made = {"blocks": [block.decoding_kernels() for block in self.decoder_blocks]}
        if self.tie_output and self.target_embedding.quantization_mode is None:
            kernel = ops.transpose(self.target_embedding.embeddings)
            made["output"] = {"kernel": ops.cast(kernel, self.compute_dtype)}
            if self.output_bias:
                made["output"]["bias"] = ops.cast(self.tied_bias, self.compute_dtype)
        return made

    def init_cache(self, source, max_length, copies=1, kernels=None):
        """State of decoding translations of `source`, for `decode_step`.

        Args:
            source: token ids `(B, n)`, 0 = padding.
            max_length: number of rows of the cache: tokens of all steps together.
            copies: number of translations of each source, which is encoded once; they lie side by side.
            kernels: of `decoding_kernels`. Default `None`: the layers' own are used.

        Returns:
            Dictionary of `"blocks"`, the decoder blocks' caches, and `"source_mask"` `(B * copies, n)`.
        """
        of_blocks = self._kernels_of_blocks(kernels)
        memory, mask = self.encode(source, training=False), ops.not_equal(source, 0)
        if copies > 1:
            memory, mask = (ops.repeat(x, copies, axis=0) for x in (memory, mask))
        return {
            "blocks": [
                block.init_cache(memory, max_length, its)
                for block, its in zip(self.decoder_blocks, of_blocks, strict=True)
            ],
            "source_mask": mask,
        }

    def _kernels_of_blocks(self, kernels):
        return kernels["blocks"] if kernels else [None] * len(self.decoder_blocks)

    def decode_step(self, tokens, cache, index, positions=None, attention_mask=None, kernels=None):
        """Logits of the tokens that follow `tokens`.

        Args:
            tokens: `(B, n)`: written to rows `index, index + 1, ...` of the cache.
            cache: from `init_cache` or the step before.
            index: integer or scalar tensor.
            positions: positions of the tokens in the sentence, `(n,)`. Default to their rows.
            attention_mask: boolean `(B, n, max_length)`: the rows each token may attend to. Defaults to
                its own and all before.
            kernels: of `decoding_kernels`. Default `None`: the layers' own are used.

        Returns:
            `(logits (B, n, vocabulary), cache)`.
        """
        if positions is None:
            positions = ops.arange(ops.shape(tokens)[1], dtype="int32") + index
        x = self._embed(TARGET, tokens, False, positions)
        if attention_mask is not None:
            attention_mask = attention_mask[:, None]  # once for all blocks
        blocks, maps = [], {}
        of_blocks = self._kernels_of_blocks(kernels)
        for block, state, its in zip(self.decoder_blocks, cache["blocks"], of_blocks, strict=True):
            x, state = block(
                x,
                memory_mask=cache["source_mask"],
                attention_mask=attention_mask,
                cache=state,
                index=index,
                positions=positions,
                training=False,
                previous_maps=maps,
                return_state=True,
                kernels=its,
            )
            maps = state["maps"]
            blocks.append(state["cache"])
        return self._logits(x, (kernels or {}).get("output")), {**cache, "blocks": blocks}

    @property
    def beams_share_rows(self):
        """Whether the hypotheses of a beam may lie side by side in one cache, in any order."""
        attentions = [layer for block in self.decoder_blocks for layer in block.attentions.values()]
        return not any(layer.rows_interact for layer in attentions)

    def grow_cache(self, cache, max_length):
        """The cache with room for more tokens.

        Args:
            cache: from `init_cache` or `decode_step`.
            max_length: number of rows, an integer, no fewer than there are.

        Returns:
            Cache of the same structure.
        """
        blocks = [
            block.grow_cache(state, max_length)
            for block, state in zip(self.decoder_blocks, cache["blocks"], strict=True)
        ]
        return {**cache, "blocks": blocks}

    def reorder_cache(self, cache, rows):
        """The cache of a batch whose sentences are `rows` of this one, as hypotheses of the same sources.

        Args:
            cache: from `init_cache` or `decode_step`.
            rows: integers `(B,)`.

        Returns:
            Cache of the same structure.
        """
        blocks = [
            block.reorder_cache(state, rows) for block, state in zip(self.decoder_blocks, cache["blocks"], strict=True)
        ]
        return {**cache, "blocks": blocks}

    def _embed(self, side, tokens, training, positions=None):
        embedding = (self.source_embedding, self.target_embedding)[side]
        x = embedding(tokens) * self.hidden_dim**0.5
        if self.positions:
            x = self.positions[side](x, positions)
        return self.dropouts[side](x, training=training)

    def _logits(self, x, weights=None, training=False):
        x = self._finish(TARGET, x, training)
        if self.output_projection:
            logits = self.output_projection(x)
        elif weights is not None:
            logits = apply_kernel(weights, x)
            logits = ops.reshape(logits, (*sizes(x)[:-1], logits.shape[-1]))
        else:
            logits = self.target_embedding(x, reverse=True)
            if self.output_bias:
                logits = logits + ops.cast(self.tied_bias, logits.dtype)
        return ops.cast(logits, "float32")

    def get_config(self):
        names = (
            "source_vocabulary_size",
            "target_vocabulary_size",
            "num_layers",
            "num_decoder_layers",
            "hidden_dim",
            "intermediate_dim",
            "num_heads",
            "dropout",
            "activation_dropout",
            "activation",
            "normalize_first",
            "tie_output",
            "output_bias",
            "suppress",
            "force_end",
            "seed",
        )
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            **{name: template.serialize() for name, template in self.templates.items()},
        }

import itertools

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._validation import positive
from keras_headattn.layers._multi_head_attention import MultiHeadAttention
from keras_headattn.layers._template import Template
from keras_headattn.layers._transformer_block import DecoderBlock, EncoderBlock
from keras_headattn.models import SIZES
from keras_headattn.positions._absolute import LearnedPositions, SinusoidalPositions


@register_keras_serializable(package="keras_headattn")
class Transformer(keras.Model):
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
        attention: template layer, such as `InteractingHeadAttention(8, 64)`, whose configuration every
            block copies. Defaults to `MultiHeadAttention(8, hidden_dim // 8)`.
        decoder_attention, cross_attention: templates for the decoder's self-attention and for its attention to
            the encoder. Default to `attention`.
        dropout: rate of dropout of embeddings and sublayers.
        activation_dropout: rate of dropout inside the feed-forward layers. (Dropout of attention weights
            is set in the templates.)
        activation: of the feed-forward layers.
        norm_first: pre-norm (True) or post-norm (False) blocks.
        max_length: `None` for sinusoidal positions, or the number of learned positions.
        tie_output: whether the output layer is the transposed target embedding.
        seed: of the dropouts.

    Call arguments:
        inputs: dictionary of integer tensors `"source"` `(B, n)` and `"target"` `(B, m)`, the target
            shifted to the right.
        return_attention_scores: returns `(logits, maps)`: a dictionary of lists, one map `(B, h, n, m)` a
            block, for `"encoder"`, `"decoder"` and `"cross"`.

    Returns:
        Logits `(B, m, target_vocabulary_size)`.

    >>> model = Transformer(100, num_layers=1, hidden_dim=16, intermediate_dim=32)
    >>> inputs = {"source": np.ones((2, 5), "int32"), "target": np.ones((2, 7), "int32")}
    >>> tuple(model(inputs).shape)
    (2, 7, 100)
    """

    def __init__(
        self,
        source_vocabulary_size,
        target_vocabulary_size=None,
        num_layers=6,
        num_decoder_layers=None,
        hidden_dim=512,
        intermediate_dim=2048,
        attention=None,
        decoder_attention=None,
        cross_attention=None,
        dropout=0.1,
        activation_dropout=0.0,
        activation="relu",
        norm_first=False,
        max_length=None,
        tie_output=True,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        self.num_layers = positive("num_layers", num_layers)
        self.num_decoder_layers = positive("num_decoder_layers", num_decoder_layers)
        self.hidden_dim = positive("hidden_dim", hidden_dim)
        self.intermediate_dim = positive("intermediate_dim", intermediate_dim)
        if attention is None:
            if hidden_dim % 8:
                raise ValueError(
                    "`hidden_dim` must be a multiple of the 8 heads of the default attention; or give "
                    f"`attention`. Received: hidden_dim={hidden_dim}"
                )
            attention = MultiHeadAttention(8, hidden_dim // 8)
        self.templates = {
            "attention": Template("attention", attention),
            "decoder_attention": Template("decoder_attention", decoder_attention or attention),
            "cross_attention": Template("cross_attention", cross_attention or attention),
        }
        self.source_vocabulary_size = source_vocabulary_size
        self.target_vocabulary_size = target_vocabulary_size
        self.dropout = dropout
        self.activation_dropout = activation_dropout
        self.activation = activation
        self.norm_first = norm_first
        self.max_length = max_length
        self.tie_output = tie_output
        self.seed = seed
        self._make_layers()

    @classmethod
    def from_size(cls, size, *args, attention=MultiHeadAttention, num_heads=None, **kwargs):
        """A `Transformer` of a named size.

        Args:
            size: one of `keras_headattn.models.SIZES`: "tiny", "small", "base", "lite", "interacting".
            attention: class, or function, of `num_heads` and `key_dim` that makes the template of all attention.
            num_heads: in place of the size's. Must divide the width.
            *args, **kwargs: as for `Transformer`; what is given goes before what the size says.

        Raises:
            ValueError: for a size that is not there, heads that do not divide the width, or a layer as `attention`.

        >>> model = Transformer.from_size("tiny", 100, num_heads=8)
        >>> model.hidden_dim, model.num_layers
        (128, 4)
        """
        if isinstance(attention, layers.Layer) or not callable(attention):
            raise ValueError(
                "`attention` must be a class, or a function of `num_heads` and `key_dim`, as the size says these; "
                f"a layer goes to `Transformer`. Received: attention={attention!r}"
            )
        if size not in SIZES:
            raise ValueError(f"There are the sizes {', '.join(SIZES)}. Received: size={size!r}")
        shape = {**SIZES[size], **kwargs}
        heads, width = shape["num_heads"] if num_heads is None else num_heads, shape["hidden_dim"]
        del shape["num_heads"]
        if heads < 1 or width % heads:
            raise ValueError(
                f"`num_heads` must divide the width of the model. Received: num_heads={heads} for a width of {width}"
            )
        return cls(*args, attention=attention(num_heads=heads, key_dim=width // heads), **shape)

    def _make_layers(self):
        block = dict(
            intermediate_dim=self.intermediate_dim,
            dropout=self.dropout,
            activation=self.activation,
            activation_dropout=self.activation_dropout,
            norm_first=self.norm_first,
            dtype=self.dtype_policy,
        )
        seeds = (None if self.seed is None else self.seed + 10 * i for i in itertools.count())
        shared = self.target_vocabulary_size is None
        target_size = self.source_vocabulary_size if shared else self.target_vocabulary_size
        self.target_embedding = self._embedding("target_embedding", target_size)
        self.source_embedding = (
            self.target_embedding if shared else self._embedding("source_embedding", self.source_vocabulary_size)
        )
        self.output_projection = (
            None
            if self.tie_output
            else layers.Dense(
                target_size,
                use_bias=False,
                kernel_initializer=self._normal(),
                dtype=self.dtype_policy,
                name="output_projection",
            )
        )
        self.positions = [
            SinusoidalPositions(dtype=self.dtype_policy, name=f"{side}_positions")
            if self.max_length is None
            else LearnedPositions(self.max_length, dtype=self.dtype_policy, name=f"{side}_positions")
            for side in ("source", "target")
        ]
        self.dropouts = [
            layers.Dropout(self.dropout, seed=next(seeds), dtype=self.dtype_policy, name=f"{side}_dropout")
            for side in ("source", "target")
        ]
        self.encoder_blocks = [
            EncoderBlock(self.templates["attention"], seed=next(seeds), name=f"encoder_{i}", **block)
            for i in range(self.num_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(
                self.templates["decoder_attention"],
                cross_attention=self.templates["cross_attention"],
                seed=next(seeds),
                name=f"decoder_{i}",
                **block,
            )
            for i in range(self.num_decoder_layers)
        ]
        self.norms = [
            layers.LayerNormalization(epsilon=1e-6, dtype=self.dtype_policy, name=f"{side}_norm")
            for side in (("encoder", "decoder") if self.norm_first else ())
        ]

    def _embedding(self, name, size):
        return layers.ReversibleEmbedding(
            size, self.hidden_dim, embeddings_initializer=self._normal(), dtype=self.dtype_policy, name=name
        )

    def _normal(self):
        return keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5)

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        self.target_embedding.build((None, None))
        if self.source_embedding is not self.target_embedding:
            self.source_embedding.build((None, None))
        for layer in (*self.positions, *self.norms):
            layer.build(shape)
        map_shape = None
        for block in self.encoder_blocks:
            block.build(shape, map_shape)
            map_shape = block.map_shape
        map_shape = cross_map_shape = None
        for block in self.decoder_blocks:
            block.build(shape, shape, map_shape, cross_map_shape)
            map_shape, cross_map_shape = block.map_shape, block.cross_map_shape
        if self.output_projection:
            self.output_projection.build(shape)
        self.built = True

    def call(self, inputs, training=None, return_attention_scores=False):
        source, target = inputs["source"], inputs["target"]
        encoded = self.encode(source, training, return_attention_scores)
        memory, encoder_maps = encoded if return_attention_scores else (encoded, None)
        x = self._embed(1, self.target_embedding, target, training)
        mask = ops.not_equal(source, 0)
        maps = {"encoder": encoder_maps, "decoder": [], "cross": []}
        carried = (None, None)
        for block in self.decoder_blocks:
            x, *scores = block(
                x,
                memory,
                mask,
                training=training,
                return_attention_scores=return_attention_scores,
                previous_map=carried[0],
                previous_cross_map=carried[1],
                return_map=True,
                x_mask=ops.not_equal(target, 0),
            )
            scores, carried = scores[:-2], scores[-2:]
            for name, weights in zip(("decoder", "cross"), scores, strict=False):
                maps[name].append(weights)
        logits = self._logits(x)
        return (logits, maps) if return_attention_scores else logits

    def encode(self, source, training=None, return_attention_scores=False):
        """Output of the encoder.

        Args:
            source: token ids `(B, n)`, 0 = padding.
            training: whether dropout is active.
            return_attention_scores: returns `(output, maps)`, with one map `(B, h, n, n)` a block.

        Returns:
            `(B, n, D)`.
        """
        mask, maps = ops.not_equal(source, 0), []
        x = self._embed(0, self.source_embedding, source, training)
        carried = None
        for block in self.encoder_blocks:
            x, *weights, carried = block(
                x,
                mask,
                training=training,
                return_attention_scores=return_attention_scores,
                previous_map=carried,
                return_map=True,
            )
            maps += weights
        x = self.norms[0](x) if self.norms else x
        return (x, maps) if return_attention_scores else x

    def init_cache(self, source, max_length, copies=1):
        """State of decoding translations of `source`, for `decode_step`.

        Args:
            source: token ids `(B, n)`, 0 = padding.
            max_length: number of rows of the cache: tokens of all steps together.
            copies: number of translations of each source, which is encoded once; they lie side by side.

        Returns:
            Dictionary of `"blocks"`, the decoder blocks' caches, `"source_mask"` `(B * copies, n)`, and with a tied
            output layer `"output_kernel"` `(D, vocabulary)`.
        """
        memory, mask = self.encode(source, training=False), ops.not_equal(source, 0)
        if copies > 1:
            memory, mask = (ops.repeat(x, copies, axis=0) for x in (memory, mask))
        cache = {
            "blocks": [block.init_cache(memory, max_length) for block in self.decoder_blocks],
            "source_mask": mask,
        }
        if self.tie_output and self.target_embedding.quantization_mode is None:
            # Transposed once: products of a few rows with it are faster.
            cache["output_kernel"] = ops.cast(ops.transpose(self.target_embedding.embeddings), self.compute_dtype)
        return cache

    def decode_step(self, tokens, cache, index, positions=None, attention_mask=None):
        """Logits of the tokens that follow `tokens`.

        Args:
            tokens: `(B, n)`: written to rows `index, index + 1, ...` of the cache.
            cache: from `init_cache` or the step before.
            index: integer or scalar tensor.
            positions: positions of the tokens in the sentence, `(n,)`. Default to their rows.
            attention_mask: boolean `(B, n, max_length)`: the rows each token may attend to. Defaults to
                its own and all before.

        Returns:
            `(logits (B, n, vocabulary), cache)`.
        """
        if positions is None:
            positions = ops.arange(ops.shape(tokens)[1], dtype="int32") + index
        x = self._embed(1, self.target_embedding, tokens, False, positions)
        blocks, carried = [], (None, None)
        for block, state in zip(self.decoder_blocks, cache["blocks"], strict=True):
            x, *carried, state = block(
                x,
                memory_mask=cache["source_mask"],
                attention_mask=attention_mask,
                cache=state,
                index=index,
                positions=positions,
                training=False,
                previous_map=carried[0],
                previous_cross_map=carried[1],
                return_map=True,
            )
            blocks.append(state)
        return self._logits(x, cache.get("output_kernel")), {**cache, "blocks": blocks}

    @property
    def beams_share_rows(self):
        """Whether the hypotheses of a beam may lie side by side in one cache, in any order."""
        layers = [layer for block in self.decoder_blocks for layer in (block.attention, block.cross_attention)]
        return not any(layer.rows_interact for layer in layers)

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

    def _embed(self, side, embedding, tokens, training, positions=None):
        x = embedding(tokens) * self.hidden_dim**0.5
        return self.dropouts[side](self.positions[side](x, positions), training=training)

    def _logits(self, x, kernel=None):
        x = self.norms[1](x) if self.norms else x
        if self.output_projection:
            logits = self.output_projection(x)
        elif kernel is not None:
            logits = ops.tensordot(x, kernel, axes=1)
        else:
            logits = self.target_embedding(x, reverse=True)
        return ops.cast(logits, "float32")

    def compute_output_spec(self, *args, **kwargs):
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        names = (
            "source_vocabulary_size",
            "target_vocabulary_size",
            "num_layers",
            "num_decoder_layers",
            "hidden_dim",
            "intermediate_dim",
            "dropout",
            "activation_dropout",
            "activation",
            "norm_first",
            "max_length",
            "tie_output",
            "seed",
        )
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            **{name: template.serialize() for name, template in self.templates.items()},
        }

from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus, serialize_layer
from keras_headattn._model import Model
from keras_headattn._types import Activation, AttentionLike, Tensor
from keras_headattn._validation import check_boolean, check_index, check_number, check_positive, check_probability
from keras_headattn.layers import EncoderBlock, FeedForward
from keras_headattn.layers._intermediates import with_intermediates
from keras_headattn.layers._norms import apply_norm
from keras_headattn.layers._template import Template
from keras_headattn.models._bert.sizes import BERT_SIZES
from keras_headattn.models._blocks import Stack
from keras_headattn.models._sizes import arguments_of_size
from keras_headattn.ops._masks import causal_mask
from keras_headattn.positions import LearnedPositions, Positions

# Layers that another model may share.
EMBEDDINGS = ("token_embedding", "segment_embedding", "position_embedding", "embedding_norm")


@register_keras_serializable(package="keras_headattn")
class Bert(Model):
    """Encoder of BERT, RoBERTa, ELECTRA and ModernBERT with any attention layer of this library.

    Score maps, as in `EvolvingAttention`, are passed from block to block. Padding changes no other position's output.

    Source: Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers"; Liu et al. 2019, "RoBERTa";
    Clark et al. 2020, "ELECTRA"; Warner et al. 2024, "Smarter, better, faster, longer" (ModernBERT), section 2.1;
    Wang et al. 2021, "Evolving attention with residual convolutions", section 4.2.

    Args:
        vocabulary_size: number of token ids.
        hidden_dim, intermediate_dim: width of the encoder and of its feed-forward layers.
        num_layers: number of blocks.
        num_heads: for attention given by a class or a name.
        attention: a layer, which every block copies, with its own dropout and initializer; or a class, a name or a
            function, such as `functools.partial(EvolvingAttention, alpha=0.1, beta=0.1)`, which is given `num_heads`,
            `key_dim`, `dropout` and `kernel_initializer`; or the stock Keras layer. See `layers.get`.
        max_length: number of learned positions; 0 for none. Later ones get the last vector if the length is not known
            statically.
        num_segments: number of segments with embeddings; 0 for none.
        embedding_dim: width of the embeddings. If it is not `hidden_dim`, a dense layer projects them, as in ELECTRA.
            Default `None`: that of `embeddings`, or `hidden_dim`.
        pad_id: token id of padding.
        skip_padding: if True, positions count from the first real token, as in RoBERTa.
        activation: of the feed-forward layers. `"gelu"` is exact, `"gelu_tanh"` its tanh formula.
        norm_epsilon: of layer normalisation.
        dropout, seed: rate of dropout of embeddings and sublayers, and seed.
        attention_dropout: rate of dropout of attention weights, for attention given by a class or a name.
        pooler: True for a dense layer with tanh on the first token.
        initializer_range: deviation of the normal distribution, cut at two deviations, of kernels and embeddings,
            including those of a head. Default 0.02, as published for widths from 256. Narrow encoders may learn more
            with a larger one, such as `hidden_dim ** -0.5`.
        recompute: True to keep only each block's inputs for the backward pass and compute the rest again: less memory,
            but a third more time.
        embeddings: a `Bert` to share embeddings and their norm with, as ELECTRA's generator does. Not saved in the
            configuration.
        normalize_first: True for pre-norm blocks and a norm after the last one. The first block then has no norm before
            its attention, as the embeddings have theirs.
        relative_positions: one of `keras_headattn.positions` to copy, shared by all blocks. Default `None`: none, or
            those of `attention`.
        local_positions: the same for blocks with a sliding window. Default `None`: `relative_positions`.
        sliding_window: a query attends only to keys less than this many positions away, but for that of every
            `global_every`-th block, from the first. Default `None`: no window, or that of `attention`.
        global_every: distance of the blocks without a sliding window.
        gated: True for a gate in the feed-forward layers, as in `layers.FeedForward`.
        use_bias: False for dense layers and norms without biases. A head's output layer keeps its own.

    Call arguments:
        inputs: token ids, integers `(B, n)`; or a dictionary of `"token_ids"` and, if there are any, `"segment_ids"`
            and `"sequence_ids"`, all `(B, n)`. Segments default to 0. With several texts packed in a row,
            `"sequence_ids"` tell them apart: a token attends only to tokens with the same id, and learned positions
            count from 0 in each text.
        return_intermediates: returns `(outputs, out)`: a dictionary of attentions, such as `"block_0/attention"`, to
            their tensors by name, such as `"weights"` `(B, h, n, n)`, see `layers.capture_intermediates`.

    Returns:
        Dictionary of `"sequence_output"` `(B, n, hidden_dim)` and, with a pooler, `"pooled_output"` `(B, hidden_dim)`.

    >>> model = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=2, num_heads=4, attention="evolving")
    >>> outputs, out = model(np.ones((2, 5), "int32"), return_intermediates=True)
    >>> tuple(outputs["sequence_output"].shape), tuple(outputs["pooled_output"].shape)
    ((2, 5, 16), (2, 16))
    >>> tuple(out["block_1/attention"]["weights"].shape)
    (2, 4, 5, 5)
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int = 768,
        intermediate_dim: int = 3072,
        num_layers: int = 12,
        num_heads: int = 12,
        attention: AttentionLike = "multi_head",
        max_length: int = 512,
        num_segments: int = 2,
        embedding_dim: int | None = None,
        pad_id: int = 0,
        skip_padding: bool = False,
        activation: Activation = "gelu",
        norm_epsilon: float = 1e-12,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        pooler: bool = True,
        initializer_range: float = 0.02,
        recompute: bool = False,
        seed: int | None = None,
        embeddings: "Bert | None" = None,
        normalize_first: bool = False,
        relative_positions: Positions | None = None,
        local_positions: Positions | None = None,
        sliding_window: int | None = None,
        global_every: int = 3,
        gated: bool = False,
        use_bias: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        if embedding_dim is None:
            embedding_dim = hidden_dim if embeddings is None else embeddings.embedding_dim
        self.vocabulary_size = check_positive("vocabulary_size", vocabulary_size)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.intermediate_dim = check_positive("intermediate_dim", intermediate_dim)
        self.num_layers = check_positive("num_layers", num_layers)
        self.num_heads = check_positive("num_heads", num_heads)
        self.max_length = check_index("max_length", max_length)
        self.num_segments = check_index("num_segments", num_segments)
        self.embedding_dim: int = check_positive("embedding_dim", embedding_dim)
        self.pad_id = check_index("pad_id", pad_id)
        if pad_id >= vocabulary_size:
            raise ValueError(f"`pad_id` must be less than `vocabulary_size`. Received: {pad_id} of {vocabulary_size}")
        self.skip_padding = check_boolean("skip_padding", skip_padding)
        self.activation = activation
        self.norm_epsilon = norm_epsilon
        self.dropout = check_probability("dropout", dropout)
        self.attention_dropout = check_probability("attention_dropout", attention_dropout)
        self.initializer_range = check_number("initializer_range", initializer_range, above=0)
        self.recompute = check_boolean("recompute", recompute)
        self.seed = check_seed("seed", seed)
        self.normalize_first = check_boolean("normalize_first", normalize_first)
        self.sliding_window = None if sliding_window is None else check_positive("sliding_window", sliding_window)
        self.global_every = check_positive("global_every", global_every)
        self.gated = check_boolean("gated", gated)
        self.use_bias = check_boolean("use_bias", use_bias)
        given = dict(dropout=attention_dropout, kernel_initializer=self.initializer())
        given |= {} if use_bias else {"use_bias": False}
        self.template = Template.of_attention("attention", attention, num_heads, hidden_dim, **given)
        if embeddings is None:
            self._make_embeddings()
        else:
            self._take_embeddings(embeddings)
        self.embedding_dropout = layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        self.embedding_projection = None
        if embedding_dim != hidden_dim:
            self.embedding_projection = self._dense("embedding_projection", init="glorot_uniform")
        self.relative_positions = self._copy_positions("relative_positions", relative_positions)
        self.local_positions = self._copy_positions("local_positions", local_positions) or self.relative_positions
        self.blocks = [self._make_block(number) for number in range(num_layers)]
        self.stack = Stack(self.blocks)
        self.final_norm = self._norm("final_norm") if normalize_first else None
        self.pooler = self._dense("pooler", "tanh") if check_boolean("pooler", pooler) else None

    @classmethod
    def from_size(cls, size: str, **kwargs: Any) -> Self:
        """Makes a `Bert` of a named size, with random weights.

        Args:
            size: one of `keras_headattn.models.BERT_SIZES`, such as "bert_base", "roberta_large" or "electra_small".
            **kwargs: arguments of `Bert`, which override the size's.

        >>> model = Bert.from_size("bert_tiny", attention="real_former")
        >>> model.hidden_dim, model.num_layers
        (128, 2)
        """
        return cls(**arguments_of_size(BERT_SIZES, size, **kwargs))

    def initializer(self) -> keras.initializers.Initializer:
        """Returns a new initializer of kernels and embeddings, see `initializer_range`."""
        return keras.initializers.TruncatedNormal(stddev=self.initializer_range)

    def _make_embeddings(self):
        common = dict(embeddings_initializer=self.initializer(), dtype=self.dtype_policy)
        width = self.embedding_dim
        self.token_embedding = layers.ReversibleEmbedding(self.vocabulary_size, width, name="token_embedding", **common)
        self.segment_embedding = None
        if self.num_segments:
            common["embeddings_initializer"] = self.initializer()
            self.segment_embedding = layers.Embedding(self.num_segments, width, name="segment_embedding", **common)
        self.position_embedding = None
        if self.max_length:
            self.position_embedding = LearnedPositions(
                self.max_length, self.initializer(), dtype=self.dtype_policy, name="position_embedding"
            )
        self.embedding_norm = self._norm("embedding_norm")

    def _take_embeddings(self, other):
        for name in ("vocabulary_size", "embedding_dim", "max_length", "num_segments"):
            if getattr(self, name) != getattr(other, name):
                raise ValueError(
                    f"`embeddings` must be a Bert of the same `{name}`. "
                    f"Received: {name}={getattr(self, name)}, and {getattr(other, name)} of {other.name}"
                )
        for name in EMBEDDINGS:
            setattr(self, name, getattr(other, name))

    def _copy_positions(self, name, positions):
        return Template(name, positions).make(dtype=self.dtype_policy, name=name)

    def _norm(self, name=None):
        return layers.LayerNormalization(
            epsilon=self.norm_epsilon, center=self.use_bias, dtype=self.dtype_policy, name=name
        )

    def _dense(self, name, activation=None, init=None):
        init = self.initializer() if init is None else init
        options = dict(use_bias=self.use_bias, kernel_initializer=init, dtype=self.dtype_policy, name=name)
        return layers.Dense(self.hidden_dim, activation, **options)

    def _make_block(self, number):
        is_local = self.sliding_window is not None and number % self.global_every > 0
        feed_forward = FeedForward(
            self.intermediate_dim,
            self.activation,
            gated=self.gated,
            use_bias=self.use_bias,
            kernel_initializer=self.initializer(),
        )
        block = EncoderBlock(
            self.template.make(sliding_window=self.sliding_window) if is_local else self.template,
            feed_forward=feed_forward,
            dropout=self.dropout,
            recompute=self.recompute,
            normalize_first=self.normalize_first,
            norm=self._norm(),
            depth=number,
            seed=seed_plus(self.seed, 10 * (number + 1)),
            dtype=self.dtype_policy,
            name=f"block_{number}",
        )
        block.relative_positions = self.local_positions if is_local else self.relative_positions
        block.takes_normalized = self.normalize_first and number == 0 and self.embedding_projection is None
        return block

    def build(self, input_shape: Any = None) -> None:
        embedded, shape = ((None, None, width) for width in (self.embedding_dim, self.hidden_dim))
        for name, input_shape in zip(EMBEDDINGS, ((None, None), (None, None), embedded, embedded), strict=True):
            layer = getattr(self, name)
            if layer is not None and not layer.built:  # another model's may be
                layer.build(input_shape)
        if self.embedding_projection is not None:
            self.embedding_projection.build(embedded)
        self.stack.build(shape)
        if self.final_norm is not None:
            self.final_norm.build(shape)
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_dim))
        self.built = True

    def call(
        self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None, return_intermediates: bool = False
    ) -> Any:
        if return_intermediates:
            return with_intermediates({block.name: block for block in self.blocks}, self.call, inputs, training)
        ids, segments, sequences = self._read(inputs)
        x = self.embed(ids, segments, training, sequences)
        x = self.stack(x, ops.not_equal(ids, self.pad_id), segment_ids=sequences, training=training)
        x = x if self.final_norm is None else apply_norm(self.final_norm, x)
        return {"sequence_output": x} | ({} if self.pooler is None else {"pooled_output": self.pooler(x[:, 0])})

    def compute_mask(self, inputs: Tensor | Mapping[str, Tensor], previous_mask: Tensor | None = None) -> Tensor:
        mask = ops.not_equal(self._read(inputs)[0], self.pad_id)
        return {"sequence_output": mask} | ({} if self.pooler is None else {"pooled_output": None})

    def _read(self, inputs):
        """Returns token ids, segments and sequences."""
        if not isinstance(inputs, dict):
            return inputs, None, None
        names = ("token_ids", "segment_ids", "sequence_ids") if self.num_segments else ("token_ids", "sequence_ids")
        if "token_ids" not in inputs or not set(inputs) <= set(names):
            raise ValueError(
                '`inputs` must be token ids, or a dictionary of "token_ids", "sequence_ids" of packed texts and, for a '
                f'model with segments, "segment_ids". Received: inputs={sorted(inputs)}, '
                f"num_segments={self.num_segments}"
            )
        return inputs["token_ids"], inputs.get("segment_ids"), inputs.get("sequence_ids")

    def embed(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        training: bool | None = None,
        sequence_ids: Tensor | None = None,
    ) -> Tensor:
        """Returns embeddings as the first block receives them, `(B, n, D)`.

        Args:
            token_ids: integers `(B, n)`.
            segment_ids: integers `(B, n)`; default `None`: all 0.
            training: True to apply dropout.
            sequence_ids: integers `(B, n)` of packed texts; default `None`: one text a row.
        """
        x = self.token_embedding(token_ids)
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(ops.zeros_like(token_ids) if segment_ids is None else segment_ids)
        if self.position_embedding is not None:
            x = self.position_embedding(x, self._positions(token_ids, sequence_ids))
        x = self.embedding_dropout(apply_norm(self.embedding_norm, x), training=training)
        return x if self.embedding_projection is None else self.embedding_projection(x)

    def _positions(self, ids, sequence_ids):
        """Returns positions `(B, n)`, or `None` where all tokens of a row count."""
        if sequence_ids is None and not self.skip_padding:
            return None
        counts = ops.not_equal(ids, self.pad_id) if self.skip_padding else ops.ones_like(ids, "bool")
        if sequence_ids is not None:
            is_before = ops.logical_and(
                ops.equal(sequence_ids[:, :, None], sequence_ids[:, None]), causal_mask(*ops.shape(ids)[1:] * 2)
            )
            counts = ops.cast(ops.logical_and(is_before, counts[:, None]), "int32")
            return ops.maximum(ops.sum(counts, axis=-1) - 1, 0)
        length = ids.shape[1]
        if length is not None and length > self.max_length:
            raise ValueError(
                f"There are positions for {self.max_length} tokens; make the model with a larger `max_length`. "
                f"Received: a sequence of {length}"
            )
        return ops.maximum(ops.cumsum(ops.cast(counts, "int32"), axis=1) - 1, 0)

    def get_config(self) -> dict[str, Any]:
        is_shared = self.local_positions is self.relative_positions
        return {
            **super().get_config(),
            **arguments_of(self, Bert, "attention", "pooler", "embeddings", "relative_positions", "local_positions"),
            "attention": self.template.serialize(),
            "relative_positions": serialize_layer(self.relative_positions),
            "local_positions": None if is_shared else serialize_layer(self.local_positions),
            "pooler": self.pooler is not None,
        }

from collections.abc import Mapping
from typing import Any

from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Activation, AttentionLike, Tensor
from keras_headattn._validation import check_boolean, check_index, check_positive
from keras_headattn.layers._norms import apply_norm
from keras_headattn.models._bert.encoder import Encoder
from keras_headattn.models._bert.sizes import BERT_SIZES
from keras_headattn.models._blocks import Stack
from keras_headattn.ops._masks import causal_mask
from keras_headattn.positions import LearnedPositions
from keras_headattn.positions._absolute import check_positions

# Layers that another model may share.
EMBEDDINGS = ("token_embedding", "segment_embedding", "position_embedding", "embedding_norm")


@register_keras_serializable(package="keras_headattn")
class Bert(Encoder):
    """Encoder of BERT, RoBERTa and ELECTRA with any attention layer of this library.

    Score maps, as in `EvolvingAttention`, are passed from block to block. Padding changes no other position's output.

    Source: Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers"; Liu et al. 2019, "RoBERTa";
    Clark et al. 2020, "ELECTRA"; Wang et al. 2021, "Evolving attention with residual convolutions", section 4.2.

    Args:
        vocabulary_size: number of token ids.
        hidden_dim, intermediate_dim: width of the encoder and of its feed-forward layers.
        num_layers: number of blocks.
        num_heads: for attention given by a class or a name.
        attention: a layer, which every block copies, with its own dropout and initializer; or a class, a name or a
            function, such as `functools.partial(EvolvingAttention, alpha=0.1, beta=0.1)`, which is given those of
            `num_heads`, `key_dim`, `dropout` and `kernel_initializer` that it lacks; or the stock Keras layer. See
            `layers.get`.
        max_length: number of learned positions; 0 for none. With XLA, if the length is not known before, later ones get
            the last vector.
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

    sizes = BERT_SIZES

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
        **kwargs: Any,
    ):
        super().__init__(
            vocabulary_size, hidden_dim, intermediate_dim, num_layers, num_heads, attention, pad_id, activation,
            norm_epsilon, dropout, attention_dropout, initializer_range, recompute, seed, **kwargs,
        )  # fmt: skip
        self.max_length = check_index("max_length", max_length)
        self.num_segments = check_index("num_segments", num_segments)
        self.takes_segments = num_segments > 0
        if embedding_dim is not None:
            self.embedding_dim = check_positive("embedding_dim", embedding_dim)
        elif embeddings is not None:
            self.embedding_dim = embeddings.embedding_dim
        self.skip_padding = check_boolean("skip_padding", skip_padding)
        if embeddings is None:
            self._make_embeddings()
        else:
            self._take_embeddings(embeddings)
        self.embedding_dropout = layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        self.embedding_projection = None
        if self.embedding_dim != hidden_dim:
            self.embedding_projection = self._dense("embedding_projection", init="glorot_uniform")
        self.blocks = [self._make_block(index, self.template) for index in range(num_layers)]
        self.stack = Stack(self.blocks)
        self.pooler = self._dense("pooler", "tanh") if check_boolean("pooler", pooler) else None

    def _make_embeddings(self):
        self.token_embedding = self._make_token_embedding()
        self.segment_embedding = None
        if self.num_segments:
            self.segment_embedding = layers.Embedding(
                self.num_segments,
                self.embedding_dim,
                embeddings_initializer=self.initializer(),
                dtype=self.dtype_policy,
                name="segment_embedding",
            )
        self.position_embedding = None
        if self.max_length:
            self.position_embedding = LearnedPositions(
                self.max_length, self.initializer(), dtype=self.dtype_policy, name="position_embedding"
            )
        self.embedding_norm = self._norm("embedding_norm")

    def _take_embeddings(self, other):
        for name in ("vocabulary_size", "embedding_dim", "max_length", "num_segments"):
            if getattr(self, name) != getattr(other, name, None):
                raise ValueError(
                    f"`embeddings` must be a Bert of the same `{name}`. "
                    f"Received: {name}={getattr(self, name)}, and {getattr(other, name, None)} of {other.name}"
                )
        for name in EMBEDDINGS:
            setattr(self, name, getattr(other, name))

    def _dense(self, name, activation=None, init=None):
        init = self.initializer() if init is None else init
        return layers.Dense(self.hidden_dim, activation, kernel_initializer=init, dtype=self.dtype_policy, name=name)

    def build(self, input_shape: Any = None) -> None:
        embedded, shape = ((None, None, width) for width in (self.embedding_dim, self.hidden_dim))
        for name, input_shape in zip(EMBEDDINGS, ((None, None), (None, None), embedded, embedded), strict=True):
            layer = getattr(self, name)
            if layer is not None and not layer.built:  # another model's may be
                layer.build(input_shape)
        if self.embedding_projection is not None:
            self.embedding_projection.build(embedded)
        self.stack.build(shape)
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_dim))
        self.built = True

    def embed(self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        texts = self._read(inputs)
        ids, segments, sequences = (texts.get(name) for name in ("token_ids", "segment_ids", "sequence_ids"))
        x = self.token_embedding(ids)
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(ops.zeros_like(ids) if segments is None else segments)
        if self.position_embedding is not None:
            x = self.position_embedding(x, self._positions(ids, sequences))
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
            positions = ops.sum(ops.cast(ops.logical_and(is_before, counts[:, None]), "int32"), axis=-1) - 1
            longest = ops.max(ops.where(ops.equal(ids, self.pad_id), -1, positions), initial=-1) + 1
            check_positions(longest, self.max_length)
            return ops.maximum(positions, 0)
        check_positions(ops.shape(ids)[1], self.max_length)
        return ops.maximum(ops.cumsum(ops.cast(counts, "int32"), axis=1) - 1, 0)

    def get_config(self) -> dict[str, Any]:
        config = arguments_of(self, Bert, "attention", "pooler", "embeddings")
        return {**super().get_config(), **config, "pooler": self.pooler is not None}

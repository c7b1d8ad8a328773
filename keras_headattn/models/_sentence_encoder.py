import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._validation import rate
from keras_headattn.layers._head_regularization import as_head_regularizer
from keras_headattn.layers._multi_head_attention import MultiHeadAttention
from keras_headattn.layers._self_attentive_pooling import SelfAttentivePooling
from keras_headattn.layers._template import Template
from keras_headattn.layers._transformer_block import EncoderBlock
from keras_headattn.positions._absolute import SinusoidalPositions

HEADS = 6  # of the Transformer blocks, by default


@register_keras_serializable(package="keras_headattn")
class SentenceEncoder(keras.Model):
    """A sentence as a matrix, one row a head: embeddings, a BiLSTM or a Transformer, and `SelfAttentivePooling`.

    Token id 0 is padding. What the models for sentences have in common; the defaults are the settings of Lin et al.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding", section 2.

    Args:
        vocabulary_size: number of token ids.
        encoder: `"bilstm"` or `"transformer"`.
        embedding_dim: width of the embeddings, and of the Transformer.
        embeddings: initial embeddings, an array `(vocabulary_size, embedding_dim)`; `None` for random ones. They are
            saved with the weights, not with the configuration.
        train_embeddings: whether the embeddings are trained.
        num_layers: number of BiLSTMs or of Transformer blocks.
        hidden_dim: width of the LSTM in each direction, or of the blocks' feed-forward layers.
        num_heads: rows of the matrix `h`.
        attention_dim: hidden width of the pooling.
        attention: template layer of the blocks' attention. Defaults to `MultiHeadAttention(6, embedding_dim // 6)`.
        head_regularizer: of the pooling, see `SelfAttentivePooling`; Lin et al. have `Frobenius()`.
        dropout: rate of dropout of embeddings and of the blocks' sublayers.
        seed: of the dropouts.
        kernel_regularizer: of all kernels, those of the LSTMs' states too. An `attention` with a `kernel_regularizer`
            keeps its own.

    Call arguments:
        inputs: token ids, integers `(B, n)`.
        training: whether dropout is active.
        return_attention_scores: returns the weights of the pooling as well.

    Returns:
        `(B, h, d)`, with `d` two times `hidden_dim` for the BiLSTM and `embedding_dim` for the Transformer; then, if
        asked for, the weights `(B, h, n)`.

    Raises:
        ValueError: naming the argument and what was received.

    >>> model = SentenceEncoder(100, embedding_dim=8, hidden_dim=6, num_heads=3, attention_dim=4)
    >>> tuple(model(np.ones((2, 5), "int32")).shape)
    (2, 3, 12)
    """

    def __init__(
        self,
        vocabulary_size,
        encoder="bilstm",
        embedding_dim=300,
        embeddings=None,
        train_embeddings=True,
        num_layers=1,
        hidden_dim=300,
        num_heads=30,
        attention_dim=350,
        attention=None,
        head_regularizer=None,
        dropout=0.5,
        seed=None,
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if encoder not in ("bilstm", "transformer"):
            raise ValueError(f"`encoder` must be 'bilstm' or 'transformer'. Received: encoder={encoder!r}")
        if embeddings is not None and tuple(embeddings.shape) != (vocabulary_size, embedding_dim):
            raise ValueError(
                f"`embeddings` must be of shape (vocabulary_size, embedding_dim), {(vocabulary_size, embedding_dim)}. "
                f"Received: embeddings of shape {tuple(embeddings.shape)}"
            )
        self.vocabulary_size = vocabulary_size
        self.encoder = encoder
        self.embedding_dim = embedding_dim
        self.train_embeddings = train_embeddings
        self.num_layers = num_layers
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.attention_dim = attention_dim
        self.template = None if attention is None else Template("attention", attention)
        self.head_regularizer = as_head_regularizer(head_regularizer)
        self.dropout = rate("dropout", dropout)
        self.seed = seed
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.embedding = layers.Embedding(
            vocabulary_size,
            embedding_dim,
            # As large as sines and cosines of positions.
            embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
            weights=None if embeddings is None else [embeddings],
            trainable=train_embeddings,
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embedding_dropout = layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        self.positions = None if encoder == "bilstm" else SinusoidalPositions(dtype=self.dtype_policy)
        make = self._make_bilstm if encoder == "bilstm" else self._make_block
        self.encoder_layers = [make(number) for number in range(num_layers)]
        self.pooling = SelfAttentivePooling(
            num_heads,
            attention_dim,
            kernel_regularizer=self.kernel_regularizer,
            head_regularizer=self.head_regularizer,
            dtype=self.dtype_policy,
            name="pooling",
        )

    def _make_bilstm(self, number):
        lstm = layers.LSTM(
            self.hidden_dim,
            return_sequences=True,
            kernel_regularizer=self.kernel_regularizer,
            recurrent_regularizer=self.kernel_regularizer,
            dtype=self.dtype_policy,
            name="lstm",
        )
        return layers.Bidirectional(lstm, dtype=self.dtype_policy, name=f"bilstm_{number}")

    def _make_block(self, number):
        if self.template is None and self.embedding_dim % HEADS:
            raise ValueError(
                f"`embedding_dim` must be a multiple of the {HEADS} heads of the default attention; or give "
                f"`attention`. Received: embedding_dim={self.embedding_dim}"
            )
        template = self.template or Template("attention", MultiHeadAttention(HEADS, self.embedding_dim // HEADS))
        return EncoderBlock(
            template.make({"kernel_regularizer": self.kernel_regularizer}),
            self.hidden_dim,
            dropout=self.dropout,
            seed=None if self.seed is None else self.seed + 10 * (number + 1),
            dtype=self.dtype_policy,
            name=f"block_{number}",
        )

    @property
    def width(self):
        """Width `d` of a row of the matrix."""
        return 2 * self.hidden_dim if self.encoder == "bilstm" else self.embedding_dim

    def build(self, input_shape=None):
        self.embedding.build((None, None))
        shape = (None, None, self.embedding_dim)
        for layer in self.encoder_layers:
            layer.build(shape)
            shape = (None, None, self.width)
            if self.encoder == "transformer":  # the block has no argument for these
                for dense in (layer.feed_forward.inner, layer.feed_forward.outer):
                    dense.kernel.regularizer = self.kernel_regularizer
        self.pooling.build(shape)
        self.built = True

    def call(self, inputs, training=None, return_attention_scores=False):
        return self.encode(inputs, training, return_attention_scores)

    def encode(self, ids, training=None, return_attention_scores=False):
        """Sentences as matrices.

        Args:
            ids: token ids `(B, n)`, 0 = padding.
            training: whether dropout is active.
            return_attention_scores: returns `(matrices, weights)`, with the weights of the pooling `(B, h, n)`.

        Returns:
            `(B, h, d)`.
        """
        mask = ops.not_equal(ids, 0)
        x = self.embedding(ids)
        if self.positions is not None:
            x = self.positions(x)
        x = self.embedding_dropout(x, training=training)
        for layer in self.encoder_layers:
            x = layer(x, mask=mask, training=training)
        return self.pooling(x, mask=mask, training=training, return_attention_scores=return_attention_scores)

    def compute_output_spec(self, *args, **kwargs):
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        names = (
            "vocabulary_size",
            "encoder",
            "embedding_dim",
            "train_embeddings",
            "num_layers",
            "hidden_dim",
            "num_heads",
            "attention_dim",
            "dropout",
            "seed",
        )
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "attention": None if self.template is None else self.template.serialize(),
            "head_regularizer": keras.regularizers.serialize(self.head_regularizer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
        }

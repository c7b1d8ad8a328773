"""Encoders of sentences, from token ids to states: recurrent layers, or blocks of the Transformer."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, initializer, regularizer, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import AttentionLike, Initializer, Regularizer, Tensor
from keras_headattn._validation import as_python, check_boolean, check_positive, check_probability
from keras_headattn.layers import EncoderBlock
from keras_headattn.layers._norms import apply_norm
from keras_headattn.layers._template import Template
from keras_headattn.models._blocks import Stack
from keras_headattn.positions import Positions, SinusoidalPositions


def make_bilstm(name, dtype, **arguments):
    """Makes a bidirectional LSTM that returns all states."""
    arguments |= dict(return_sequences=True, dtype=dtype)
    forward = layers.LSTM(name="lstm", **arguments)
    backward = layers.LSTM(name="backward_lstm", go_backwards=True, **arguments)
    bilstm = layers.Bidirectional(forward, backward_layer=backward, dtype=dtype, name=name)
    # Keras copies `forward`. It must live on: while loading a file, Keras tells layers apart by their addresses.
    bilstm.copied = lambda: forward  # a function, as Keras would count a layer among the model's
    return bilstm


class _Encoder(Model):
    """Embeddings with dropout, and the layers of a subclass."""

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        num_layers: int,
        embeddings: np.ndarray | None,
        train_embeddings: bool,
        dropout: float,
        kernel_regularizer: Regularizer | None,
        seed: int | None,
        embeddings_initializer: Initializer | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.vocabulary_size = check_positive("vocabulary_size", vocabulary_size)
        self.num_layers = check_positive("num_layers", num_layers)
        self.train_embeddings = check_boolean("train_embeddings", train_embeddings)
        self.dropout = check_probability("dropout", dropout)
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.seed = check_seed("seed", seed)
        if embeddings is not None and tuple(embeddings.shape) != (vocabulary_size, width):
            raise ValueError(
                f"`embeddings` must have the shape (vocabulary_size, width), {(vocabulary_size, width)}. "
                f"Received: embeddings of shape {tuple(embeddings.shape)}"
            )
        self.embedding = layers.Embedding(
            self.vocabulary_size,
            as_python(width),
            # The default is as large as sines and cosines of positions.
            embeddings_initializer=embeddings_initializer or keras.initializers.RandomNormal(stddev=1.0),
            weights=None if embeddings is None else [embeddings],
            trainable=train_embeddings,
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embedding_dropout = layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs, 0)


@register_keras_serializable(package="keras_headattn")
class BiLSTMEncoder(_Encoder):
    """Embeddings and LSTMs in both directions.

    Token id 0 is padding, which changes no other state. The defaults are the settings of Lin et al.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding", eqs. 1 to 4.

    Args:
        vocabulary_size: number of token ids.
        embedding_dim, hidden_dim: width of the embeddings, and of the LSTM in each direction.
        num_layers: number of stacked LSTMs in each direction.
        embeddings: initial embeddings, an array `(vocabulary_size, embedding_dim)`; `None` for random ones. Not in the
            configuration.
        train_embeddings: True to train the embeddings.
        dropout, seed: rate and seed of the dropout of the embeddings.
        kernel_regularizer: of the kernels of inputs and of states.
        embeddings_initializer: of random embeddings. Default `None`: normal, with a deviation of 1.

    Call arguments:
        inputs: token ids, integers `(B, n)`.

    Returns:
        States `(B, n, 2 * hidden_dim)`.

    >>> encoder = BiLSTMEncoder(100, embedding_dim=8, hidden_dim=6)
    >>> tuple(encoder(np.ones((2, 5), "int32")).shape)
    (2, 5, 12)
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 300,
        hidden_dim: int = 300,
        num_layers: int = 1,
        embeddings: np.ndarray | None = None,
        train_embeddings: bool = True,
        dropout: float = 0.5,
        kernel_regularizer: Regularizer | None = None,
        seed: int | None = None,
        embeddings_initializer: Initializer | None = None,
        **kwargs: Any,
    ):
        embeddings_initializer = initializer("embeddings_initializer", embeddings_initializer)
        arguments = (embeddings, train_embeddings, dropout, kernel_regularizer, seed, embeddings_initializer)
        super().__init__(vocabulary_size, embedding_dim, num_layers, *arguments, **kwargs)
        self.embeddings_initializer = embeddings_initializer
        self.embedding_dim = check_positive("embedding_dim", embedding_dim)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        common = dict(units=self.hidden_dim, kernel_regularizer=self.kernel_regularizer, dtype=self.dtype_policy)
        common["recurrent_regularizer"] = self.kernel_regularizer
        self.bilstms = [make_bilstm(f"bilstm_{index}", **common) for index in range(num_layers)]

    def build(self, input_shape: Any = None) -> None:
        self.embedding.build((None, None))
        width = self.embedding_dim
        for bilstm in self.bilstms:
            bilstm.build((None, None, width))
            width = 2 * self.hidden_dim
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        mask = ops.not_equal(inputs, 0)
        x = self.embedding_dropout(self.embedding(inputs), training=training)
        for bilstm in self.bilstms:
            x = bilstm(x, mask=mask, training=training)
        return x

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, BiLSTMEncoder, "embeddings")}


@register_keras_serializable(package="keras_headattn")
class TransformerEncoder(_Encoder):
    """Embeddings with positions and blocks of the Transformer, with any attention layer of this library.

    Token id 0 is padding, which changes no other state.

    Source: Vaswani et al. 2017, "Attention is all you need".

    Args:
        vocabulary_size: number of token ids.
        hidden_dim, intermediate_dim: width of the encoder and of its feed-forward layers.
        num_layers: number of blocks.
        attention, positions, relative_positions, norm, normalization: as in `Transformer`.
        num_heads: for attention given by a class or a name.
        feed_forward: layer to copy, such as `FeedForward(32, "gelu", gated=True)`, in place of `intermediate_dim`; with
            its own regularizers.
        embeddings: initial embeddings, an array `(vocabulary_size, hidden_dim)`; `None` for random ones. Not in the
            configuration.
        train_embeddings: True to train the embeddings.
        dropout, seed: rate and seed of the dropouts of embeddings and sublayers.
        kernel_regularizer: of all kernels, unless `attention` has its own.

    Call arguments:
        inputs: token ids, integers `(B, n)`.

    Returns:
        States `(B, n, hidden_dim)`.

    >>> encoder = TransformerEncoder(100, hidden_dim=16, intermediate_dim=32, attention="talking_heads", num_heads=4)
    >>> tuple(encoder(np.ones((2, 5), "int32")).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int = 300,
        intermediate_dim: int = 300,
        num_layers: int = 1,
        attention: AttentionLike = "multi_head",
        num_heads: int = 6,
        positions: str | keras.layers.Layer | None = "sinusoidal",
        relative_positions: Positions | None = None,
        norm: keras.layers.Layer | None = None,
        feed_forward: keras.layers.Layer | None = None,
        normalization: str = "post",
        embeddings: np.ndarray | None = None,
        train_embeddings: bool = True,
        dropout: float = 0.5,
        kernel_regularizer: Regularizer | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        arguments = (embeddings, train_embeddings, dropout, kernel_regularizer, seed)
        super().__init__(vocabulary_size, hidden_dim, num_layers, *arguments, **kwargs)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.intermediate_dim = check_positive("intermediate_dim", intermediate_dim)
        self.num_heads = check_positive("num_heads", num_heads)
        self.normalization = normalization
        self.templates = {
            "attention": Template.of_attention("attention", attention, num_heads, hidden_dim),
            "positions": Template("positions", SinusoidalPositions() if positions == "sinusoidal" else positions),
            "relative_positions": Template("relative_positions", relative_positions),
            "norm": Template.of_norm(norm),
            "feed_forward": Template("feed_forward", feed_forward),
        }
        self.positions = self._make("positions")
        self.relative_positions = self._make("relative_positions")
        self.blocks = [self._make_block(index) for index in range(num_layers)]
        self.stack = Stack(self.blocks, self.relative_positions)
        self.norm = None if normalization == "post" else self._make("norm")

    def _make(self, name):
        return self.templates[name].make(dtype=self.dtype_policy, name=name)

    def _make_block(self, index):
        feed_forward = self.templates["feed_forward"].layer
        return EncoderBlock(
            self.templates["attention"].make({"kernel_regularizer": self.kernel_regularizer}),
            self.intermediate_dim if feed_forward is None else None,
            dropout=self.dropout,
            kernel_regularizer=self.kernel_regularizer,
            normalization=self.normalization,
            norm=self.templates["norm"],
            feed_forward=feed_forward,
            depth=index,
            seed=seed_plus(self.seed, 10 * (index + 1)),
            dtype=self.dtype_policy,
            name=f"block_{index}",
        )

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.hidden_dim)
        self.embedding.build((None, None))
        for layer in (self.positions, self.norm):
            if layer is not None:
                layer.build(shape)
        self.stack.build(shape)
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = self.embedding(inputs)
        if self.positions is not None:
            x = self.positions(x)
        x = self.embedding_dropout(x, training=training)
        x = self.stack(x, ops.not_equal(inputs, 0), training=training)
        return x if self.norm is None else apply_norm(self.norm, x)

    def get_config(self) -> dict[str, Any]:
        templates = {name: template.serialize() for name, template in self.templates.items()}
        return {**super().get_config(), **arguments_of(self, TransformerEncoder, "embeddings", *templates), **templates}

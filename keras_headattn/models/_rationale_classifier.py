"""Classifiers of long documents with attention over words, which shows the words that count."""

from collections.abc import Mapping
from typing import Any

from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import Tensor
from keras_headattn._validation import check_index, check_positive, check_probability
from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.layers._intermediates import with_intermediates
from keras_headattn.models._bert.bert import Bert
from keras_headattn.models._bert.encoder import Encoder
from keras_headattn.models._bert.modern_bert import ModernBert
from keras_headattn.models._sentences.encoders import make_bilstm

_WIDTHS = ("lstm_dim", "pooling_dim", "hidden_dim", "dropout", "seed")


@register_keras_serializable(package="keras_headattn")
class RationaleReader(Model):
    """Classifier of texts from the states of their words after each layer of an encoder.

    A learnt softmax mixes the layers. Then come a BiLSTM, dropout, additive attention over all words with one head, a
    hidden layer with ReLU, dropout, and the classes. Logits are float32 even under mixed precision.

    Source: DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models", section 5.2, the model with
    soft rationales.

    Args:
        num_outputs: number of classes; 1 for a choice between several sequences.
        num_layers: number of mixed layers L.
        lstm_dim, pooling_dim, hidden_dim: widths of the LSTM in each direction, of the hidden layer of the attention,
            and of the layer before the classes.
        dropout, seed: rate of both dropouts; their seeds are `seed` and `seed + 1`.

    Call arguments:
        inputs: dictionary of `"states"`, floats `(B, C, n, L, D)`, and `"mask"`, boolean `(B, C, n)`, True = a word. C
            is 1 for classes, or the number of choices, each with its own words.
        return_intermediates: returns `(logits, out)`, with `out["pooling"]["weights"]` `(B * C, 1, n)`.

    Returns:
        Logits `(B, C * num_outputs)`.

    >>> reader = RationaleReader(2, num_layers=3, lstm_dim=4, pooling_dim=4, hidden_dim=4)
    >>> inputs = {"states": np.ones((2, 1, 5, 3, 8), "float16"), "mask": np.ones((2, 1, 5), bool)}
    >>> logits, out = reader(inputs, return_intermediates=True)
    >>> tuple(logits.shape), tuple(out["pooling"]["weights"].shape)
    ((2, 2), (2, 1, 5))
    """

    inputs_dtype = {"states": "float32", "mask": "bool"}

    def __init__(
        self,
        num_outputs: int,
        num_layers: int,
        lstm_dim: int = 128,
        pooling_dim: int = 256,
        hidden_dim: int = 128,
        dropout: float = 0.2,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_outputs = check_positive("num_outputs", num_outputs)
        self.num_layers = check_positive("num_layers", num_layers)
        self.lstm_dim = check_positive("lstm_dim", lstm_dim)
        self.pooling_dim = check_positive("pooling_dim", pooling_dim)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.dropout = check_probability("dropout", dropout)
        self.seed = check_seed("seed", seed)
        common = dict(dtype=self.dtype_policy)
        self.dropouts = [layers.Dropout(dropout, seed=seed_plus(seed, i), **common) for i in range(2)]
        self.bilstm = make_bilstm("bilstm", units=self.lstm_dim, **common)
        self.pooling = SelfAttentivePooling(1, pooling_dim, name="pooling", **common)
        self.hidden = layers.Dense(self.hidden_dim, "relu", name="hidden", **common)
        self.output_projection = layers.Dense(self.num_outputs, name="output_projection", **common)

    def build(self, input_shape: Any) -> None:
        states = input_shape["states"] if isinstance(input_shape, dict) else input_shape
        self.mix_logits = self.add_weight(name="mix_logits", shape=(self.num_layers,), initializer="zeros")
        self.bilstm.build((None, None, states[-1]))
        self.pooling.build((None, None, 2 * self.lstm_dim))
        self.hidden.build((None, 2 * self.lstm_dim))
        self.output_projection.build((None, self.hidden_dim))
        self.built = True

    def call(
        self, inputs: Mapping[str, Tensor], training: bool | None = None, return_intermediates: bool = False
    ) -> Any:
        if return_intermediates:
            return with_intermediates({"pooling": self.pooling}, self.call, inputs, training)
        batch, choices = ops.shape(inputs["mask"])[:2]
        logits = self.read(self.mix(inputs["states"]), inputs["mask"], training)
        return ops.reshape(logits, (batch, choices * self.num_outputs))

    def mix(self, states: Tensor) -> Tensor:
        """Mixes the layers of `(..., L, D)` to `(..., D)`.

        Args:
            states: `(..., L, D)`.
        """
        shares = ops.softmax(ops.cast(self.mix_logits, "float32"))
        states = ops.cast(states, self.compute_dtype)
        return ops.sum(states * ops.cast(shares, self.compute_dtype)[:, None], axis=-2)

    def read(self, mixed: Tensor, mask: Tensor, training: bool | None = None) -> Tensor:
        """Returns logits of mixed states, `(B * C, num_outputs)`.

        Args:
            mixed: `(B, C, n, D)`.
            mask: boolean `(B, C, n)`.
            training: True to apply dropout.
        """
        length, width = ops.shape(mixed)[2:]
        mixed, mask = ops.reshape(mixed, (-1, length, width)), ops.reshape(mask, (-1, length))
        x = self.dropouts[0](self.bilstm(mixed, mask=mask, training=training), training=training)
        x = ops.squeeze(self.pooling(x, mask=mask, training=training), axis=1)
        x = self.dropouts[1](self.hidden(x), training=training)
        return ops.cast(self.output_projection(x), "float32")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, RationaleReader)}


@register_keras_serializable(package="keras_headattn")
class RationaleClassifier(Model):
    """An encoder that reads long documents in windows, and a `RationaleReader` of the words' states.

    The state of a word is that of its first piece. The encoder has no dropout below the trained layers, so its states
    can be computed once for all epochs: `piece_states`.

    Source: see `RationaleReader`.

    Args:
        encoder: `Bert` or `ModernBert`, not copied, with its weights and dtype. It needs no pooler.
        num_outputs, lstm_dim, pooling_dim, hidden_dim, dropout, seed: as in `RationaleReader`.
        trainable_layers: number of the encoder's last blocks to train; 0 for none.

    Call arguments:
        inputs: dictionary of `"token_ids"`, integers `(B, C, w, m)`, w windows of m pieces, and `"places"`, integers
            `(B, C, n)`: the index of each word's first piece among the `w * m`; -1 for padding.

    Returns:
        Logits `(B, C * num_outputs)`.

    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=2, num_heads=4, pooler=False)
    >>> model = RationaleClassifier(encoder, 2, lstm_dim=4, pooling_dim=4, hidden_dim=4)
    >>> inputs = {"token_ids": np.ones((3, 1, 2, 8), "int32"), "places": np.array([[[1, 2, 9, -1]]] * 3)}
    >>> tuple(model(inputs).shape)
    (3, 2)
    """

    layer_arguments = ("encoder",)

    def __init__(self, encoder: Bert | ModernBert, num_outputs: int, trainable_layers: int = 0, **kwargs: Any):
        widths = {name: kwargs.pop(name) for name in _WIDTHS if name in kwargs}
        super().__init__(**kwargs)
        if not isinstance(encoder, Encoder):
            raise ValueError(f"`encoder` must be a `Bert` or a `ModernBert`. Received: encoder={encoder!r}")
        self.trainable_layers = check_index("trainable_layers", trainable_layers)
        if trainable_layers > encoder.num_layers:
            raise ValueError(
                f"`trainable_layers` must be at most the {encoder.num_layers} blocks of the encoder. "
                f"Received: trainable_layers={trainable_layers}"
            )
        self.encoder = encoder
        self.reader = RationaleReader(num_outputs, encoder.num_layers, dtype=self.dtype_policy, name="reader", **widths)
        self.num_frozen = encoder.num_layers - self.trainable_layers

    def build(self, input_shape: Any = None) -> None:
        if not self.encoder.built:
            self.encoder.build()
        trained = {id(block) for block in self.encoder.blocks[self.num_frozen :]}
        for layer in self.encoder.layers:
            if id(layer) not in trained:
                layer.trainable = False
        self.reader.build((None, None, None, self.encoder.num_layers, self.encoder.hidden_dim))
        self.built = True

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        token_ids, places = inputs["token_ids"], inputs["places"]
        batch, choices, windows, length = ops.shape(token_ids)
        states = self.piece_states(ops.reshape(token_ids, (-1, length)), training)
        width = self.encoder.num_layers * self.encoder.hidden_dim
        states = ops.reshape(states, (-1, windows * length, width))
        rows = ops.reshape(ops.maximum(places, 0), (-1, ops.shape(places)[2], 1))
        words = ops.take_along_axis(states, rows, axis=1)
        shape = (batch, choices, ops.shape(places)[2], self.encoder.num_layers, self.encoder.hidden_dim)
        return self.reader({"states": ops.reshape(words, shape), "mask": places >= 0}, training=training)

    def piece_states(self, token_ids: Tensor, training: bool | None = None) -> Tensor:
        """Returns the states of windows after each block, `(B, m, L, D)`.

        Args:
            token_ids: integers `(B, m)`.
            training: True to apply dropout in the trained layers.
        """
        encoder = self.encoder
        is_real = ops.not_equal(token_ids, encoder.pad_id)
        x = encoder.embed(token_ids, training=False)
        block_arguments = [{"training": training if i >= self.num_frozen else False} for i in range(encoder.num_layers)]
        return ops.stack([x for x, _ in encoder.stack.run(x, is_real, block_arguments=block_arguments)], axis=2)

    def get_config(self) -> dict[str, Any]:
        config = {name: getattr(self.reader, name) for name in ("num_outputs", *_WIDTHS)}
        return {**super().get_config(), "trainable_layers": self.trainable_layers, **config}

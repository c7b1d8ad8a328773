"""Classifiers of sentences and of pairs, with any encoder and any pooling."""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, regularizer, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import Regularizer, Tensor
from keras_headattn._validation import check_positive, check_probability
from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.layers._intermediates import with_intermediates

SIDES = ("first", "second")  # of a pair


class _Classifier(Model):
    """An encoder, a pooling, and a hidden layer before the classes."""

    layer_arguments = ("encoder", "pooling")

    def __init__(
        self,
        encoder: keras.layers.Layer,
        num_classes: int,
        pooling: keras.layers.Layer | None = None,
        mlp_dim: int = 2000,
        dropout: float = 0.5,
        kernel_regularizer: Regularizer | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if pooling is None:
            pooling = SelfAttentivePooling(30, 350, dtype=self.dtype_policy, name="pooling")
        for name, layer in (("encoder", encoder), ("pooling", pooling)):
            if not isinstance(layer, layers.Layer):
                raise ValueError(f"`{name}` must be a layer. Received: {name}={layer!r}")
        self.encoder = encoder
        self.pooling = pooling
        self.num_classes = check_positive("num_classes", num_classes)
        self.mlp_dim = check_positive("mlp_dim", mlp_dim)
        self.dropout = check_probability("dropout", dropout)
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.seed = check_seed("seed", seed)
        self.dropouts = [layers.Dropout(dropout, seed=seed_plus(seed, i), dtype=self.dtype_policy) for i in (1, 2)]
        common = dict(kernel_regularizer=self.kernel_regularizer, dtype=self.dtype_policy)
        self.hidden = layers.Dense(self.mlp_dim, "relu", name="hidden", **common)
        self.output_projection = layers.Dense(self.num_classes, name="output_projection", **common)

    def _build_pooled(self):
        """Builds encoder and pooling; returns the shape of a pooled sentence."""
        _, *shape = self.encode(keras.KerasTensor((None, None), "int32")).shape
        if len(shape) not in (1, 2) or None in shape:
            raise ValueError(
                "`pooling` must make (B, h, d) or (B, d), of known size, of the encoder's states. "
                f"Received: an output of shape {(None, *shape)}"
            )
        return shape

    def _build_hidden(self, shape):
        self.hidden.build((None, math.prod(shape)))
        self.output_projection.build((None, self.mlp_dim))
        self.built = True

    def encode(self, ids: Tensor, training: bool | None = None, return_intermediates: bool = False) -> Any:
        """Returns pooled sentences, `(B, h, d)` or `(B, d)`.

        Args:
            ids: token ids `(B, n)`, 0 = padding.
            training: True to apply dropout.
            return_intermediates: returns `(pooled, out)`, as the call does.
        """
        if return_intermediates:
            return with_intermediates({"encoder": self.encoder, "pooling": self.pooling}, self.encode, ids, training)
        takes_mask = "mask" in inspect.signature(self.pooling.call).parameters
        mask = {"mask": ops.not_equal(ids, 0)} if takes_mask else {}
        return self.pooling(self.encoder(ids, training=training), training=training, **mask)

    def classify(self, pooled: Tensor, training: bool | None = None) -> Tensor:
        """Returns logits `(B, num_classes)` of pooled sentences, or of a product of two.

        Args:
            pooled: `(B, h, d)` or `(B, d)`.
            training: True to apply dropout.
        """
        x = ops.reshape(pooled, (-1, math.prod(pooled.shape[1:])))
        x = self.hidden(self.dropouts[0](x, training=training))
        return ops.cast(self.output_projection(self.dropouts[1](x, training=training)), "float32")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, _Classifier, *self.layer_arguments)}


@register_keras_serializable(package="keras_headattn")
class SentenceClassifier(_Classifier):
    """Classifier of sentences: an encoder, a pooling, and a hidden layer with ReLU on all that was pooled.

    Token id 0 is padding. Outputs are logits, in float32 even under mixed precision. The defaults are the settings of
    Lin et al.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding".

    Args:
        encoder: layer from token ids `(B, n)` to states `(B, n, D)`, such as `BiLSTMEncoder(20_000)`,
            `TransformerEncoder(20_000)` or your own. It is not copied and keeps its weights and dtype.
        num_classes: number of classes.
        pooling: layer from states to `(B, h, d)` or `(B, d)`, not copied. It gets a `mask` `(B, n)`, True = a real
            token, if it takes one. Defaults to `SelfAttentivePooling(30, 350)`.
        mlp_dim: width of the hidden layer.
        dropout, seed: rate of the dropouts around the hidden layer; their seeds are `seed + 1` and `seed + 2`.
        kernel_regularizer: of the hidden layer and of the classes.

    Call arguments:
        inputs: token ids, integers `(B, n)`.
        return_intermediates: returns `(logits, out)`: a dictionary of layers, such as `"pooling"` and
            `"encoder/block_0/attention"`, to their tensors by name, such as the pooling's `"weights"` `(B, h, n)`, see
            `layers.capture_intermediates`.

    Returns:
        Logits `(B, num_classes)`.

    >>> from keras_headattn.models import BiLSTMEncoder
    >>> encoder = BiLSTMEncoder(100, embedding_dim=8, hidden_dim=6)
    >>> model = SentenceClassifier(encoder, num_classes=2, pooling=SelfAttentivePooling(3, 4), mlp_dim=10)
    >>> logits, out = model(np.ones((2, 5), "int32"), return_intermediates=True)
    >>> tuple(logits.shape), tuple(out["pooling"]["weights"].shape)
    ((2, 2), (2, 3, 5))
    """

    def build(self, input_shape: Any = None) -> None:
        self._build_hidden(self._build_pooled())

    def call(self, inputs: Tensor, training: bool | None = None, return_intermediates: bool = False) -> Any:
        if return_intermediates:
            pooled, out = self.encode(inputs, training, return_intermediates=True)
            return self.classify(pooled, training), out
        return self.classify(self.encode(inputs, training), training)


@register_keras_serializable(package="keras_headattn")
class SentencePairClassifier(_Classifier):
    """Classifier of pairs of sentences, such as for entailment.

    One encoder and one pooling turn each sentence into a matrix. The rows of each head are projected, by one kernel
    `(h, d, factor_dim)` for each side, and their product is classified as in `SentenceClassifier`.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding", section 4.3 and the gated encoder of its
    appendix; the factored interaction is that of Memisevic 2013, "Learning to relate images".

    Args:
        encoder, num_classes, pooling, mlp_dim, dropout, kernel_regularizer, seed: as in `SentenceClassifier`.
        factor_dim: width of a row of the product.

    Call arguments:
        inputs: token ids of the first and of the second sentences, a pair of integers `(B, n)` and `(B, m)`.
        return_intermediates: as in `SentenceClassifier`; names begin with the sentence, such as
            `"first/pooling"`.

    Returns:
        Logits `(B, num_classes)`.

    >>> from keras_headattn.models import BiLSTMEncoder
    >>> encoder, pooling = BiLSTMEncoder(100, embedding_dim=8, hidden_dim=6), SelfAttentivePooling(3, 4)
    >>> model = SentencePairClassifier(encoder, 3, pooling, factor_dim=7, mlp_dim=10)
    >>> tuple(model((np.ones((2, 5), "int32"), np.ones((2, 4), "int32"))).shape)
    (2, 3)
    """

    def __init__(
        self,
        encoder: keras.layers.Layer,
        num_classes: int,
        pooling: keras.layers.Layer | None = None,
        factor_dim: int = 300,
        **kwargs: Any,
    ):
        super().__init__(encoder, num_classes, pooling, **kwargs)
        self.factor_dim = check_positive("factor_dim", factor_dim)

    def build(self, input_shape: Any = None) -> None:
        *heads, width = self._build_pooled()
        equation = "bhd,hdf->bhf" if heads else "bd,df->bf"
        self.factors = [
            layers.EinsumDense(
                equation,
                (*heads, self.factor_dim),
                kernel_regularizer=self.kernel_regularizer,
                dtype=self.dtype_policy,
                name=f"{side}_factor",
            )
            for side in SIDES
        ]
        for factor in self.factors:
            factor.build((None, *heads, width))
        self._build_hidden((*heads, self.factor_dim))

    def call(self, inputs: Sequence[Tensor], training: bool | None = None, return_intermediates: bool = False) -> Any:
        encoded = [self.encode(ids, training, return_intermediates) for ids in inputs]
        first, second = (pooled for pooled, _ in encoded) if return_intermediates else encoded
        logits = self.classify(self.factors[0](first) * self.factors[1](second), training)
        if not return_intermediates:
            return logits
        named = zip(SIDES, (out for _, out in encoded), strict=True)
        return logits, {f"{side}/{name}": tensors for side, out in named for name, tensors in out.items()}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, SentencePairClassifier, *self.layer_arguments)}

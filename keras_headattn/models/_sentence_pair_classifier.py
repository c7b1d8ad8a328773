from keras import layers
from keras.saving import register_keras_serializable

from keras_headattn.models._sentence_classifier import SentenceClassifier


@register_keras_serializable(package="keras_headattn")
class SentencePairClassifier(SentenceClassifier):
    """Classes of pairs of sentences, such as whether the first entails the second.

    One `SentenceEncoder` makes a matrix of each sentence. The rows of a head are projected, each sentence's with
    a kernel of its own `(h, d, factor_dim)`, and their product is classified as in `SentenceClassifier`.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding", section 4.3 and the gated encoder of
    its appendix; the factored interaction is that of Memisevic 2013, "Learning to relate images".

    Args:
        vocabulary_size: number of token ids; 0 is padding.
        num_classes: number of classes.
        *args, **kwargs: see `SentenceClassifier`.
        factor_dim: width of a row of the product.

    Call arguments:
        inputs: token ids of the first and of the second sentences, a pair of integers `(B, n)` and `(B, m)`.
        training: whether dropout is active.
        return_attention_scores: returns `(logits, (first, second))`, with weights of the pooling `(B, h, n)` and
            `(B, h, m)`.

    Returns:
        Logits `(B, num_classes)`.

    >>> sizes = dict(embedding_dim=8, hidden_dim=6, num_heads=3, attention_dim=4, mlp_dim=10, factor_dim=7)
    >>> model = SentencePairClassifier(100, 3, **sizes)
    >>> tuple(model((np.ones((2, 5), "int32"), np.ones((2, 4), "int32"))).shape)
    (2, 3)
    """

    def __init__(self, vocabulary_size, num_classes, *args, factor_dim=300, **kwargs):
        super().__init__(vocabulary_size, num_classes, *args, **kwargs)
        self.factor_dim = factor_dim
        self.factors = [
            layers.EinsumDense(
                "bhd,hdf->bhf",
                (self.num_heads, factor_dim),
                kernel_regularizer=self.kernel_regularizer,
                dtype=self.dtype_policy,
                name=f"{side}_factor",
            )
            for side in ("first", "second")
        ]

    @property
    def classified_width(self):
        return self.factor_dim

    def build(self, input_shape=None):
        super().build()
        for factor in self.factors:
            factor.build((None, self.num_heads, self.width))

    def call(self, inputs, training=None, return_attention_scores=False):
        first, second = inputs
        first, first_weights = self.encode(first, training, return_attention_scores=True)
        second, second_weights = self.encode(second, training, return_attention_scores=True)
        logits = self.classify(self.factors[0](first) * self.factors[1](second), training)
        return (logits, (first_weights, second_weights)) if return_attention_scores else logits

    def get_config(self):
        return {**super().get_config(), "factor_dim": self.factor_dim}

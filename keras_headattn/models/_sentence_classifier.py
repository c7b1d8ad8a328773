from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn.models._sentence_encoder import SentenceEncoder


@register_keras_serializable(package="keras_headattn")
class SentenceClassifier(SentenceEncoder):
    """Classes of sentences: a `SentenceEncoder`, and a hidden layer with ReLU on all rows of its matrix.

    The output is logits, in float32 under mixed precision too.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding".

    Args:
        vocabulary_size: number of token ids; 0 is padding.
        num_classes: number of classes.
        *args, **kwargs: see `SentenceEncoder`; `dropout` is also that before and after the hidden layer.
        mlp_dim: width of the hidden layer.

    Call arguments:
        inputs: token ids, integers `(B, n)`.
        training: whether dropout is active.
        return_attention_scores: returns `(logits, weights)`, with the weights of the pooling `(B, h, n)`.

    Returns:
        Logits `(B, num_classes)`.

    >>> model = SentenceClassifier(100, 2, embedding_dim=8, hidden_dim=6, num_heads=3, attention_dim=4, mlp_dim=10)
    >>> ids = np.ones((2, 5), "int32")
    >>> tuple(model(ids).shape), tuple(model.encode(ids).shape)
    ((2, 2), (2, 3, 12))
    """

    def __init__(self, vocabulary_size, num_classes, *args, mlp_dim=2000, **kwargs):
        super().__init__(vocabulary_size, *args, **kwargs)
        self.num_classes = num_classes
        self.mlp_dim = mlp_dim
        seeds = (None, None) if self.seed is None else (self.seed + 1, self.seed + 2)
        self.dropouts = [layers.Dropout(self.dropout, seed=seed, dtype=self.dtype_policy) for seed in seeds]
        common = dict(kernel_regularizer=self.kernel_regularizer, dtype=self.dtype_policy)
        self.hidden = layers.Dense(mlp_dim, "relu", name="hidden", **common)
        self.output_projection = layers.Dense(num_classes, name="output_projection", **common)

    @property
    def classified_width(self):
        """Width of a row of what is classified."""
        return self.width

    def build(self, input_shape=None):
        super().build()
        self.hidden.build((None, self.num_heads * self.classified_width))
        self.output_projection.build((None, self.mlp_dim))

    def call(self, inputs, training=None, return_attention_scores=False):
        matrices, weights = self.encode(inputs, training, return_attention_scores=True)
        logits = self.classify(matrices, training)
        return (logits, weights) if return_attention_scores else logits

    def classify(self, matrices, training=None):
        """Logits of matrices.

        Args:
            matrices: `(B, h, classified_width)`, of `encode`.
            training: whether dropout is active.

        Returns:
            `(B, num_classes)`.
        """
        x = ops.reshape(matrices, (-1, self.num_heads * self.classified_width))
        x = self.hidden(self.dropouts[0](x, training=training))
        return ops.cast(self.output_projection(self.dropouts[1](x, training=training)), "float32")

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes, "mlp_dim": self.mlp_dim}

from keras import activations, layers
from keras.saving import register_keras_serializable


@register_keras_serializable(package="keras_headattn")
class FeedForward(layers.Layer):
    """Two dense layers, applied to each position (Vaswani et al. 2017, eq. 2).

    Args:
        intermediate_dim: width between the two.
        activation: after the first.
        dropout: rate of dropout after the activation.

    Call arguments:
        inputs: `(..., D)`.

    Returns:
        `(..., D)`.
    """

    def __init__(self, intermediate_dim, activation="relu", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = activations.get(activation)
        self.dropout = dropout
        self.seed = seed

    def build(self, input_shape):
        self.inner = layers.Dense(self.intermediate_dim, self.activation, dtype=self.dtype_policy, name="inner")
        self.inner_dropout = layers.Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        self.outer = layers.Dense(input_shape[-1], dtype=self.dtype_policy, name="outer")
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.intermediate_dim))

    def call(self, inputs, training=None):
        return self.outer(self.inner_dropout(self.inner(inputs), training=training))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": activations.serialize(self.activation),
            "dropout": self.dropout,
            "seed": self.seed,
        }

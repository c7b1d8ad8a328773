import math
from typing import Any

from keras import activations, layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, initializer, regularizer
from keras_headattn._saved_quantization import SavedQuantization
from keras_headattn._types import Activation, Initializer, Regularizer, Shape, Tensor
from keras_headattn._validation import check_boolean, check_positive, check_probability
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.ops._dense import sizes


@register_keras_serializable(package="keras_headattn")
def gelu_tanh(x):
    """Computes GELU by its tanh formula, as in the training of BERT and T5 1.1."""
    return activations.gelu(x, approximate=True)


def get_activation(identifier):
    """Returns an activation as Keras does, and also knows `"gelu_tanh"`."""
    return gelu_tanh if identifier == "gelu_tanh" else activations.get(identifier)


@register_keras_serializable(package="keras_headattn")
class FeedForward(Rematerialized, SavedQuantization):
    """Two dense layers, applied to each position (Vaswani et al. 2017, eq. 2).

    With a gate, the activation of one dense layer multiplies the output of another (Shazeer 2020, "GLU variants improve
    Transformer", eq. 6): `activation="gelu"` makes GEGLU, `"silu"` SwiGLU.

    Args:
        intermediate_dim: width between the two. Default `None`: four times that of the inputs; with a gate 8 / 3 times,
            rounded up to a multiple of 64.
        activation: after the first; `"gelu"` is exact, `"gelu_tanh"` its tanh formula.
        dropout, seed: rate and seed of the dropout after the activation.
        gated: True for a gate.
        use_bias: True for biases.
        kernel_initializer, kernel_regularizer: of the dense layers.

    Call arguments:
        inputs: `(..., D)`, also the shape of the result.

    >>> feed_forward = FeedForward(32, "gelu", gated=True, use_bias=False)
    >>> tuple(feed_forward(keras.ops.ones((2, 5, 16))).shape), len(feed_forward.weights)
    ((2, 5, 16), 3)
    """

    def __init__(
        self,
        intermediate_dim: int | None = None,
        activation: Activation = "relu",
        dropout: float = 0.0,
        gated: bool = False,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        kernel_regularizer: Regularizer | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = (
            None if intermediate_dim is None else check_positive("intermediate_dim", intermediate_dim)
        )
        self.activation = get_activation(activation)
        self.dropout = check_probability("dropout", dropout)
        self.gated = check_boolean("gated", gated)
        self.use_bias = check_boolean("use_bias", use_bias)
        self.kernel_initializer = initializer("kernel_initializer", kernel_initializer)
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.seed = check_seed("seed", seed)
        # Returns the initializer of a kernel from its name, in place of `kernel_initializer`. Set by a block.
        self.initializer_of = None

    def build(self, input_shape: Shape) -> None:
        width = self._width(input_shape[-1])
        self.inner = self._dense("inner", width, input_shape, self.activation)
        if self.gated:
            self.gate = self._dense("gate", width, input_shape)
        self.inner_dropout = layers.Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        self.outer = self._dense("outer", input_shape[-1], (*input_shape[:-1], width))

    def _width(self, width):
        if self.intermediate_dim is not None:
            return self.intermediate_dim
        return 64 * math.ceil(width / 24) if self.gated else 4 * width

    def _dense(self, name, width, input_shape, activation=None):
        dense = layers.Dense(
            width,
            activation,
            self.use_bias,
            kernel_initializer=self.initializer_of(name) if self.initializer_of else self.kernel_initializer.clone(),
            kernel_regularizer=self.kernel_regularizer,
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build(input_shape)
        return dense

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))  # as a product of two matrices
        x = self.inner(rows)
        if self.gated:
            x = x * self.gate(rows)
        return ops.reshape(self.outer(self.inner_dropout(x, training=training)), sizes(inputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        config = arguments_of(self, FeedForward, "activation")
        return {**super().get_config(), **config, "activation": activations.serialize(self.activation)}

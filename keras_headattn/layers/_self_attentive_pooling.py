from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._heads import mark_heads
from keras_headattn._identifiers import arguments_of, check_seed, constraint, initializer, regularizer
from keras_headattn._types import Constraint, Initializer, Regularizer, Shape, Tensor
from keras_headattn._validation import check_positive, check_probability
from keras_headattn.layers._head_regularization import as_head_regularizer, kernel_regularizer, regularizes
from keras_headattn.layers._intermediates import record
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.ops import masked_softmax
from keras_headattn.ops._masks import check_mask


@register_keras_serializable(package="keras_headattn")
class SelfAttentivePooling(Rematerialized):
    """Pooling of a sequence to one vector per head by additive attention.

    With the inputs H `(n, D)`, `hidden_kernel` W `(D, hidden_dim)` and `head_kernel` V `(hidden_dim, h)`:

        A = softmax(tanh(H W) V)^T, over the sequence
        Z = A H

    Padding gets weight 0, and a sequence of only padding gives zeros. The output has no mask.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding", eqs. 6 and 7; An et al. 2020, "Repulsive
    attention", eqs. 8 and 9.

    Args:
        num_heads: number of heads `h`.
        hidden_dim: width of the hidden layer.
        dropout, seed: rate and seed of the dropout of the attention weights.
        kernel_initializer, kernel_regularizer, kernel_constraint: of both kernels.
        head_regularizer: one of `keras_headattn.regularizers`, to keep the heads apart, except
            `Disagreement("subspaces")`: all heads have the same values.

    Call arguments:
        inputs: `(B, n, D)`.
        mask: boolean `(B, n)`, True = a real token. Defaults to the Keras mask of `inputs`.
        return_attention_scores: returns the weights as well. Never changes the output.

    Returns:
        Z `(B, h, D)`; then, if asked for, the weights A `(B, h, n)` before dropout.

    >>> x = keras.random.normal((2, 5, 16))
    >>> z, weights = SelfAttentivePooling(num_heads=4, hidden_dim=8)(x, return_attention_scores=True)
    >>> tuple(z.shape), tuple(weights.shape)
    ((2, 4, 16), (2, 4, 5))
    """

    compute_output_spec = keras.Operation.compute_output_spec

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        kernel_regularizer: Regularizer | None = None,
        kernel_constraint: Constraint | None = None,
        head_regularizer: Regularizer | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = check_positive("num_heads", num_heads)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.dropout = check_probability("dropout", dropout)
        self.kernel_initializer = initializer("kernel_initializer", kernel_initializer)
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.kernel_constraint = constraint("kernel_constraint", kernel_constraint)
        self.head_regularizer = as_head_regularizer(head_regularizer, ("kernels", "weights", "outputs"))
        self.seed = check_seed("seed", seed)
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, inputs_shape: Shape) -> None:
        if len(inputs_shape) != 3:
            raise ValueError(f"`inputs` must have 3 axes. Received: inputs of shape {tuple(inputs_shape)}")
        base_regularizer = self.kernel_regularizer
        self.hidden_kernel = self._kernel("hidden_kernel", (inputs_shape[-1], self.hidden_dim), base_regularizer)
        regularizer = kernel_regularizer(base_regularizer, self.head_regularizer)
        self.head_kernel = self._kernel("head_kernel", (self.hidden_dim, self.num_heads), regularizer)
        mark_heads(self.head_kernel, 1, "head_kernel")
        self.built = True

    def _kernel(self, name, shape, regularizer):
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=self.kernel_initializer.clone(),
            regularizer=regularizer,
            constraint=self.kernel_constraint,
        )

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        hidden = ops.tanh(ops.tensordot(inputs, self.hidden_kernel, axes=1))
        logits = ops.swapaxes(ops.tensordot(hidden, self.head_kernel, axes=1), 1, 2)
        if mask is not None:
            mask = check_mask("mask", mask, tuple(inputs.shape[:2]))[:, None]
        weights = masked_softmax(logits, mask)
        record(self, logits=logits, weights=weights)
        output = ops.matmul(self._dropout_layer(weights, training=training), inputs)
        if regularizes(self.head_regularizer, "weights", "outputs"):
            heads = weights if self.head_regularizer.of == "weights" else output
            self.add_loss(self.head_regularizer(heads, None if mask is None else ops.any(mask, axis=(1, 2))))
        return (output, weights) if return_attention_scores else output

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (inputs_shape[0], self.num_heads, inputs_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, SelfAttentivePooling)}

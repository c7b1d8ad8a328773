from keras.saving import register_keras_serializable

from keras_headattn.layers._attention import Attention


@register_keras_serializable(package="keras_headattn")
class MultiHeadAttention(Attention):
    """Multi-head scaled dot-product attention.

    Stands in for `keras.layers.MultiHeadAttention`: same arguments, same weights in the same order. With the mean
    length of the training sentences as `key_dim`, and `D / num_heads` as `value_dim`, it is attention with a fixed head
    size (Bhojanapalli et al. 2020).

    Source: Vaswani et al. 2017, "Attention is all you need"; Li and Luo 2022, "Interacting-head attention", eqs. 4
    and 5. Arguments, calls and errors: see `Attention`.

    >>> x = keras.random.normal((2, 5, 16))
    >>> output, weights = MultiHeadAttention(num_heads=4, key_dim=4)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """

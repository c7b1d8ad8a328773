import math

import keras
from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._validation import positive
from keras_headattn.layers._attention import Attention, _clone


@register_keras_serializable(package="keras_headattn")
class TalkingHeadsAttention(Attention):
    """Attention whose heads exchange logits before the softmax and weights after it.

    Two matrices over the head axis, without biases: `pre_softmax_kernel` of shape
    `(key_heads, num_heads)` for the logits, `post_softmax_kernel` of shape `(num_heads, value_heads)` for
    the weights. They are the transposes of the papers' `W_t1` and `W_t2`. The mask acts after the first.

    Source: Shazeer et al. 2020, "Talking-heads attention"; Zhang et al. 2022, "Interacting-head attention",
    eqs. 6-9.

    Args:
        num_heads: number of heads in the softmax.
        key_heads: number of heads of queries and keys. Defaults to `num_heads`.
        value_heads: number of heads of values. Defaults to `num_heads`.
        mixing_initializer: of the two matrices. Defaults to `kernel_initializer`.
        **kwargs: see `Attention`, also for call arguments, results and errors. The scores returned
            are the weights after the second exchange, `(B, value_heads, n, m)`: a row need not sum to 1.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(TalkingHeadsAttention(num_heads=4, key_dim=4)(x, x).shape)
    (2, 5, 16)
    """

    def __init__(self, num_heads, key_dim, *args, key_heads=None, value_heads=None, mixing_initializer=None, **kwargs):
        super().__init__(num_heads, key_dim, *args, **kwargs)
        self._key_heads = positive("key_heads", num_heads if key_heads is None else key_heads)
        self._value_heads = positive("value_heads", num_heads if value_heads is None else value_heads)
        self.mixing_initializer = initializers.get(mixing_initializer)

    query_heads = key_heads = property(lambda self: self._key_heads)
    value_heads = merged_heads = property(lambda self: self._value_heads)

    def build(self, query_shape, value_shape=None, key_shape=None, previous_map_shape=None):
        super().build(query_shape, value_shape, key_shape)
        for name, shape in (
            ("pre_softmax_kernel", (self.key_heads, self.num_heads)),
            ("post_softmax_kernel", (self.num_heads, self.value_heads)),
        ):
            kernel = self.add_weight(
                name=name,
                shape=shape,
                initializer=_clone(self.mixing_initializer or self.kernel_initializer),
                regularizer=self.kernel_regularizer,
                constraint=self.kernel_constraint,
            )
            setattr(self, name, kernel)

    def weigh(self, logits, mask):
        weights = super().weigh(_exchange(logits, self.pre_softmax_kernel), mask)
        return _exchange(weights, self.post_softmax_kernel)

    def get_config(self):
        return {
            **super().get_config(),
            "key_heads": self.key_heads,
            "value_heads": self.value_heads,
            "mixing_initializer": initializers.serialize(self.mixing_initializer),
        }


def _exchange(maps, kernel):
    """Linear map over the head axis: `(B, h, n, m)` and `(h, g)` to `(B, g, n, m)`."""
    if keras.backend.backend() != "tensorflow" or None in maps.shape[1:] or math.prod(maps.shape[2:]) < LONG:
        return _product(maps, kernel)

    @ops.custom_gradient
    def exchange(maps, kernel):
        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _product(upstream, ops.transpose(kernel)), _kernel_gradient(maps, upstream)

        return _product(maps, kernel), gradient

    return exchange(maps, ops.copy(kernel))


def _product(maps, kernel):
    batch, heads, n, m = ops.shape(maps)
    # Broadcast by hand: XLA is slower at products of a tensor that it has to broadcast.
    kernels = ops.broadcast_to(ops.transpose(kernel), (batch, kernel.shape[1], heads))
    mixed = ops.matmul(kernels, ops.reshape(maps, (batch, heads, n * m)))
    return ops.reshape(mixed, (batch, kernel.shape[1], n, m))


# From so many terms on XLA takes twice as long, on a CPU, for a product that sums over them.
LONG = 2**16


def _kernel_gradient(maps, upstream):
    """Gradient `(h, g)` of the kernel from `(B, h, n, m)` and `(B, g, n, m)`, summed over parts of a few queries."""
    n, m = maps.shape[2:]
    rows = max(LONG // 8 // m, -(-n // 16))  # at most 16 parts
    total = 0.0
    for start in range(0, n, rows):
        part, of_mixed = (
            ops.reshape(x[:, :, start : start + rows], (-1, x.shape[1], min(rows, n - start) * m))
            for x in (maps, upstream)
        )
        total = total + ops.sum(ops.matmul(part, ops.swapaxes(of_mixed, 1, 2)), axis=0)
    return total

import numpy as np
from keras import backend, ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Shape, Tensor
from keras_headattn.positions._positions import Positions, distances


@register_keras_serializable(package="keras_headattn")
class ALiBiPositions(Positions):
    """Logits that fall linearly with the distance between query and key, with a slope for each head.

    `bias = -slope * |i - j|`, also for keys after the query, which the paper does not cover. The slopes of `h = 2^k`
    heads are `2^(-8 / h), 2^(-16 / h), ..., 2^-8`. Other numbers of heads get the slopes of the next smaller power of
    2, then every second slope of twice that power. Nothing is learned.

    Source: Press et al. 2022, "Train short, test long: attention with linear biases enables input length
    extrapolation", section 3.

    >>> positions = ALiBiPositions()
    >>> positions.build((None, 8, None, 4))
    >>> logits = positions.bias(keras.ops.zeros((1, 8, 1, 4)), np.array([3]), np.arange(4))
    >>> np.array(logits)[0, :2, 0].tolist()
    [[-1.5, -1.0, -0.5, 0.0], [-0.75, -0.5, -0.25, 0.0]]
    """

    def build(self, query_shape: Shape) -> None:
        self.slopes = _slopes(query_shape[1])

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        dtype = backend.result_type(query.dtype, "float32")
        slopes = ops.convert_to_tensor(self.slopes, dtype)
        steps = ops.cast(-ops.abs(distances(query, query_positions, key_positions)), dtype)
        logits = slopes[:, None, None] * steps  # (h, n, m)
        return ops.cast(logits, query.dtype)[None]


def _slopes(heads):
    power = 2 ** (heads.bit_length() - 1)  # the largest not above `heads`
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    of_twice_as_many = 2.0 ** (-8 * np.arange(1, 2 * power + 1) / (2 * power))
    return np.concatenate([slopes, of_twice_as_many[::2][: heads - power]])

import numpy as np
from keras import backend, ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Shape, Tensor
from keras_headattn.positions._positions import Positions, distances


@register_keras_serializable(package="keras_headattn")
class ALiBiPositions(Positions):
    """Logits fall in a straight line with the distance of query and key; each head has its own slope.

    `bias = -slope * |i - j|`. The slopes of `h = 2^k` heads are `2^(-8 / h), 2^(-16 / h), ..., 2^-8`. Any other
    number of heads has those of the next smaller power of 2, and then every second one of twice as many heads.
    Nothing is learned. The paper has keys before their query only; here keys after it count in the same way.

    Shapes: scaled queries `(B, h, n, d)` and positions `(n,)` and `(m,)` give logits `(1, h, n, m)`.

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
    """`(heads,)`: a slope for each head."""
    power = 2 ** (heads.bit_length() - 1)  # the largest that is not above
    own = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    of_twice_as_many = 2.0 ** (-8 * np.arange(1, 2 * power + 1) / (2 * power))
    return np.concatenate([own, of_twice_as_many[::2][: heads - power]])

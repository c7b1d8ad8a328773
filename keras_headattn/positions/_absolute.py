from collections.abc import Callable
from typing import Any

import numpy as np
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn import _identifiers
from keras_headattn._identifiers import arguments_of
from keras_headattn._private import check_length
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import check_boolean, check_index, check_positive


def check_positions(length, most):
    check_length(length, most, f"There are positions for {most} tokens; make the model with a larger `max_length`.")


class _Table(layers.Layer):
    """Layer that `keras.RematScope` leaves alone, as a sum is not worth the recomputation."""

    def rematerialized_call(self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return layer_call


@register_keras_serializable(package="keras_headattn")
class SinusoidalPositions(_Table):
    """Sines and cosines of the position, with wavelengths from 2 pi to 10,000 * 2 pi, added to the inputs.

    Source: Vaswani et al. 2017, "Attention is all you need", section 3.5 (sines in the first half of the features,
    cosines in the second, as in tensor2tensor).

    Args:
        endpoint: True for 10,000 * 2 pi as the longest wavelength, as in tensor2tensor; False for a series that ends
            before it, as in the paper and in Marian.
        first: position of the first token. Default 0.

    Call arguments:
        inputs: `(B, n, D)`, also the shape of the result; D is even.
        positions: integers `(n,)` or `(B, n)`. Default to 0, 1, ..., n - 1.
    """

    def __init__(self, endpoint: bool = True, first: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.endpoint = check_boolean("endpoint", endpoint)
        self.first = check_index("first", first)

    def call(self, inputs: Tensor, positions: Tensor | None = None) -> Tensor:
        length, width = ops.shape(inputs)[-2], int(inputs.shape[-1])
        if width % 2:
            raise ValueError(f"Sinusoidal positions need an even number of features. Received: {width}")
        positions = ops.arange(length) if positions is None else positions
        steps = max(width // 2 - self.endpoint, 1)
        frequencies = 10_000.0 ** (-np.arange(width // 2) / steps)
        positions = positions + self.first if self.first else positions
        angles = ops.cast(positions, "float32")[..., None] * ops.convert_to_tensor(frequencies, "float32")
        table = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
        return inputs + ops.cast(table, inputs.dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, SinusoidalPositions)}


@register_keras_serializable(package="keras_headattn")
class LearnedPositions(_Table):
    """Learned position vectors, added to the inputs.

    Args:
        max_length: number of positions. With XLA, if the length is not known before, later ones get the last vector.
        initializer: of the vectors.

    Call arguments: as `SinusoidalPositions`.
    """

    def __init__(self, max_length: int, initializer: Initializer = "glorot_uniform", **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_length = check_positive("max_length", max_length)
        self.initializer = _identifiers.initializer("initializer", initializer)

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            name="embeddings", shape=(self.max_length, input_shape[-1]), initializer=self.initializer
        )

    def call(self, inputs: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is None:
            length = ops.shape(inputs)[-2]
            check_positions(length, self.max_length)
            positions = ops.arange(length)
        return inputs + ops.take(self.embeddings, ops.minimum(positions, self.max_length - 1), axis=0)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, LearnedPositions)}

from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer, regularizer
from keras_headattn._types import Initializer, Regularizer, Shape, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.positions._positions import Positions, add_table, distances


class _LearnedVectors(Positions):
    """Learned vectors, whose products with the queries are logits."""

    compute_output_spec = keras.Operation.compute_output_spec

    def __init__(
        self, embeddings_initializer: Initializer | None, embeddings_regularizer: Regularizer | None, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.embeddings_initializer = initializer("embeddings_initializer", embeddings_initializer)
        self.embeddings_regularizer = regularizer("embeddings_regularizer", embeddings_regularizer)

    def _add_vectors(self, name, count, width):
        return add_table(self, name, (count, width), width**-0.5, self.embeddings_regularizer)

    def call(self, query: Tensor, query_positions: Tensor | None = None, key_positions: Tensor | None = None) -> Tensor:
        return self.bias(query, query_positions, key_positions)

    def compute_output_shape(self, query_shape: Shape, *_: Any) -> Shape:
        return (*query_shape[:-1], query_shape[-2])  # of self-attention

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, _LearnedVectors)}


@register_keras_serializable(package="keras_headattn")
class RelativePositions(_LearnedVectors):
    """Learned vectors for each distance between query and key, the same for all heads.

    Larger distances count as `max_distance`.

    Source: Shaw et al. 2018, "Self-attention with relative position representations"; Wang et al. 2021, "Evolving
    attention with residual convolutions", eq. 2, with the scaled query as in all public code.

    Args:
        max_distance: largest distance with its own vector.
        embeddings_initializer: of the vectors. Defaults to a normal distribution of deviation `key_dim ** -0.5`.
        embeddings_regularizer: of the vectors.

    >>> positions = RelativePositions(max_distance=16)
    >>> positions.build((None, 4, None, 8))
    >>> query = keras.random.normal((2, 4, 5, 8))
    >>> tuple(positions.bias(query, np.arange(5), np.arange(7)).shape)
    (2, 4, 5, 7)
    """

    def __init__(
        self,
        max_distance: int,
        embeddings_initializer: Initializer | None = None,
        embeddings_regularizer: Regularizer | None = None,
        **kwargs: Any,
    ):
        super().__init__(embeddings_initializer, embeddings_regularizer, **kwargs)
        self.max_distance = check_positive("max_distance", max_distance)

    def build(self, query_shape: Shape, *_: Any) -> None:
        self.embeddings = self._add_vectors("embeddings", 2 * self.max_distance + 1, query_shape[-1])

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        farthest = self.max_distance
        steps = ops.clip(distances(query, query_positions, key_positions), -farthest, farthest) + farthest
        # (n, m, d), and a product for each query position: needs no index as large as the logits.
        vectors = ops.take(ops.cast(self.embeddings, query.dtype), steps, axis=0)
        batch, heads, n, width = ops.shape(query)
        rows = ops.reshape(ops.transpose(query, (2, 0, 1, 3)), (n, batch * heads, width))
        logits = ops.matmul(rows, ops.swapaxes(vectors, 1, 2))  # (n, B * h, m)
        return ops.transpose(ops.reshape(logits, (n, batch, heads, ops.shape(steps)[1])), (1, 2, 0, 3))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, RelativePositions)}


@register_keras_serializable(package="keras_headattn")
class RelativePositions2D(_LearnedVectors):
    """Learned vectors for the vertical and the horizontal distance between two pixels, the same for all heads.

    For attention over all pixels of an image, row by row: inputs `(B, height * width, D)`, or `(B, height, width, D)`.
    The query of `bias` may hold several whole images on axis 2.

    Source: Bello et al. 2019, "Attention augmented convolutional networks"; Wang et al. 2021, "Evolving attention with
    residual convolutions", eq. 3, with the scaled query as in all public code.

    Args:
        height, width: pixels of the image.
        embeddings_initializer, embeddings_regularizer: as in `RelativePositions`.

    >>> positions = RelativePositions2D(3, 5)
    >>> positions.build((None, 4, None, 8))
    >>> query = keras.random.normal((2, 4, 15, 8))
    >>> tuple(positions.bias(query).shape)
    (2, 4, 15, 15)
    """

    def __init__(
        self,
        height: int,
        width: int,
        embeddings_initializer: Initializer | None = None,
        embeddings_regularizer: Regularizer | None = None,
        **kwargs: Any,
    ):
        super().__init__(embeddings_initializer, embeddings_regularizer, **kwargs)
        self.height = check_positive("height", height)
        self.width = check_positive("width", width)

    def build(self, query_shape: Shape, *_: Any) -> None:
        depth = query_shape[-1]
        self.height_embeddings = self._add_vectors("height_embeddings", 2 * self.height - 1, depth)
        self.width_embeddings = self._add_vectors("width_embeddings", 2 * self.width - 1, depth)

    def bias(self, query: Tensor, query_positions: Tensor | None = None, key_positions: Tensor | None = None) -> Tensor:
        batch, heads, n, depth = ops.shape(query)
        height, width = self.height, self.width
        m = height * width if key_positions is None else key_positions.shape[0]
        if isinstance(n, int) and n % (height * width) or m not in (None, height * width):
            raise ValueError(
                f"RelativePositions2D({height}, {width}) needs the {height * width} pixels of an image as queries and "
                f"as keys. Received: {n} queries, {m} keys"
            )
        pixels = ops.reshape(query, (-1, height, width, depth))
        vertical = ops.einsum("byxd,ykd->byxk", pixels, _by_distance(self.height_embeddings, height, query.dtype))
        horizontal = ops.einsum("byxd,xkd->byxk", pixels, _by_distance(self.width_embeddings, width, query.dtype))
        logits = ops.expand_dims(vertical, -1) + ops.expand_dims(horizontal, -2)
        return ops.reshape(logits, (batch, heads, n, height * width))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, RelativePositions2D)}


def _by_distance(embeddings, length, dtype):
    """Returns the vector of each pair of places, from query to key: `(length, length, d)`."""
    places = ops.arange(length, dtype="int32")
    return ops.take(ops.cast(embeddings, dtype), places[None, :] - places[:, None] + length - 1, axis=0)

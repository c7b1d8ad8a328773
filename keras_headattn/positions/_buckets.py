from typing import Any

import numpy as np
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import check_boolean, check_positive
from keras_headattn.ops._dense import take
from keras_headattn.positions._positions import Positions, add_table, distances


@register_keras_serializable(package="keras_headattn")
class BucketPositions(Positions):
    """Learned logits for each head and bucket of distances, as in T5.

    Half of the buckets hold one distance each: 0, 1, 2, ... The others hold ranges that grow exponentially up to
    `max_distance`; the last one also holds all larger distances. In both directions, half of the buckets are for keys
    after their query; in one direction, such keys count as distance 0.

    Source: Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text transformer",
    section 2.1, and its public code. T5 has unscaled logits, the same table in all layers, one direction in the
    decoder, and no positions in cross-attention.

    Args:
        num_buckets: number of buckets, at least 2; in both directions even and at least 4.
        max_distance: distance from which all keys share the last bucket, greater than the number of buckets for
            single distances.
        bidirectional: True for separate buckets of keys after their query.
        embeddings_initializer: of the table `(num_buckets, h)`. Defaults to a normal distribution of deviation
            `(h * d) ** -0.5`, where `h * d` is the width of the model in T5.

    >>> positions = BucketPositions(num_buckets=8, max_distance=20)
    >>> positions.build((None, 2, None, 16))
    >>> _ = positions.embeddings.assign(np.arange(16).reshape(8, 2))
    >>> logits = positions.bias(keras.ops.zeros((1, 2, 1, 16)), np.array([10]), np.arange(7, 14))
    >>> np.array(logits)[0, 0, 0].tolist()
    [4.0, 4.0, 2.0, 0.0, 10.0, 12.0, 12.0]
    """

    def __init__(
        self,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        embeddings_initializer: Initializer | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_buckets = check_positive("num_buckets", num_buckets)
        self.max_distance = check_positive("max_distance", max_distance)
        self.bidirectional = check_boolean("bidirectional", bidirectional)
        self.embeddings_initializer = initializer("embeddings_initializer", embeddings_initializer)
        sides = 2 if bidirectional else 1
        if num_buckets % sides or num_buckets < 2 * sides:
            kind = "an even number of at least 4 in both directions" if bidirectional else "at least 2"
            raise ValueError(f"`num_buckets` must be {kind}. Received: num_buckets={num_buckets}")
        if max_distance <= num_buckets // sides // 2:
            raise ValueError(
                f"`max_distance` must be greater than the {num_buckets // sides // 2} buckets of one distance each. "
                f"Received: max_distance={max_distance}"
            )

    def build(self, query_shape: Shape) -> None:
        heads: Any = query_shape[1]
        width: Any = query_shape[-1]
        self.embeddings = add_table(self, "embeddings", (self.num_buckets, heads), (heads * width) ** -0.5)

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        farthest = self.max_distance
        # A logit for each distance first, (h, 2 * farthest + 1): one index as large as the logits, not two.
        table = ops.transpose(ops.cast(self.embeddings, query.dtype))
        by_distance = take(table, self.buckets(np.arange(-farthest, farthest + 1)), axis=1)
        steps = ops.clip(distances(query, query_positions, key_positions), -farthest, farthest) + farthest
        return ops.expand_dims(take(by_distance, steps, axis=1), 0)

    def buckets(self, distances: np.ndarray) -> np.ndarray:
        """Returns the bucket of each distance, an int32 array in `[0, num_buckets)`.

        Args:
            distances: NumPy array of integers, from query to key.
        """
        after = distances > 0
        if self.bidirectional:
            num_buckets, steps, first = self.num_buckets // 2, np.abs(distances), self.num_buckets // 2 * after
        else:
            num_buckets, steps, first = self.num_buckets, np.maximum(-distances, 0), 0
        single = num_buckets // 2
        grown = np.log(np.maximum(steps, single) / single) / np.log(self.max_distance / single)  # 0 to 1
        ranges = np.minimum(single + (grown * (num_buckets - single)).astype("int64"), num_buckets - 1)
        return (first + np.where(steps < single, steps, ranges)).astype("int32")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, BucketPositions)}

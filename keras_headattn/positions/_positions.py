"""Interface between attention and positions."""

import keras
from keras import backend, initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import differ


@register_keras_serializable(package="keras_headattn")
class Positions(keras.layers.Layer):
    """Base of positions that act inside attention.

    A subclass overrides `rotate`, `bias`, or both. An attention layer calls `build` when it is built, unless the
    positions are `built` (loaded, or shared with another layer), and in its call:

    1. `rotate`, which changes the heads of queries and of keys, before keys go into the cache;
    2. `bias`, which returns a tensor to add to the logits. A cache then keeps the positions of its keys.

    >>> class Slope(Positions):
    ...     def bias(self, query, query_positions, key_positions):
    ...         return keras.ops.cast(key_positions, query.dtype)
    >>> slope = Slope()
    >>> slope.build((None, 2, None, 4))
    >>> slope.has_bias, slope.rotates
    (True, False)
    """

    def build(self, query_shape: Shape) -> None:
        """Makes the weights, for queries of shape `(B, h, n, d)`; h and d are known."""

    @property
    def has_bias(self) -> bool:
        """True if the class adds to the logits."""
        return type(self).bias is not Positions.bias

    @property
    def rotates(self) -> bool:
        """True if the class changes queries and keys."""
        return type(self).rotate is not Positions.rotate

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Rotates heads of queries or of keys; shape and dtype stay.

        Args:
            heads: `(B, h, n, d)`.
            positions: integers `(n,)`.
        """
        return heads

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Returns a tensor to add to the logits.

        Args:
            query: scaled queries `(B, h, n, d)`.
            query_positions, key_positions: integers `(n,)` and `(m,)`.

        Returns:
            Tensor of the queries' dtype that broadcasts to `(B, h, n, m)`, or `None`. It cannot mask: use
            `attention_mask`.
        """
        return None


def as_positions(name, positions, length=None):
    """Casts integers `(n,)` to int32; n is `length` if both are known."""
    positions = ops.convert_to_tensor(positions)
    shape, dtype = tuple(positions.shape), backend.standardize_dtype(positions.dtype)
    fits = len(shape) == 1 and not differ(shape[0], length)
    if not fits or not backend.is_int_dtype(dtype):
        count = "" if length is None else f"{length} "
        raise ValueError(
            f"`{name}` must be {count}integers along one axis. Received: {name} of shape {shape} and dtype {dtype}"
        )
    return ops.cast(positions, "int32")


def distances(query, query_positions, key_positions):
    """Returns the position of each key minus that of each query, `(n, m)`."""
    query_positions = as_positions("query_positions", query_positions, query.shape[2])
    return as_positions("key_positions", key_positions)[None, :] - query_positions[:, None]


def add_table(layer, name, shape, deviation, regularizer=None):
    """Makes a weight by the layer's `embeddings_initializer`, or a normal distribution of this deviation."""
    initializer = layer.embeddings_initializer or initializers.RandomNormal(stddev=deviation)
    # An initializer without a seed repeats its numbers unless it is cloned.
    return layer.add_weight(name=name, shape=shape, initializer=initializer.clone(), regularizer=regularizer)


def copy_positions(identifier, dtype):
    """Copies positions for a layer of this dtype; `None` stays."""
    positions = keras.saving.deserialize_keras_object(identifier) if isinstance(identifier, dict) else identifier
    if positions is None:
        return None
    if not isinstance(positions, Positions):
        raise ValueError(
            "`relative_positions` must be one of keras_headattn.positions that act on queries, keys or logits, such as "
            f"RotaryPositions(). Received: relative_positions={identifier!r}"
        )
    if type(dtype) is keras.DTypePolicy:
        dtype = dtype.name  # from the policy, Keras makes no configuration of a class without `get_config`
    return type(positions).from_config({**positions.get_config(), "dtype": dtype, "name": "relative_positions"})

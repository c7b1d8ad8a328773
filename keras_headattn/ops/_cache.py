"""Writing into the tensors that decoding keeps from step to step."""

from keras import ops


def write_rows(cache, rows, index, axis=2):
    """Replaces rows of `cache` from row `index` on.

    A scatter rather than `keras.ops.slice_update`: it works in place under XLA as well, and its
    TensorFlow op is one that a model server has without XLA.

    Args:
        cache: `(B, h, L, d)`; with `axis=3`, `(B, h, d, L)`.
        rows: `(B, h, n, d)`; with `axis=3`, `(B, h, d, n)`.
        index: first row to replace; an integer or a scalar tensor, at most `L - n`.
        axis: 2 or 3, along which the rows follow each other.

    Returns:
        Tensor of the shape of `cache`.
    """
    shape = ops.shape(rows)
    places = [ops.arange(size, dtype="int32") for size in shape[: axis + 1]]
    places[axis] = places[axis] + ops.cast(index, "int32")
    indices = ops.stack([ops.reshape(place, (-1,)) for place in ops.meshgrid(*places, indexing="ij")], axis=-1)
    return ops.scatter_update(cache, indices, ops.reshape(ops.cast(rows, cache.dtype), (-1, *shape[axis + 1 :])))

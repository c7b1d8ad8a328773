"""Writing into the tensors that decoding keeps from step to step."""

from keras import ops


def write_rows(cache, rows, index):
    """Replaces `rows.shape[2]` rows of `cache` from row `index` on.

    A scatter rather than `keras.ops.slice_update`: it works in place under XLA as well, and its
    TensorFlow op is one that a model server has without XLA.

    Args:
        cache: `(B, h, L, d)`.
        rows: `(B, h, n, d)`.
        index: first row to replace; an integer or a scalar tensor, at most `L - n`.

    Returns:
        `(B, h, L, d)`.
    """
    batch, heads, length, width = ops.shape(rows)
    shape = (batch, heads, length)
    axes = (
        ops.arange(batch, dtype="int32")[:, None, None],
        ops.arange(heads, dtype="int32")[None, :, None],
        ops.arange(length, dtype="int32")[None, None, :] + ops.cast(index, "int32"),
    )
    indices = ops.stack([ops.reshape(ops.broadcast_to(axis, shape), (-1,)) for axis in axes], axis=-1)
    return ops.scatter_update(cache, indices, ops.reshape(ops.cast(rows, cache.dtype), (-1, width)))

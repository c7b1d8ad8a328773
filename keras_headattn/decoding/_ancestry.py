"""The rows of the cache that hold the tokens of each beam.

Beam search writes K tokens a step to the cache, beam `b` of position `t` to row `t * K + b`. A beam's
history is a path through these rows: its ancestry `(B, K, T)` holds, for each beam and position, which of
the K rows belongs to it.
"""

from keras import ops


def initial_ancestry(batch_size, beam_size, max_length):
    """`(B, K, T)`: each beam is its own ancestor everywhere."""
    beams = ops.arange(beam_size, dtype="int32")[None, :, None]
    return ops.broadcast_to(beams, (batch_size, beam_size, max_length))


def ancestry_mask(ancestry, position):
    """Boolean `(B, K, T * K)`: True for the rows of a beam's own history up to `position`."""
    batch, k, length = ops.shape(ancestry)
    own = ops.equal(ancestry[..., None], ops.arange(k, dtype="int32"))
    written = ops.less_equal(ops.arange(length, dtype="int32"), position)[:, None]
    return ops.reshape(ops.logical_and(own, written), (batch, k, length * k))


def inherit(ancestry, parents, position):
    """Ancestry of new beams, which stand at `position + 1`, from their `parents` `(B, K)` at `position`."""
    k, length = ancestry.shape[1:]
    ancestry = ops.take_along_axis(ancestry, parents[..., None], axis=1)
    later = ops.greater(ops.arange(length, dtype="int32"), position)
    return ops.where(later, ops.arange(k, dtype="int32")[:, None], ancestry)

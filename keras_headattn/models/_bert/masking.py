"""Draws and masks tokens inside the graph (Devlin et al. 2019, section 3.1; google-research/electra)."""

import numpy as np
from keras import ops, random


def most_drawn(share, length):
    """Returns the largest number of tokens drawn from a text of this length, a static width of tensors.

    >>> most_drawn(0.15, 128)
    19
    """
    return max(1, int((share + 0.005) * length))


def number_drawn(is_real, is_free, share, replacement=False):
    """Returns how many tokens of each text are drawn, int32 `(B,)`: a share of the real ones, at least 1."""
    real, free = (ops.sum(ops.cast(flags, "int32"), axis=1) for flags in (is_real, is_free))
    count = ops.cast(ops.round(share * ops.cast(real, "float32")), "int32")
    count = ops.maximum(1, ops.minimum(count, most_drawn(share, is_real.shape[1])))
    return ops.where(free > 0, count, 0) if replacement else ops.minimum(count, free)


def draw_positions(is_free, most, seed, replacement=False):
    """Draws positions `(B, K)` uniformly among the free ones; without replacement others may follow."""
    batch, length = ops.shape(is_free)
    if replacement:
        keys = random.uniform((batch, most, length), dtype="float32", seed=seed)
        return ops.cast(ops.argmax(ops.where(is_free[:, None], keys, -1.0), axis=-1), "int32")
    keys = random.uniform((batch, length), dtype="float32", seed=seed)
    return ops.cast(ops.top_k(ops.where(is_free, keys, -1.0), min(most, length))[1], "int32")


def replace_at(ids, positions, values, chosen):
    """Replaces ids `(B, n)` at `positions` by the chosen ones of `values` `(B, K)`.

    A position given twice gets the mean of both values, rounded down, as in ELECTRA's program.

    >>> chosen = np.array([[True, False, True]])
    >>> replace_at(np.array([[5, 6, 7]]), np.array([[2, 1, 2]]), np.array([[8, 9, 3]]), chosen).numpy().tolist()
    [[5, 6, 5]]
    """
    is_here = ops.equal(positions[..., None], np.arange(ids.shape[1], dtype="int32"))  # (B, K, n)
    is_here = ops.cast(ops.logical_and(is_here, chosen[..., None]), "int32")
    count, total = ops.sum(is_here, axis=1), ops.sum(is_here * ops.cast(values, "int32")[..., None], axis=1)
    return ops.where(count > 0, total // ops.maximum(count, 1), ops.cast(ids, "int32"))


def mask(ids, positions, is_drawn, mask_id, tokens, masked_share, random_share, seeds):
    """Replaces drawn ids by `mask_id` or by random `tokens`; the rest stays."""
    shape = ops.shape(positions)
    fate = random.uniform(shape, dtype="float32", seed=next(seeds))
    values = ops.full(shape, mask_id, dtype="int32")
    if random_share:
        drawn = random.randint(shape, 0, len(tokens), dtype="int32", seed=next(seeds))
        values = ops.where(fate < masked_share, values, ops.take(np.asarray(tokens, "int32"), drawn))
    return replace_at(ids, positions, values, ops.logical_and(is_drawn, fate < masked_share + random_share))

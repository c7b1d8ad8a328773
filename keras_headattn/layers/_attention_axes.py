"""Inputs of any rank as `(batch, length, features)`, and back."""

import math

from keras import ops

from keras_headattn.ops import check_dense, check_mask


class AttentionAxes:
    """Folds all attended axes into one length axis and all others into one batch axis.

    Nothing is done for three axes, attended over the middle one. This is the usual case.

    Args:
        query_rank: number of axes of the query, features included.
        key_rank: number of axes of key and value.
        axes: attended axes of the query, or `None` for all but the first and the last.

    Raises:
        ValueError: for axes that the inputs do not have.
    """

    def __init__(self, query_rank, key_rank, axes=None):
        self.rank = {"query": query_rank, "key": key_rank, "value": key_rank}
        if min(query_rank, key_rank) < 3:
            raise ValueError(
                "Attention needs inputs of at least 3 axes (batch, length, features). "
                f"Received: query with {query_rank} axes, value with {key_rank} axes"
            )
        self.axes = {side: _attended(rank, axes) for side, rank in (("query", query_rank), ("key", key_rank))}
        self.trivial = query_rank == key_rank == 3

    def length(self, shape, side):
        """How many positions of a tensor of this shape are attended over; `None` if not known."""
        sizes = [shape[axis] for axis in self.axes[side]]
        return None if None in sizes else math.prod(sizes)

    def fold(self, x, side):
        """`x` as `(batch, length, features)`; `side` is `"query"` or `"key"`. `None` stays."""
        if self.trivial or x is None:
            return x
        x = ops.transpose(x, self._order(side))
        shape, attended = ops.shape(x), len(self.axes[side])
        split = len(shape) - 1 - attended
        return ops.reshape(x, (_size(shape[:split]), _size(shape[split:-1]), shape[-1]))

    def unfold(self, output, inputs):
        """`(batch, length, ...)` with the axes of `inputs`, the query."""
        if self.trivial:
            return output
        order, features = self._order("query"), ops.shape(output)[2:]
        shape = [ops.shape(inputs)[axis] for axis in order[:-1]]
        output = ops.reshape(output, (*shape, *features))
        back = sorted(range(len(order) - 1), key=order.__getitem__)
        return ops.transpose(output, (*back, *range(len(back), len(back) + len(features))))

    def unfold_scores(self, scores, query, value):
        """`(batch, heads..., n, m)` with n and m as the attended axes of `query` and `value`."""
        if self.trivial:
            return scores
        query_shape, value_shape = ops.shape(query), ops.shape(value)
        n = [query_shape[axis] for axis in self.axes["query"]]
        m = [value_shape[axis] for axis in self.axes["key"]]
        return ops.reshape(scores, (*self._batch(query), *ops.shape(scores)[1:-2], *n, *m))

    def fold_mask(self, name, mask, shape, query):
        """A checked boolean mask that broadcasts to the folded `shape`; `None` stays `None`.

        A mask `(batch, n, m)` for a `shape` with a head axis gets one. `query` is the layer's input.
        """
        if mask is None:
            return None
        check_dense(name, mask)
        mask = ops.convert_to_tensor(mask)
        sizes = {"attention_mask": (self.axes["query"], self.axes["key"]), "query_mask": (self.axes["query"],)}
        groups = [len(axes) for axes in sizes.get(name, (self.axes["key"],))]
        if not self.trivial:
            mask = self._fold_axes(name, mask, groups, shape, query)
        if len(shape) == 4 and len(mask.shape) == 3:
            mask = mask[:, None]
        mask = check_mask(name, mask, shape)
        missing = len(shape) - len(mask.shape)
        return ops.reshape(mask, (1,) * missing + tuple(ops.shape(mask))) if missing else mask

    def _fold_axes(self, name, mask, groups, shape, query):
        """Folds a mask's attended axes, group by group, and its batch axes; a head axis between them stays."""
        batch, attended = self._batch(query), sum(groups)
        heads = shape[1:-2] if len(mask.shape) == len(batch) + 1 + attended else ()
        known = (size if isinstance(size, int) else None for size in batch)
        check_mask(name, mask, (*known, *heads, *[None] * attended))
        if len(mask.shape) == len(batch) + len(heads) + attended:
            mask = ops.broadcast_to(mask, (*batch, *ops.shape(mask)[len(batch) :]))
        return _fold_last(mask, [*(1 for _ in heads), *groups]) if len(mask.shape) >= attended else mask

    def _batch(self, query):
        """Sizes of the axes of the query that are not attended over."""
        shape = ops.shape(query)
        return [shape[axis] for axis in self._order("query")[: -len(self.axes["query"]) - 1]]

    def _order(self, side):
        axes = self.axes[side]
        rank = self.rank[side]
        return (*(axis for axis in range(rank - 1) if axis not in axes), *axes, rank - 1)


def _attended(rank, axes):
    axes = tuple(range(1, rank - 1)) if axes is None else axes
    attended = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if not attended or len({*attended}) < len(attended) or any(not 0 < axis < rank - 1 for axis in attended):
        raise ValueError(
            "`attention_axes` must name different axes between the batch axis and the feature axis. "
            f"Received: attention_axes={axes} for an input with {rank} axes"
        )
    return attended


def _fold_last(mask, groups):
    """Folds the last axes of a mask, group by group, and all batch axes before them."""
    shape, folded, end = ops.shape(mask), [], len(mask.shape)
    for size in reversed(groups):
        folded.insert(0, _size(shape[end - size : end]))
        end -= size
    return ops.reshape(mask, (*([_size(shape[:end])] if end else []), *folded))


def _size(shape):
    return -1 if any(not isinstance(size, int) for size in shape) else math.prod(shape)

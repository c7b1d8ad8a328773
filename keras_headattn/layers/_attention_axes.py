"""Folds attended axes of inputs of any rank into `(batch, length, features)`, and back."""

import math

from keras import ops

from keras_headattn.ops._masks import check_dense, check_mask


class AttentionAxes:
    """Attended axes as one length axis and all others as one batch axis. Inputs of three axes stay as they are."""

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
        """Returns the number of attended positions of a tensor of this shape; `None` if unknown."""
        sizes = [shape[axis] for axis in self.axes[side]]
        return None if None in sizes else math.prod(sizes)

    def fold(self, x, side):
        """Folds `x` to `(batch, length, features)`; `side` is `"query"` or `"key"`. `None` stays."""
        if self.trivial or x is None:
            return x
        x = ops.transpose(x, self._order(side))
        shape, attended = ops.shape(x), len(self.axes[side])
        split = len(shape) - 1 - attended
        return ops.reshape(x, (_size(shape[:split]), _size(shape[split:-1]), shape[-1]))

    def unfold(self, output, inputs):
        """Gives `(batch, length, ...)` the axes of the query `inputs`."""
        if self.trivial:
            return output
        order, features = self._order("query"), ops.shape(output)[2:]
        shape = [ops.shape(inputs)[axis] for axis in order[:-1]]
        output = ops.reshape(output, (*shape, *features))
        back = sorted(range(len(order) - 1), key=order.__getitem__)
        return ops.transpose(output, (*back, *range(len(back), len(back) + len(features))))

    def unfold_scores(self, scores, query, value):
        """Gives `(batch, heads..., n, m)` the attended axes of `query` and `value` in place of n and m."""
        if self.trivial:
            return scores
        n, m = self._attended(query, "query"), self._attended(value, "key")
        return ops.reshape(scores, (*self._batch(query), *ops.shape(scores)[1:-2], *n, *m))

    def fold_mask(self, name, mask, shape, query, value):
        """Checks a mask and folds it until it broadcasts to `shape`; `(batch, n, m)` gets a head axis. `None` stays."""
        if mask is None:
            return None
        check_dense(name, mask)
        mask = ops.convert_to_tensor(mask)
        if not self.trivial and name == "attention_mask":
            mask = self._fold_map(name, mask, shape, query, value)
        elif not self.trivial:
            mask = self._fold_tokens(name, mask, *(("query", query) if name == "query_mask" else ("key", value)))
        if len(shape) == 4 and len(mask.shape) == 3:
            mask = mask[:, None]
        mask = check_mask(name, mask, shape)
        missing = len(shape) - len(mask.shape)
        return ops.reshape(mask, (1,) * missing + tuple(ops.shape(mask))) if missing else mask

    def _fold_tokens(self, name, mask, side, inputs):
        """Folds a mask that has the axes of its input but for the features."""
        rank = self.rank[side] - 1
        known = (None,) * rank if inputs is None else tuple(inputs.shape[:-1])
        missing = rank - len(mask.shape)
        if 0 < missing < rank - 1:
            mask = ops.reshape(mask, (*ops.shape(mask), *[1] * missing))
        elif missing:
            raise ValueError(
                f"`{name}` must have the axes of its input except the features, {known}; the last may be missing. "
                f"Received: {name} of shape {tuple(mask.shape)}"
            )
        mask = check_mask(name, mask, known)
        if inputs is not None:
            mask = ops.broadcast_to(mask, ops.shape(inputs)[:-1])
        return self.fold(mask[..., None], side)[..., 0]

    def _fold_map(self, name, mask, shape, query, value):
        """Folds a mask `(batch axes, heads, query axes, key axes)`; heads and the last batch axes are optional."""
        batch, n = self._batch(query), self._attended(query, "query")
        m = self._attended(value, "key") if value is not None else ops.shape(mask)[-len(self.axes["key"]) :]
        num_leading = len(mask.shape) - len(n) - len(m)
        if 0 < num_leading < len(batch):
            received = ops.shape(mask)
            mask = ops.reshape(
                mask, (*received[:num_leading], *[1] * (len(batch) - num_leading), *received[num_leading:])
            )
        heads = num_leading > len(batch)
        wanted = (*batch, *(shape[1:-2] if heads else ()), *n, *m)
        mask = check_mask(name, mask, tuple(size if isinstance(size, int) else None for size in wanted))
        heads = ops.shape(mask)[len(batch) : -len(n) - len(m)] if heads else ()
        whole, folded = ((*batch, *heads), (_size(batch), *heads)) if num_leading > 0 else ((), ())
        return ops.reshape(ops.broadcast_to(mask, (*whole, *n, *m)), (*folded, _size(n), _size(m)))

    def _attended(self, inputs, side):
        """Returns the sizes of the attended axes of an input."""
        shape = ops.shape(inputs)
        return [shape[axis] for axis in self.axes[side]]

    def _batch(self, query):
        """Returns the sizes of the axes of the query that are not attended over."""
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


def _size(shape):
    """Multiplies sizes, which may be tensors in a graph; `None` if one is unknown."""
    return None if None in shape else math.prod(shape)

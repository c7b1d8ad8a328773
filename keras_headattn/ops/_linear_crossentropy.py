from typing import Any

import numpy as np
from keras import ops

from keras_headattn._recompute import chunk_sizes, map_chunks
from keras_headattn._types import Tensor
from keras_headattn._validation import check_number, check_positive
from keras_headattn.ops._dense import argmax


def linear_crossentropy(
    states: Tensor,
    kernel: Tensor,
    labels: Tensor,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
    chunk_size: int = 1024,
    soft_cap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the cross-entropy of an output layer without all of its logits in memory.

    Computes the logits of a chunk of states at a time, and again in the backward pass. The losses are those of
    `losses.LabelSmoothedCrossentropy` with `reduction=None`.

    Source: Rabe and Staats 2021, "Self-attention does not need O(n^2) memory", whose recomputation of chunks is applied
    to the output layer here.

    Args:
        states: `(..., D)`.
        kernel: `(D, V)`, of the same dtype.
        labels: integers `(...)`. Negative ones, such as -100, have a loss of 0; from V on it is NaN.
        bias: `(V,)`, may have a wider dtype. Default: none.
        label_smoothing: at least 0 and below 1. Default 0.
        chunk_size: states per chunk. Default 1024.
        soft_cap: bound c on the logits, which become `c * tanh(logits / c)`. Default: none.

    Returns:
        Losses `(...)` in nats, float32; and booleans `(...)`, True where the label is the likeliest class, the first
        one of equals.

    Raises:
        ValueError: for a `label_smoothing` or `chunk_size` out of range.

    >>> states, kernel = np.ones((2, 5, 4), "float32"), np.eye(4, 30, dtype="float32")
    >>> losses, is_right = linear_crossentropy(states, kernel, np.zeros((2, 5), "int32"), chunk_size=3)
    >>> tuple(losses.shape), round(float(losses[0, 0]), 4), bool(is_right[0, 0])
    ((2, 5), 2.6075, True)
    """
    check_number("label_smoothing", label_smoothing, least=0, below=1)
    check_positive("chunk_size", chunk_size)

    def measure(logits, labels):
        logits = logits if soft_cap is None else soft_cap * ops.tanh(logits / soft_cap)
        return smoothed_crossentropy(labels, logits, label_smoothing), is_likeliest(labels, logits)

    losses, is_right = map_logits(measure, states, kernel, bias, [labels], chunk_size)
    return losses, is_right > 0


def map_logits(
    function: Any, states: Tensor, kernel: Tensor, bias: Tensor | None, rows: list[Tensor], chunk_size: int
) -> list[Tensor]:
    """Computes functions of logits, `chunk_size` rows of which are in memory.

    Args:
        function: takes float32 logits `(c, V)` and c of each of `rows`, and returns tensors `(c,)`, without a gradient
            if they are not floats.
        states, kernel, bias: as in `linear_crossentropy`.
        rows: tensors `(...)`.
        chunk_size: as in `linear_crossentropy`.

    Returns:
        List of float32 tensors `(...)`.
    """
    shape = ops.shape(states)
    rows = [ops.reshape(states, (-1, shape[-1])), *(ops.reshape(x, (-1,)) for x in rows)]
    length = ops.shape(rows[0])[0]
    size, count = chunk_sizes(length, chunk_size)

    def chunk(states, *tensors):
        *tensors, kernel, bias = tensors if has_bias else (*tensors, 0.0)
        logits = ops.cast(ops.matmul(states, kernel) + bias, "float32")
        return ops.stack([ops.cast(x, "float32") for x in function(logits, *tensors)])

    def chunks(x):
        missing = ops.zeros((size * count - length, *x.shape[1:]), x.dtype)
        return ops.reshape(ops.concatenate([x, missing]), (count, size, *x.shape[1:]))

    has_bias = bias is not None
    shared = [kernel, bias] if has_bias else [kernel]
    results = map_chunks([(chunk, 0, count)], [chunks(x) for x in rows], shared, "float32")  # (count, k, size)
    results = ops.reshape(ops.moveaxis(results, 1, 0), (results.shape[1], -1))[:, :length]
    return [ops.reshape(result, shape[:-1]) for result in ops.unstack(results)]


def is_likeliest(labels, logits):
    """Returns where a label `(...)` is the first class with the largest of the logits `(..., V)`."""
    return ops.equal(labels, argmax(logits, ops.max(logits, axis=-1, keepdims=True)))


def smoothed_crossentropy(labels, logits, smoothing):
    """Computes cross-entropy and its gradient from one softmax: each pass over the logits, a model's largest tensor,
    counts.
    """
    size = ops.shape(logits)[-1]

    @ops.custom_gradient
    def crossentropy(logits, labels):
        probabilities = ops.softmax(logits)
        log_sum = ops.max(logits, axis=-1) - ops.log(ops.max(probabilities, axis=-1))
        classes = ops.cast(labels, "int32")[..., None]
        known = ops.clip(classes, 0, size - 1)
        loss = log_sum - (1 - smoothing) * ops.take_along_axis(logits, known, axis=-1)[..., 0]
        if smoothing:
            loss = loss - smoothing * ops.mean(logits, axis=-1)
        is_ignored = ops.less(classes, 0)
        loss = ops.where(is_ignored[..., 0], 0.0, ops.where(ops.less(classes, size)[..., 0], loss, np.nan))

        def gradient(*args, upstream=None):
            upstream = ops.where(is_ignored, 0.0, (args[0] if upstream is None else upstream)[..., None])
            share = smoothing / ops.cast(size, logits.dtype) if smoothing else 0.0
            smooth = (probabilities - share) * upstream
            is_label = ops.equal(classes, ops.arange(size, dtype="int32"))
            return ops.where(is_label, smooth - (1 - smoothing) * upstream, smooth), ops.zeros_like(labels)

        return loss, gradient

    return crossentropy(logits, ops.cast(labels, "float32"))  # JAX: an argument, with a gradient

"""Softmax under a mask, and the dot-product attention every layer shares."""

import keras
import numpy as np
from keras import ops


def masked_softmax(logits, mask=None):
    """Softmax over the last axis that gives a masked position exactly 0.

    It is computed in float32 (float64 for float64 logits). A row whose mask is False everywhere is
    all zeros, and so is its gradient.

    Args:
        logits: tensor of shape `(..., m)`; any finite values.
        mask: boolean tensor that broadcasts to `logits`, True = may attend.

    Returns:
        Tensor of the shape and dtype of `logits`.

    >>> masked_softmax(np.zeros((1, 2)), np.array([[True, False]])).numpy().tolist()
    [[1.0, 0.0]]
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    wide = "float64" if dtype == "float64" else "float32"
    logits = ops.cast(logits, wide)
    if mask is not None:
        logits = ops.where(mask, logits, ops.cast(np.finfo(wide).min, wide))
    # Keras warns of a softmax over a single element, which the first step of decoding is.
    weights = ops.ones_like(logits) if logits.shape[-1] == 1 else ops.softmax(logits, axis=-1)
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros((), wide))
    return ops.cast(weights, dtype)


# Heads at most this wide: their products are laid out better by XLA from an einsum than from a matmul on transposed
# tensors; without XLA, and for wider heads, the matmul is as fast or faster.
NARROW = 32


def attend(query, key, value, mask=None, scale=1.0, flash_attention=None):
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1), without returning the map.

    On JAX and PyTorch this is `keras.ops.dot_product_attention`, with its fused kernels, which need
    `d_k = d_v`. Otherwise, and on TensorFlow, which has no such kernels, it is two products.

    Args:
        query: `(B, h, n, d_k)`, or one head for all, `(B, 1, n, d_k)`.
        key: `(B, h, m, d_k)`, or one head for all.
        value: `(B, h, m, d_v)`, or one head for all.
        mask: boolean, broadcasts to `(B, h, n, m)`.
        scale: factor of the logits.
        flash_attention: as in `keras.ops.dot_product_attention`; ignored on TensorFlow.

    Returns:
        `(B, h, n, d_v)`; zeros for a query that may attend to nothing.
    """
    if keras.backend.backend() != "tensorflow" and query.shape[-1] == value.shape[-1]:
        return _fused(query, key, value, mask, scale, flash_attention)
    if query.shape[1] == 1:  # TensorFlow is slow at products of a tensor that is broadcast
        query = ops.broadcast_to(query, (*ops.shape(key)[:2], *ops.shape(query)[2:]))
    if query.shape[-1] > NARROW or query.shape[1] != key.shape[1]:
        weights, total = _unscaled_softmax(ops.matmul(query * scale, ops.swapaxes(key, -1, -2)), mask)
        return _divide(ops.matmul(weights, value), total)
    query, key, value = (ops.swapaxes(x, 1, 2) for x in (query, key, value))
    weights, total = _unscaled_softmax(ops.einsum("bnhd,bmhd->bhnm", query * scale, key), mask)
    return _divide(ops.swapaxes(ops.einsum("bhnm,bmhd->bnhd", weights, value), 1, 2), total)


def _unscaled_softmax(logits, mask):
    """Weights before the division by their sum, and the sum: dividing the values is less work than the weights.

    In 16 bits, where the sum of the values could overflow, the weights are divided, and the sum is `None`.
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    if dtype not in ("float32", "float64"):
        return masked_softmax(logits, mask), None
    least = float(np.finfo("float32").min)
    if mask is not None:
        logits = ops.where(mask, logits, ops.cast(least, dtype))
    largest = ops.max(logits, axis=-1, keepdims=True, initial=least)  # without `initial` no batch may be empty
    weights = ops.exp(logits - ops.stop_gradient(largest))
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros((), dtype))
    return weights, ops.sum(weights, axis=-1, keepdims=True)


def _divide(x, total):
    return x if total is None else ops.divide_no_nan(x, total)


def _fused(query, key, value, mask, scale, flash_attention):
    if query.shape[1] != key.shape[1]:
        query = ops.repeat(query, key.shape[1], axis=1)
    if mask is not None:
        mask = ops.broadcast_to(mask, (*ops.shape(query)[:3], ops.shape(key)[2]))
    output = ops.dot_product_attention(
        *(ops.swapaxes(x, 1, 2) for x in (query, key, value)),
        mask=mask,
        scale=scale,
        flash_attention=flash_attention,
    )
    output = ops.swapaxes(output, 1, 2)
    if mask is None:
        return output
    return ops.where(ops.any(mask, axis=-1, keepdims=True), output, ops.zeros((), output.dtype))

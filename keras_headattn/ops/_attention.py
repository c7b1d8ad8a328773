"""Softmax under a mask, and dot-product attention."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_headattn._private import sees_cpus_alone
from keras_headattn._types import Tensor
from keras_headattn.ops._dense import is_one
from keras_headattn.ops._fused_attention import fused_attention, has_kernel, width_of
from keras_headattn.ops._masks import as_list, combine_masks, length_mask, plain_masks


def masked_softmax(logits: Tensor, mask: Tensor | None = None, sinks: Tensor | None = None) -> Tensor:
    """Computes a softmax over the last axis that is exactly 0 at masked positions.

    It is computed in float32 (float64 for float64 logits). A fully masked row gets zeros, and zero gradients.

    Args:
        logits: `(..., m)`, finite.
        mask: boolean, broadcasts to `logits`, True = may attend.
        sinks: logits of an extra position, which broadcast to `(..., 1)`. It takes part in the softmax and is then
            dropped, so that a row sums to less than 1. Default `None`.

    Returns:
        Tensor of the shape and dtype of `logits`.

    >>> masked_softmax(np.zeros((1, 2)), np.array([[True, False]])).numpy().tolist()
    [[1.0, 0.0]]
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    wide = "float64" if dtype == "float64" else "float32"
    logits = ops.cast(logits, wide)
    if sinks is not None:
        return ops.cast(_divide(*_unscaled_softmax(logits, mask, sinks)), dtype)
    if mask is not None:
        logits = ops.where(mask, logits, ops.cast(np.finfo(wide).min, wide))
    weights = _softmax(logits)
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros((), wide))
    return ops.cast(weights, dtype)


def _softmax(logits):
    if is_one(logits.shape[-1]):  # Keras warns of a softmax over one element, as in the first decoding step
        return ops.ones_like(logits)
    if len(logits.shape) == 4 and isinstance(logits.shape[2], int) and logits.shape[2] <= FEW:
        # On a CPU, TensorFlow's softmax wakes other threads even for a few numbers; its logarithm does not.
        return ops.exp(ops.log_softmax(logits, axis=-1))
    return ops.softmax(logits, axis=-1)


def head_product(x: Tensor, y: Tensor) -> Tensor:
    """Multiplies x `(B, h, n, k)` with y `(B, g, k, m)` head by head to `(B, h, n, m)`; g divides h, or h = 1."""
    return _grouped(x, y, ops.matmul)


def key_product(x: Tensor, y: Tensor) -> Tensor:
    """Multiplies the rows of x `(B, h, n, k)` with those of y `(B, g, m, k)` as `head_product` does."""
    return _grouped(x, y, _by_keys)


def _by_keys(x, y):
    if isinstance(x.shape[2], int) and 0 < x.shape[2] <= FEW and sees_cpus_alone():
        # Row by row: together they take up to four times as long there, and XLA may copy the keys.
        return ops.stack([ops.einsum("bhk,bhmk->bhm", row, y) for row in ops.unstack(x, axis=2)], axis=2)
    return ops.einsum("bhnk,bhmk->bhnm", x, y)


def _grouped(x, y, product):
    heads, groups = x.shape[1], y.shape[1]
    if heads == groups:
        return product(x, y)
    if heads < groups:  # TensorFlow is slow at broadcast products
        return product(ops.tile(x, (1, groups, 1, 1)), y)
    batch, _, n, width = ops.shape(x)
    # Stack the rows of the heads that share: (B, h, n, k) to (B, g, h / g * n, k).
    result = product(ops.reshape(x, (batch, groups, heads // groups * n, width)), y)
    return ops.reshape(result, (batch, heads, n, ops.shape(result)[-1]))


FEW = 8  # queries of a decoding step

NARROW = 32  # width of heads up to which XLA makes faster code of an einsum than of a matmul


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Sequence[Tensor] | None = None,
    scale: float = 1.0,
    flash_attention: bool | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    sliding_window: int | None = None,
    key_lengths: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Computes scaled dot-product attention (Vaswani et al. 2017, eq. 1), without returning the weights.

    On JAX and PyTorch it is a call of the backend's fused kernel, which gets no mask `(n, m)` unless `mask` or `bias`
    is one. Elsewhere, and where the widths of keys and values differ by more than a factor of 2, it is two products.

    Args:
        query: `(B, h, n, d_k)`, or one head for all, `(B, 1, n, d_k)`.
        key: `(B, g, m, d_k)`. `g` divides `h`: consecutive heads share a key and a value.
        value: `(B, g, m, d_v)`.
        mask: boolean, broadcasts to `(B, h, n, m)`; or several of which a key must satisfy all. Masks of keys alone,
            such as `(B, 1, 1, m)`, cost little.
        scale: factor of the logits.
        flash_attention: True for an error where the flash kernel does not run, False to do without it on JAX. Default
            `None`: where it runs. Ignored on TensorFlow.
        bias: added to the logits, broadcasts to `(B, h, n, m)`.
        is_causal: True if query i may attend only to keys 0 to i.
        sliding_window: query i attends only to keys less than this many positions away. Default `None`: to all.
        key_lengths: integers `(B,)`: only so many keys of an item are real, its first ones. Default `None`: all.
        sinks: logits `(h,)` of a further position for each head, which has the value 0. Default `None`: no such
            position.

    Returns:
        `(B, h, n, d_v)`; zeros for a query that may attend to nothing.
    """
    masks, (query, key, value) = as_list(mask), map(ops.convert_to_tensor, (query, key, value))
    if query.shape[1] < key.shape[1]:  # TensorFlow is slow at broadcast products
        query = ops.broadcast_to(query, (*ops.shape(key)[:2], *ops.shape(query)[2:]))
    if has_kernel(width_of(query), width_of(value), sliding_window, sinks is not None):
        plain = dict(is_causal=is_causal, sliding_window=sliding_window, key_lengths=key_lengths)
        return fused_attention(query, key, value, masks, bias, scale, flash_attention, sinks, **plain)
    n, m = ops.shape(query)[2], ops.shape(key)[2]
    lengths = None if key_lengths is None else length_mask(key_lengths, m)
    mask = combine_masks(*masks, lengths, *plain_masks(n, m, is_causal, sliding_window))
    if sinks is not None:
        sinks = sinks[:, None, None]
    if query.shape[-1] > NARROW or query.shape[1] != key.shape[1]:
        weights, total = _unscaled_softmax(_biased(key_product(query * scale, key), bias), mask, sinks)
        return _divide(head_product(weights, value), total)
    query, key, value = (ops.swapaxes(x, 1, 2) for x in (query, key, value))  # (B, h, n, d) to (B, n, h, d)
    logits = _biased(ops.einsum("bnhd,bmhd->bhnm", query * scale, key), bias)
    weights, total = _unscaled_softmax(logits, mask, sinks)
    return _divide(ops.swapaxes(ops.einsum("bhnm,bmhd->bnhd", weights, value), 1, 2), total)


def _biased(logits, bias):
    return logits if bias is None else logits + ops.cast(bias, logits.dtype)


def _unscaled_softmax(logits, mask, sinks):
    """Computes the numerators of a softmax and their sum: dividing the values by it later is less work.

    In 16 bits, where the sum of the values could overflow, returns the weights and `None`.
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    if dtype not in ("float32", "float64"):
        return masked_softmax(logits, mask, sinks), None
    least = float(np.finfo("float32").min)
    if mask is not None:
        logits = ops.where(mask, logits, ops.cast(least, dtype))
    # `initial` for empty batches, and half so that a row without keys becomes zeros
    largest = ops.max(logits, axis=-1, keepdims=True, initial=least / 2)
    if sinks is not None:
        sinks = ops.cast(sinks, dtype)
        largest = ops.maximum(largest, sinks)
    largest = ops.stop_gradient(largest)
    weights = ops.exp(logits - largest)
    total = ops.sum(weights, axis=-1, keepdims=True)
    return weights, total if sinks is None else total + ops.exp(sinks - largest)


def _divide(x, total):
    return x if total is None else ops.divide_no_nan(x, total)

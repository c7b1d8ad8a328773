"""Products of rows with a kernel of two axes, and sizes that graphs know."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_headattn._types import Tensor


def apply_kernel(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Product with a kernel, and a bias added.

    Args:
        weights: dictionary of `"kernel"` `(D, E)` and, where there is one, `"bias"` `(E,)`.
        x: `(..., D)`.

    Returns:
        `(rows, E)`, all rows of `x` one after the other.
    """
    rows = x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))
    product = ops.matmul(rows, weights["kernel"])
    return product + weights["bias"] if "bias" in weights else product


def apply_head_kernels(x: Tensor, kernels: Tensor) -> Tensor:
    """Products with a kernel of each head, or with one for all.

    Args:
        x: `(B, h, n, k)`.
        kernels: `(h, k, m)` or `(1, k, m)`.

    Returns:
        `(B, h, n, m)`.
    """
    if kernels.shape[0] == 1:  # TensorFlow's `matmul` of (B, 1, n, k) and (1, k, m) writes out of bounds on some CPUs
        return ops.tensordot(x, kernels[0], axes=1)
    return ops.matmul(x, kernels)


def normalize(x: Tensor, scale: Tensor, offset: Tensor, epsilon: float) -> Tensor:
    """Layer normalisation over the last axis, in float32 or wider: `keras.layers.LayerNormalization` in few operations.

    Source: Ba et al. 2016, "Layer normalization", eq. 4.

    Args:
        x: `(..., D)`.
        scale, offset: `(D,)`.
        epsilon: float, added to the variance.

    Returns:
        Tensor of the shape and dtype of `x`.

    >>> normalize(np.array([[1.0, 3.0]]), np.ones(2), np.zeros(2), epsilon=0.0).numpy().tolist()
    [[-1.0, 1.0]]
    """
    dtype = keras.backend.result_type(x.dtype, scale.dtype, "float32")
    wide, scale, offset = (ops.cast(tensor, dtype) for tensor in (x, scale, offset))
    wide = wide - ops.mean(wide, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(wide), axis=-1, keepdims=True)
    return ops.cast(wide * ops.rsqrt(variance + epsilon) * scale + offset, x.dtype)


def rms_normalize(x: Tensor, scale: Tensor | None = None, epsilon: float = 1e-6) -> Tensor:
    """Root mean square normalisation over the last axis, in float32 or wider.

    As `keras.ops.rms_normalization`, in operations that PyTorch exports to ONNX.

    Args:
        x: `(..., D)`.
        scale: `(D,)`, or `None`.
        epsilon: float, added to the mean square.

    Returns:
        Tensor of the shape and dtype of `x`.

    >>> rms_normalize(np.array([[3.0, 4.0]]), epsilon=0.0).numpy().round(3).tolist()
    [[0.849, 1.131]]
    """
    wide = ops.cast(x, keras.backend.result_type(x.dtype, "float32"))
    wide = wide * ops.rsqrt(ops.mean(ops.square(wide), axis=-1, keepdims=True) + epsilon)
    return ops.cast(wide if scale is None else wide * ops.cast(scale, wide.dtype), x.dtype)


def take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Entries of `x` along one axis: `keras.ops.take`, in operations that PyTorch exports to ONNX.

    Args:
        x: tensor.
        indices: integers, none negative.
        axis: integer, not negative.

    Returns:
        Tensor with the axes of `indices` in place of `axis`.

    >>> take(np.array([[1.0, 2.0, 3.0]]), np.array([2, 0]), axis=1).numpy().tolist()
    [[3.0, 1.0]]
    """
    if keras.backend.backend() != "torch":
        return ops.take(x, indices, axis=axis)
    return ops.convert_to_tensor(x)[(slice(None),) * axis + (ops.convert_to_tensor(indices),)]


def swap_heads(x: Tensor) -> Tensor:
    """The two middle axes exchanged: by a reshape, which moves nothing, where either size is known to be 1.

    Args:
        x: `(B, a, b, d)`.

    Returns:
        `(B, b, a, d)`.
    """
    if not any(map(is_one, x.shape[1:3])):
        return ops.swapaxes(x, 1, 2)
    batch, a, b, width = sizes(x)
    return ops.reshape(x, (batch, b, a, width))


def is_one(size: Any) -> bool:
    """True if a size is known to be 1.

    A branch on a size must go through this. PyTorch traces exports with lengths of 1 for those that are free, and
    compares equal to 1 what is not 1 later; the size is then no integer but a tensor.

    Args:
        size: entry of a shape: an integer, `None`, or what a tracer has in its place.

    Returns:
        bool.
    """
    return isinstance(size, int) and size == 1


def sizes(x: Tensor) -> tuple[Any, ...]:
    """The shape of a tensor to reshape others to: a single size that is not known is -1, which costs no operation.

    Args:
        x: of any shape.

    Returns:
        Tuple of integers; and of scalar tensors where several sizes are not known.
    """
    shape = tuple(x.shape)
    return tuple(-1 if size is None else size for size in shape) if shape.count(None) < 2 else ops.shape(x)

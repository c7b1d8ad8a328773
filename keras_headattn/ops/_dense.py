"""Products with two-dimensional kernels, normalisation, and sizes that graphs know."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_headattn._types import Tensor


def apply_kernel(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Multiplies x `(..., D)` with `"kernel"` `(D, E)` and adds `"bias"`, if any: `(rows, E)`."""
    rows = x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))
    product = ops.matmul(rows, weights["kernel"])
    return product + weights["bias"] if "bias" in weights else product


def apply_head_kernels(x: Tensor, kernels: Tensor) -> Tensor:
    """Multiplies x `(B, h, n, k)` with a kernel for each head `(h, k, m)`, or one for all `(1, k, m)`."""
    if kernels.shape[0] == 1:  # TensorFlow's `matmul` of these shapes writes out of bounds on some CPUs
        return ops.tensordot(x, kernels[0], axes=1)
    return ops.matmul(x, kernels)


def normalize(x: Tensor, scale: Tensor, offset: Tensor, epsilon: float) -> Tensor:
    """Normalises the last axis in float32 or wider, in few operations (Ba et al. 2016, "Layer normalization", eq. 4).

    >>> normalize(np.array([[1.0, 3.0]]), np.ones(2), np.zeros(2), epsilon=0.0).numpy().tolist()
    [[-1.0, 1.0]]
    """
    dtype = keras.backend.result_type(x.dtype, scale.dtype, "float32")
    wide, scale, offset = (ops.cast(tensor, dtype) for tensor in (x, scale, offset))
    wide = wide - ops.mean(wide, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(wide), axis=-1, keepdims=True)
    return ops.cast(wide * ops.rsqrt(variance + epsilon) * scale + offset, x.dtype)


def rms_normalize(x: Tensor, scale: Tensor | None = None, epsilon: float = 1e-6) -> Tensor:
    """Does what `keras.ops.rms_normalization` does, in float32 or wider, with operations that PyTorch exports to ONNX.

    >>> rms_normalize(np.array([[3.0, 4.0]]), epsilon=0.0).numpy().round(3).tolist()
    [[0.849, 1.131]]
    """
    wide = ops.cast(x, keras.backend.result_type(x.dtype, "float32"))
    wide = wide * ops.rsqrt(ops.mean(ops.square(wide), axis=-1, keepdims=True) + epsilon)
    return ops.cast(wide if scale is None else wide * ops.cast(scale, wide.dtype), x.dtype)


def take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Does what `keras.ops.take` does for nonnegative indices, with operations that PyTorch exports to ONNX.

    >>> take(np.array([[1.0, 2.0, 3.0]]), np.array([2, 0]), axis=1).numpy().tolist()
    [[3.0, 1.0]]
    """
    if keras.backend.backend() != "torch":
        return ops.take(x, indices, axis=axis)
    return ops.convert_to_tensor(x)[(slice(None),) * axis + (ops.convert_to_tensor(indices),)]


def swap_heads(x: Tensor) -> Tensor:
    """Swaps the two middle axes, by a reshape if either size is known to be 1."""
    if not any(map(is_one, x.shape[1:3])):
        return ops.swapaxes(x, 1, 2)
    batch, a, b, width = sizes(x)
    return ops.reshape(x, (batch, b, a, width))


def is_one(size: Any) -> bool:
    """Returns True if a size is known to be 1. Branches on sizes must go through this.

    While PyTorch traces an export, free lengths are tensors that compare equal to 1 and may be larger later.
    """
    return isinstance(size, int) and size == 1


def sizes(x: Tensor) -> tuple[Any, ...]:
    """Returns a shape for reshapes: a single unknown size is -1, which costs no operation."""
    shape = tuple(x.shape)
    return tuple(-1 if size is None else size for size in shape) if shape.count(None) < 2 else ops.shape(x)


def argmax(x, largest):
    """Returns the first index of the largest of the last axis, whose maximum with `keepdims` is given.

    `ops.argmax` takes eight times as long on TensorFlow, and is sequential in XLA on a CPU.
    """
    last = ops.shape(x)[-1] - 1
    places = ops.where(ops.equal(x, largest), ops.arange(last + 1, dtype="int32"), last)
    return ops.min(places, axis=-1, initial=last if x.shape[0] == 0 else None)

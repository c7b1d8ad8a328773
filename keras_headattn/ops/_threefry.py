"""Random numbers that depend only on a seed and a step."""

import math

import numpy as np
from keras import backend, ops

from keras_headattn._types import Tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def threefry_normal(count: int, seed: int | Tensor, step: int | Tensor) -> Tensor:
    """Returns `count` Gaussian random numbers, the same up to rounding on every backend, with and without XLA.

    Uses Threefry-2x32 with 20 rounds, as JAX does. XLA on a CPU compiles TensorFlow's own generator to a slow loop;
    without XLA, that one is faster.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".

    >>> [round(float(number), 4) for number in threefry_normal(3, seed=1, step=0)]
    [0.5358, -1.5742, 0.2263]
    """
    lanes = -(-count // 2)
    key = [ops.cast(word, "uint32") for word in (seed, step)]
    counters = ops.cast(ops.arange(lanes, dtype="int32"), "uint32")
    bits = ops.concatenate(_threefry(key, counters, ops.zeros_like(counters)))[:count]
    return _normal(bits)


def _normal(bits):
    """Applies the inverse of the distribution to 2^23 numbers between -1 and 1, exact in float32."""
    between = (ops.cast(ops.right_shift(bits, _uint32(9)), "float32") + 0.5) * 2.0**-22 - 1.0
    return math.sqrt(2.0) * ops.erfinv(between)


def _threefry(key, x, y):
    keys = (*key, ops.bitwise_xor(ops.bitwise_xor(*key), _uint32(PARITY)))
    x, y = _wrapped(x + keys[0]), _wrapped(y + keys[1])
    for injection in range(1, 6):
        for rotation in ROTATIONS[(injection + 1) % 2]:
            x = _wrapped(x + y)
            y = ops.bitwise_xor(_rotate(y, rotation), x)
        x = _wrapped(x + keys[injection % 3])
        y = _wrapped(y + keys[(injection + 1) % 3] + _uint32(injection))
    return x, y


def _rotate(bits, distance):
    left, right = ops.left_shift(bits, _uint32(distance)), ops.right_shift(bits, _uint32(32 - distance))
    return ops.bitwise_or(_wrapped(left), right)


def _wrapped(bits):
    """Keeps the last 32 bits: on PyTorch Keras has 64 in place of 32 without a sign."""
    return bits if backend.standardize_dtype(bits.dtype) == "uint32" else ops.bitwise_and(bits, _uint32(2**32 - 1))


def _uint32(number):
    return ops.convert_to_tensor(np.uint32(number))

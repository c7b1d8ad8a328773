import keras
import numpy as np
from keras import ops

from keras_headattn._recompute import after
from keras_headattn.ops._exchange_heads import exchange_heads

SIDES = {-1: "n", -2: "m"}  # axes of the factors


def compose_heads(maps, kernel, factors):
    """Adds to maps `(B, h, n, m)` what matrices of each query and key make of their heads (Xiao et al. 2024, eq. 6).

    Args:
        maps: `(B, h, n, m)`.
        kernel: `(h, h)`, the same at every query and key, or `None`.
        factors: dictionary with `(B, n, 2 R + 1, h)` of queries at -1 and of keys at -2, the axis of `maps` that they
            lack: R rows that sum the heads into one map each, R that spread these over the heads, and the gate.
    """
    if keras.backend.backend() != "tensorflow" or not factors:
        return _composed(maps, kernel, factors)
    kernels = [] if kernel is None else [kernel]

    @ops.custom_gradient
    def compose(maps, *tensors):
        made = dict(zip(factors, tensors[-len(factors) :], strict=True))
        kernel = tensors[0] if kernels else None

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            swapped = {axis: ops.concatenate(_parts(x, (1, 0, 2)), axis=2) for axis, x in made.items()}
            of_maps = _composed(upstream, None if kernel is None else ops.transpose(kernel), swapped)
            of_matrices, last = {}, of_maps
            for axis in made:
                with after(last):
                    last = ops.einsum(f"bhnm,bgnm->b{SIDES[axis]}hg", maps, upstream)
                of_matrices[axis] = last
            of_kernels = [ops.cast(ops.sum(ops.cast(last, _wide(last)), axis=(0, 1)), last.dtype) for _ in kernels]
            of_factors = [_gradient_of_factors(of_matrices[axis], x) for axis, x in made.items()]
            return of_maps, *of_kernels, *of_factors

        return _composed(maps, kernel, made), gradient

    return compose(maps, *kernels, *factors.values())


def _composed(maps, kernel, factors):
    composed = maps if kernel is None else exchange_heads(maps, kernel) + maps
    for axis, factor in factors.items():
        # (B, n, 2 R + 1, h) to 2 R + 1 tensors (B, h, n, 1), of keys (B, h, 1, n)
        rows = ops.unstack(ops.transpose(factor, (2, 0, 3, 1)), factor.shape[2])
        rows = [ops.expand_dims(row, axis) for row in rows]
        rank = len(rows) // 2
        for first, second in zip(rows[:rank], rows[rank:-1], strict=True):
            with after(composed):
                composed = composed + ops.sum(maps * first, axis=1, keepdims=True) * second
        with after(composed):
            composed = composed + maps * rows[-1]
    return composed


def _parts(factor, order):
    """Returns rows that sum the heads (0), rows that spread them (1) and the gate (2)."""
    rank = factor.shape[2] // 2
    parts = factor[:, :, :rank], factor[:, :, rank:-1], factor[:, :, -1:]
    return [parts[i] for i in order]


def _gradient_of_factors(of_matrices, factor):
    """Returns the gradient of factors, from that of the matrices `(B, n, h, h)` that they make.

    A product makes the latter from two maps, without the map in memory that each factor would need.
    """
    first, second = _parts(factor, (0, 1))
    of_first = ops.einsum("bnhg,bnrg->bnrh", of_matrices, second)
    of_second = ops.einsum("bnhg,bnrh->bnrg", of_matrices, first)
    diagonal = ops.cast(np.eye(factor.shape[3]), of_matrices.dtype)
    of_gate = ops.sum(of_matrices * diagonal, axis=-1)[:, :, None]
    return ops.concatenate([of_first, of_second, of_gate], axis=2)


def _wide(x):
    return keras.backend.result_type(x.dtype, "float32")

import numpy as np
from keras import ops

from keras_headattn._types import Tensor

KERNELS = ("rbf", "cosine")
BANDWIDTHS = ("paper", "code")
TINY = 1e-30
HALVINGS = 48  # of the interval that holds the median


def stein_gradient(
    particles: Tensor,
    gradients: Tensor,
    repulsive_weight: float = 1.0,
    bandwidth: str = "paper",
    kernel: str = "rbf",
    smoothing: bool = True,
) -> Tensor:
    """Computes each particle's gradient in Stein variational gradient descent (SVGD), to be subtracted.

        g_i = 1/M sum_j [ k(x_j, x_i) grad_j - a d/dx_j k(x_j, x_i) ]

    The first part averages the gradients of nearby particles, the second drives particles apart.

    Source: An et al. 2020, "Repulsive attention", eqs. 4 and 14 (with the sign reversed), B.2 and C.6.

    Args:
        particles: `(..., M, P)`, M particles of P numbers each.
        gradients: `(..., M, P)`, those of the loss.
        repulsive_weight: `a`. Default 1.0.
        bandwidth: w of `"rbf"`, a constant in derivatives, infinite for a median of 0. `"paper"` (default): med^2 / log
            M, med the median distance of two different particles. `"code"`, as in the paper's code: med^2 / log(M + 1),
            med^2 the median of all squared distances, including those of particles to themselves.
        kernel: `"rbf"` (default): k(x, y) = exp(-||x - y||^2 / w). `"cosine"`: k(x, y) = x y / (||x|| ||y||).
        smoothing: if False, the first part is a particle's own gradient, grad_i. Default True.

    Returns:
        `(..., M, P)`, in the dtype of `particles`. Compute it in float32.
    """
    if bandwidth not in BANDWIDTHS or kernel not in KERNELS:
        raise ValueError(
            f"`bandwidth` must be among {', '.join(BANDWIDTHS)} and `kernel` among {', '.join(KERNELS)}. "
            f"Received: bandwidth={bandwidth!r}, kernel={kernel!r}"
        )
    num_particles = particles.shape[-2]
    weights, own, others = _cosine(particles) if kernel == "cosine" else _rbf(particles, bandwidth)
    own, others = repulsive_weight * own, repulsive_weight * others
    if smoothing:
        return (ops.matmul(weights, gradients + others) - own) / num_particles
    return gradients + (ops.matmul(weights, others) - own) / num_particles


# Both return k `(..., M, M)` and the parts of sum_j d/dx_j k(x_j, x_i) = own_i - sum_j k_ij others_j.


def _rbf(particles, bandwidth):
    # Distances stay the same, with less rounding where particles are close together.
    particles = particles - ops.mean(particles, axis=-2, keepdims=True)
    distances = _squared_distances(particles)
    inverse = _inverse_bandwidth(distances, bandwidth)
    weights = ops.exp(-distances * inverse)
    others = 2.0 * inverse * particles
    return weights, ops.sum(weights, axis=-1, keepdims=True) * others, others


def _cosine(particles):
    """Computes cosines; a particle of zeros has 1 to itself, and 0 to all others."""
    norm = ops.sqrt(ops.sum(ops.square(particles), axis=-1, keepdims=True))
    there = norm > TINY
    inverse = ops.where(there, 1.0 / ops.where(there, norm, 1.0), 0.0)
    units = inverse * particles
    itself = ops.where(there, 0.0, np.eye(particles.shape[-2], dtype="float32"))
    weights = ops.matmul(units, ops.swapaxes(units, -1, -2)) + ops.cast(itself, units.dtype)
    return weights, ops.sum(inverse, axis=-2, keepdims=True) * units, inverse * units


def _squared_distances(particles):
    """`(..., M, P)` -> `(..., M, M)`."""
    gram = ops.matmul(particles, ops.swapaxes(particles, -1, -2))
    squares = ops.diagonal(gram, axis1=-2, axis2=-1)
    distances = ops.expand_dims(squares, -1) + ops.expand_dims(squares, -2) - 2.0 * gram
    different = 1.0 - np.eye(particles.shape[-2])
    return ops.maximum(distances, 0.0) * ops.cast(different, distances.dtype)


def _inverse_bandwidth(distances, bandwidth):
    """`(..., M, M)` -> `(..., 1, 1)`, 0 for a single particle or a median of 0."""
    num_particles = distances.shape[-1]
    rows, columns = np.triu_indices(num_particles, k=1) if bandwidth == "paper" else np.indices(2 * (num_particles,))
    if not rows.size:
        return ops.zeros_like(distances)
    flat = ops.reshape(distances, (*distances.shape[:-2], num_particles**2))
    lower, upper = _middle(ops.take(flat, np.ravel(rows * num_particles + columns), axis=-1))
    if bandwidth == "paper":
        squared_median, logarithm = ops.square((ops.sqrt(lower) + ops.sqrt(upper)) / 2.0), np.log(num_particles)
    else:
        squared_median, logarithm = (lower + upper) / 2.0, np.log(num_particles + 1.0)
    there = squared_median > np.finfo("float32").tiny  # below it, the inverse is infinite
    inverse = ops.where(there, logarithm / ops.where(there, squared_median, 1.0), 0.0)
    return inverse[..., None, None]


def _middle(numbers):
    """Returns the two middle ones of nonnegative numbers `(..., n)`, each `(...)`; the same one twice if n is odd.

    By bisection: XLA on a CPU makes a training step three times as long with a sort in it.
    """
    count = numbers.shape[-1]
    high = ops.max(numbers, axis=-1, keepdims=True)
    low = -high - TINY
    for _ in range(HALVINGS):  # at most half of the numbers are above `high`, less than half are not above `low`
        middle = (low + high) / 2.0
        enough = 2 * ops.sum(ops.cast(numbers <= middle, "int32"), axis=-1, keepdims=True) >= count
        low, high = ops.where(enough, low, middle), ops.where(enough, middle, high)
    lower = _least_above(numbers, low)
    half = 2 * ops.sum(ops.cast(numbers <= high, "int32"), axis=-1, keepdims=True) == count
    upper = ops.where(half, _least_above(numbers, high), lower)
    return lower[..., 0], upper[..., 0]


def _least_above(numbers, bound):
    return ops.min(ops.where(numbers > bound, numbers, ops.cast(np.inf, numbers.dtype)), axis=-1, keepdims=True)

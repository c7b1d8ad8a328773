"""Losses that disentangle attention heads, from mixtures of Gaussians over their queries."""

import math

from keras import ops

from keras_headattn._types import Tensor

LEAST = -60.0  # least logarithm of a probability; e^-60 is a float32


def shared_information(
    log_densities: Tensor, log_posteriors: Tensor, mask: Tensor | None = None, leave_one_out: bool = False
) -> Tensor:
    """Bounds the mutual information of two heads' queries from above: `(B, h, h)`, in nats, with a diagonal of 0.

    With `p(q_i | c)` the density of cluster c at query i of head h, divided by its sum over the head's queries, and
    `p(c | q'_i)` the posterior of the same token's query in head h':

        D[h, h'] = mean_i log sum_c p(q_i | c) p(c | q'_i)

    The logarithm is cut off at -60, and has no gradient below.

    Source: "Disentangled mask attention in Transformer", eqs. 9, 12 and 13, with the denominator of 13 over the same
    head's queries, by Bayes' theorem.

    Args:
        log_densities: `(B, h, n, C)`, log density of each cluster at each query.
        log_posteriors: `(B, h, n, C)`, log posterior of each cluster.
        mask: boolean `(B, n)`, True = a real token. Without real tokens the result is 0.
        leave_one_out: True to subtract, as in eq. 9, the mean over the other queries of head h'. Takes
            `(B, h, h, n, n)` numbers; the paper leaves it out (section 4.3).
    """
    if mask is not None:
        log_densities = ops.where(mask[:, None, :, None], log_densities, ops.cast(-1e30, log_densities.dtype))
    likelihoods = ops.exp(log_densities - ops.logsumexp(log_densities, axis=2, keepdims=True))
    posteriors = ops.exp(log_posteriors)
    rows, columns = (ops.swapaxes(x, 1, 2) for x in (likelihoods, posteriors))  # (B, n, h, C)
    pairs = ops.moveaxis(_log(ops.matmul(rows, ops.swapaxes(columns, -1, -2))), 1, -1)  # (B, h, h', n)
    information = _mean(pairs, mask)
    if leave_one_out:
        heads, length, clusters = ops.shape(log_densities)[1:]
        rows, columns = (ops.reshape(x, (-1, heads * length, clusters)) for x in (likelihoods, posteriors))
        all_pairs = _log(ops.matmul(rows, ops.swapaxes(columns, -1, -2)))
        all_pairs = ops.swapaxes(ops.reshape(all_pairs, (-1, heads, length, heads, length)), 2, 3)  # (B, h, h', i, j)
        all_pairs = _without_diagonal(all_pairs)
        if mask is not None:
            all_pairs = ops.where(mask[:, None, None, None, :], all_pairs, ops.zeros_like(all_pairs))
        count = ops.maximum(_count(log_densities, mask) - 1, 1)[..., None]
        information = information - _mean(ops.sum(all_pairs, axis=-1) / count, mask)
    return _without_diagonal(information)


def kept_information(posteriors: Tensor, input_posteriors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Bounds the mutual information of inputs and a head's queries from below: `(B, h)`, in nats.

    With the critic `f(q_i, x_j) = sum_c p(c | q_i) p(c | x_j)`:

        D[h] = mean_i ( f(q_i, x_i) - log mean_j exp f(q_i, x_j) )

    Source: "Disentangled mask attention in Transformer", eq. 10.

    Args:
        posteriors: `(B, h, n, C)`, of the queries.
        input_posteriors: `(B, h, n, C)`, of each head's part of the inputs, in the same mixture.
        mask: boolean `(B, n)`, True = a real token. Without real tokens the result is 0.
    """
    scores = ops.matmul(posteriors, ops.swapaxes(input_posteriors, -1, -2))
    diagonal = ops.sum(posteriors * input_posteriors, axis=-1)
    weights = ops.exp(scores)  # scores are from 0 to 1
    if mask is not None:
        weights = ops.where(mask[:, None, None], weights, ops.zeros_like(weights))
    mean = ops.sum(weights, axis=-1) / ops.maximum(_count(posteriors, mask), 1)
    return _mean(diagonal - ops.log(ops.maximum(mean, 1e-30)), mask)


def cluster_diversity(posteriors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Measures how far tokens are from a cluster each, `(B, h)`: the mean of the squared entries of `C C^T - I`.

    Source: "Disentangled mask attention in Transformer", eq. 14.

    Args:
        posteriors: `(B, h, n, C)`.
        mask: boolean `(B, n)`, True = a real token. Without real tokens the result is 0.
    """
    if mask is not None:
        posteriors = ops.where(mask[:, None, :, None], posteriors, ops.zeros_like(posteriors))
    # ||C C^T - I||^2 = ||C^T C||^2 - 2 ||C||^2 + n
    overlaps = ops.matmul(ops.swapaxes(posteriors, -1, -2), posteriors)
    count = ops.reshape(_count(posteriors, mask), (-1, 1))
    squares = ops.sum(ops.square(overlaps), axis=(-1, -2)) - 2 * ops.sum(ops.square(posteriors), axis=(-1, -2)) + count
    return squares / ops.square(ops.maximum(count, 1))


def _log(probabilities):
    return ops.log(ops.maximum(probabilities, math.exp(LEAST)))


def _count(x, mask):
    """Counts the real tokens of `x` `(B, h, n, C)`: `(B, 1, 1)`, or `(1, 1, 1)` without a mask."""
    if mask is None:
        return ops.reshape(ops.cast(ops.shape(x)[2], x.dtype), (1, 1, 1))
    return ops.sum(ops.cast(mask, x.dtype), axis=-1)[:, None, None]


def _mean(x, mask):
    """Averages `(B, ..., n)` over what the mask `(B, n)` keeps."""
    if mask is None:
        return ops.mean(x, axis=-1)
    mask = ops.reshape(mask, (ops.shape(mask)[0], *(1,) * (len(x.shape) - 2), ops.shape(mask)[1]))
    count = ops.sum(ops.cast(mask, x.dtype), axis=-1)
    return ops.sum(ops.where(mask, x, ops.zeros_like(x)), axis=-1) / ops.maximum(count, 1)


def _without_diagonal(x):
    """Sets the diagonal of `(..., n, n)` to 0."""
    n = ops.arange(ops.shape(x)[-1])
    return ops.where(n[:, None] == n[None], ops.zeros_like(x), x)

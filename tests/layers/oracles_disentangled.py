"""Slow float64 transcriptions of disentangled mask attention, one token and one cluster at a time.

Points are (h, n, d); a mixture is its weights (h, C), centres and variances (h, C, d).
"""

import numpy as np

from tests.layers import oracles
from tests.layers.oracles_evolving import attend, dot


def mixture(weights, name, heads):
    """Of each head, from the weights of a `GaussianMixture`."""
    logits, centres, log_variances = (
        np.broadcast_to(weights[f"{name}.{part}"], (heads, *weights[f"{name}.{part}"].shape[1:]))
        for part in ("log_weights", "centres", "log_variances")
    )
    shares = np.array([oracles.softmax(row, np.ones(len(row), bool)) for row in logits])
    return shares, centres, np.exp(log_variances)


def densities(points, mixture):
    """N(x | c): (h, n, C)."""
    shares, centres, variances = mixture
    found = np.zeros((*points.shape[:2], shares.shape[1]))
    for h, i, c in np.ndindex(found.shape):
        exponent = np.sum((points[h, i] - centres[h, c]) ** 2 / variances[h, c])
        found[h, i, c] = np.exp(-exponent / 2) / np.sqrt(np.prod(2 * np.pi * variances[h, c]))
    return found


def posteriors(points, mixture):
    """Eq. 5."""
    joint = mixture[0][:, None] * densities(points, mixture)
    return joint / joint.sum(-1, keepdims=True)


def split(inputs, heads):
    return np.stack(np.split(inputs, heads, axis=-1))


def gamma(alpha, steps):
    return 1 - max(1 - alpha, np.exp(-5e-4 * steps))


def equation(num_clusters=4, alpha=0.5, role=None, **_):
    """Eqs. 5 to 7 and the interpolation, of a layer that is not trained at the moment."""

    def weigh(weights, query, key, value, mask):
        heads = query.shape[1]
        logits, allowed = dot(query, key), mask[:heads]
        plain, plain_heads = attend(logits, value, allowed)
        if role == "decoder":
            return plain, plain_heads
        of_keys = "key_mixture" if "key_mixture.centres" in weights else "mixture"
        own = posteriors(split(weights["inputs.query"], heads), mixture(weights, "mixture", heads))
        theirs = posteriors(split(weights["inputs.key"], heads), mixture(weights, of_keys, heads))
        same = np.einsum("hnc,hmc->hnm", own, theirs)
        masked = np.exp(logits - logits.max()) * same * allowed
        masked /= np.maximum(masked.sum(-1, keepdims=True), 1e-300)
        share = gamma(alpha, weights["steps"])
        scores = (1 - share) * plain + share * masked
        return scores, np.einsum("hnm,mhd->nhd", scores, value)

    return weigh


def shared_information(queries, mixture, leave_one_out=False):
    """Eqs. 9, 12 and 13, of one sentence: (h, h)."""
    heads, n, _ = queries.shape
    likelihoods = densities(queries, mixture)
    likelihoods = likelihoods / likelihoods.sum(1, keepdims=True)
    clusters = posteriors(queries, mixture)
    found = np.zeros((heads, heads))
    for h, other in np.ndindex(heads, heads):
        if h != other:
            for i in range(n):
                found[h, other] += np.log(likelihoods[h, i] @ clusters[other, i]) / n
                if leave_one_out:
                    rest = [np.log(likelihoods[h, i] @ clusters[other, j]) for j in range(n) if j != i]
                    found[h, other] -= np.sum(rest) / max(n - 1, 1) / n
    return found


def kept_information(queries, inputs, mixture):
    """Eq. 10, of one sentence: (h,)."""
    scores = np.einsum("hic,hjc->hij", posteriors(queries, mixture), posteriors(inputs, mixture))
    own = np.einsum("hii->hi", scores)
    return np.mean(own - np.log(np.mean(np.exp(scores), axis=-1)), axis=-1)


def diversity(clusters):
    """Eq. 14, of one sentence: (h,)."""
    n = clusters.shape[1]
    return np.array([np.sum((head @ head.T - np.eye(n)) ** 2) / n**2 for head in clusters])


def divergence(points, mixture, variance):
    """Of N(x, variance) and the posterior at x from the mixture: (h, n)."""
    shares, centres, variances = mixture
    clusters = posteriors(points, mixture)
    found = np.zeros(points.shape[:2])
    for h, i in np.ndindex(found.shape):
        for c, share in enumerate(clusters[h, i]):
            apart = (variance + (points[h, i] - centres[h, c]) ** 2) / variances[h, c]
            gaussian = 0.5 * np.sum(np.log(variances[h, c]) - np.log(variance) - 1 + apart)
            found[h, i] += share * (gaussian + np.log(share) - np.log(shares[h, c]))
    return found

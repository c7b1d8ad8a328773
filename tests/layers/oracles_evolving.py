"""Slow float64 logits of evolving attention, its baselines and relative positions, one cell at a time.

Evolving attention is Wang et al. 2021, eq. 4 and section 3.5. All is of one sentence: queries (n, h, d), keys
(m, h, d), maps (h, n, m), boolean masks (h, n, m).
"""

import numpy as np

from keras_headattn import layers
from tests.layers import oracles

# By how many halves of the kernel's width its result is shifted down (to later queries) and right (to later keys).
SHIFTS = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}


def dot(query, key):
    """Eq. 1 before the softmax."""
    (n, h, width), m = query.shape, len(key)
    logits = np.zeros((h, n, m))
    for head, r, c in np.ndindex(h, n, m):
        logits[head, r, c] = query[r, head] @ key[c, head] / np.sqrt(width)
    return logits


def attend(logits, value, allowed):
    """The scores (h, n, m) and the outputs of the heads (n, h, d_v)."""
    h, n, m = logits.shape
    scores, heads = np.zeros((h, n, m)), np.zeros((n, h, value.shape[-1]))
    for head, r in np.ndindex(h, n):
        scores[head, r] = oracles.softmax(logits[head, r], allowed[head, r])
        heads[r, head] = sum(scores[head, r, c] * value[c, head] for c in range(m))
    return scores, heads


# ---------------------------------------------------------------------------------------------- evolving attention


def convolution(maps, kernel, bias, role):
    """ReLU(conv), shifted; 0 in the rows and columns that are shifted in."""
    (_, n, m), size = maps.shape, len(kernel)
    centre = size // 2
    down, right = (centre * shift for shift in SHIFTS[role or "encoder"])
    result = np.zeros((kernel.shape[-1], n, m))
    for i in range(down, n):
        for j in range(right, m):
            total = bias.copy()
            for p, q in np.ndindex(size, size):
                row, column = i - down + p - centre, j - right + q - centre
                if 0 <= row < n and 0 <= column < m and not (role == "decoder" and q > p):
                    total = total + maps[:, row, column] @ kernel[p, q]
            result[:, i, j] = np.maximum(total, 0)
    return result


def convolves(alpha, beta, chained, convolve_first=False):
    """Whether a block convolves; `chained`: it has a previous map of its own shape."""
    return beta > 0 and (alpha == 0 or chained or convolve_first)


def evolve(
    logits, previous, allowed, weights, role="encoder", alpha=0.5, beta=0.1, kernel_size=3, convolve_first=False
):
    """Eq. 4: the map that goes into the softmax and to the next block."""
    chained = previous is not None and previous.shape == logits.shape
    combined = alpha * previous + (1 - alpha) * logits if chained else logits
    if not convolves(alpha, beta, chained, convolve_first):
        return combined
    kernel = weights["map_kernel"]
    assert kernel.shape == (kernel_size, kernel_size, *2 * logits.shape[:1])
    new = convolution(np.where(allowed, combined, 0), kernel, weights["map_bias"], role)
    return beta * new + (1 - beta) * combined


def realformer(logits, previous):
    """The logits of all blocks so far are added."""
    return logits if previous is None or previous.shape != logits.shape else logits + previous


# ---------------------------------------------------------------------------------------------------- synthesizer


def synthesizer(query, key, weights, mixture):
    """Tay et al. 2021: logits made of each query alone, of no token at all, or of both, in shares that are learned."""
    (n, h, _), m = query.shape, len(key)
    parts = {"dense": np.zeros((h, n, m)), "random": np.zeros((h, n, m)), "dot_product": dot(query, key)}
    for head, r, c in np.ndindex(h, n, m):
        if "dense" in mixture:
            parts["dense"][head, r, c] = np.maximum(query[r, head], 0) @ weights["dense_kernel"][head, :, c]
        if "random" in mixture:
            parts["random"][head, r, c] = weights["random_logits"][head, r, c]
    shares = np.exp(weights.get("mixture_logits", np.zeros(1)))
    return sum(share * parts[part] for share, part in zip(shares / shares.sum(), mixture, strict=True))


# ---------------------------------------------------------------------------------------------- relative positions


def vectors_1d(table, n, m):
    """Shaw et al. 2018: (n, m, d), the embedding of key - query, further than the table reaches as at its end."""
    reach = len(table) // 2
    return np.array([[table[max(-reach, min(reach, c - r)) + reach] for c in range(m)] for r in range(n)])


def vectors_2d(height_table, width_table):
    """Bello et al. 2019: (n, n, d) for the pixels of a map, row by row."""
    height, width = len(height_table) // 2 + 1, len(width_table) // 2 + 1
    pixels = [(y, x) for y in range(height) for x in range(width)]
    return np.array(
        [
            [height_table[y - at_y + height - 1] + width_table[x - at_x + width - 1] for y, x in pixels]
            for at_y, at_x in pixels
        ]
    )


def with_vectors(equation, vectors):
    """`equation` of oracles.py whose keys are shifted, for each query by vectors of its own."""

    def shifted(weights, query, key, value, mask):
        rows = [
            equation(weights, query[r : r + 1], key + vectors[r][:, None], value, mask[:, r : r + 1])
            for r in range(len(query))
        ]
        return np.concatenate([maps for maps, _ in rows], axis=-2), np.concatenate([heads for _, heads in rows])

    return shifted


# -------------------------------------------------------------------------------------- the layers of the harness


def evolving_equation(role="encoder", alpha=0.5, beta=0.1, kernel_size=3, **_):
    """As in oracles.py, of a block without a previous map."""

    def equation(weights, query, key, value, mask):
        allowed = mask[: query.shape[1]]
        return attend(evolve(dot(query, key), None, allowed, weights, role, alpha, beta, kernel_size), value, allowed)

    return equation


def synthesizer_equation(mixture=("dense",), **_):
    return lambda weights, query, key, value, mask: attend(synthesizer(query, key, weights, mixture), value, mask)


def relative_equation(equation):
    def shifted(weights, query, key, value, mask):
        vectors = vectors_1d(weights["relative_positions.embeddings"], len(query), len(key))
        return with_vectors(equation, vectors)(weights, query, key, value, mask)

    return shifted


def equations(case):
    """What a case is compared with."""
    if case.layer is layers.EvolvingAttention:
        return evolving_equation(**case.arguments)
    if case.layer is layers.SynthesizerAttention:
        return synthesizer_equation(**case.arguments)
    equation = oracles.equations(case)
    return relative_equation(equation) if "relative_positions" in case.arguments else equation

"""Slow float64 transcriptions of the equations, one query and one head at a time.

Each takes the weights by name, and queries (n, h, d_k), keys (m, h, d_k), values (m, h, d_v), mask
(h, n, m) of one sentence, and returns the attention maps (..., n, m) and the heads' outputs (n, h, d_v).
"""

import numpy as np

from keras_headattn import layers


def softmax(logits, allowed):
    """Zero where not allowed; all zeros if nothing is."""
    weights = np.zeros(len(logits))
    if allowed.any():
        exponents = np.exp(logits[allowed] - logits[allowed].max())
        weights[allowed] = exponents / exponents.sum()
    return weights


def multi_head(weights, query, key, value, mask):
    (n, h, width), m = query.shape, len(key)
    maps, heads = np.zeros((h, n, m)), np.zeros((n, h, value.shape[-1]))
    for i in range(h):
        for r in range(n):
            logits = np.array([query[r, i] @ key[c, i] for c in range(m)]) / np.sqrt(width)
            maps[i, r] = softmax(logits, mask[i, r])
            heads[r, i] = sum(maps[i, r, c] * value[c, i] for c in range(m))
    return maps, heads


def graph(weights, query, key, value, mask):
    """Scaled by the width of all heads together."""
    return multi_head(weights, query / np.sqrt(query.shape[1]), key, value, mask)


def talking(weights, query, key, value, mask):
    """Eqs. 6-9, with the transposed matrices."""
    pre, post = weights["pre_softmax_kernel"], weights["post_softmax_kernel"]
    (n, key_heads, width), m = query.shape, len(key)
    logits = np.zeros((key_heads, n, m))
    for i in range(key_heads):
        logits[i] = query[:, i] @ key[:, i].T / np.sqrt(width)
    softmaxes = np.zeros((pre.shape[1], n, m))
    for s in range(pre.shape[1]):
        mixed = sum(pre[i, s] * logits[i] for i in range(key_heads))
        softmaxes[s] = [softmax(mixed[r], mask[s, r]) for r in range(n)]
    maps, heads = np.zeros((post.shape[1], n, m)), np.zeros((n, post.shape[1], value.shape[-1]))
    for j in range(post.shape[1]):
        maps[j] = sum(post[s, j] * softmaxes[s] for s in range(post.shape[0]))
        heads[:, j] = maps[j] @ value[:, j]
    return maps, heads


def interacting_sum(weights, query, key, value, mask):
    """Algorithm 1: for each value head j the logits of all query heads i are added."""
    (n, h, width), m = query.shape, len(key)
    maps, heads = np.zeros((h, n, m)), np.zeros((n, h, value.shape[-1]))
    for j in range(h):
        logits = np.zeros((n, m))
        for i in range(h):
            logits += query[:, i] @ key[:, j].T / np.sqrt(width)
        maps[j] = [softmax(logits[r], mask[j, r]) for r in range(n)]
        heads[:, j] = maps[j] @ value[:, j]
    return maps, heads


def interacting_pairwise(weights, query, key, value, mask):
    """Eqs. 11 and 12: a softmax for each pair of heads, all outputs side by side."""
    (n, h, width), m = query.shape, len(key)
    maps, heads = np.zeros((h, h, n, m)), np.zeros((n, h * h, value.shape[-1]))
    for i in range(h):
        for j in range(h):
            logits = query[:, i] @ key[:, j].T / np.sqrt(width)
            maps[i, j] = [softmax(logits[r], mask[0, r]) for r in range(n)]
            heads[:, i * h + j] = maps[i, j] @ value[:, j]
    return maps, heads


def luong(weights, query, key, value, mask):
    """Eq. 1: dot, general or concat, told apart by the weights there are."""
    kernel, vector = weights.get("score_kernel"), weights.get("score_vector")
    n, m = len(query), len(key)
    maps, heads = np.zeros((1, n, m)), np.zeros((n, 1, value.shape[-1]))
    for r in range(n):
        logits = np.zeros(m)
        for c in range(m):
            a, b = query[r, 0], key[c, 0]
            if kernel is None:
                logits[c] = a @ b
            elif vector is None:
                logits[c] = a @ (kernel @ b)
            else:
                logits[c] = vector @ np.tanh(np.concatenate([a, b]) @ kernel)
        maps[0, r] = softmax(logits, mask[0, r])
        heads[r, 0] = maps[0, r] @ value[:, 0]
    return maps, heads


def equations(case):
    """The function above that a case is compared with."""
    if case.layer is layers.InteractingHeadAttention:
        return interacting_pairwise if case.arguments.get("interaction") == "pairwise" else interacting_sum
    return {
        layers.MultiHeadAttention: multi_head,
        layers.TalkingHeadsAttention: talking,
        layers.LuongAttention: luong,
        layers.GraphAttention: graph,
    }[case.layer]


def named_weights(layer):
    """The weights in float64 by the end of their path: `query.kernel`, `score_vector`, ..."""
    names = [".".join(variable.path.split("/")[1:]) for variable in layer.weights]
    return {name: np.asarray(w, "float64") for name, w in zip(names, layer.get_weights(), strict=True)}


def project(weights, name, inputs):
    return np.einsum("...d,dhk->...hk", inputs, weights[f"{name}.kernel"]) + weights.get(f"{name}.bias", 0)


def attention(equation, weights, query, value, key=None, mask=None):
    """Output and scores of a whole layer; `mask` is boolean (B, 1 or h, n, m)."""
    key = value if key is None else key
    if mask is None:
        mask = np.ones((1, 1, query.shape[1], key.shape[1]), bool)
    outputs, scores = [], []
    for b in range(len(query)):
        q, k, v = (
            project(weights, name, x[b].astype("float64"))
            for name, x in (("query", query), ("key", key), ("value", value))
        )
        allowed = mask[min(b, len(mask) - 1)]
        if len(allowed) == 1:  # the same for any number of heads
            allowed = np.repeat(allowed, 8, axis=0)
        inputs = {"inputs.query": query[b].astype("float64"), "inputs.key": key[b].astype("float64")}
        maps, heads = equation(weights | inputs, q, k, v, allowed)
        if "gate.kernel" in weights:
            heads = heads / (1 + np.exp(-project(weights, "gate", query[b].astype("float64"))))
        h, width = heads.shape[1:]
        kernel = weights.get("attention_output.kernel", np.eye(h * width).reshape(h, width, -1))
        outputs.append(np.einsum("nhv,hvd->nd", heads, kernel) + weights.get("attention_output.bias", 0))
        scores.append(maps)
    return np.stack(outputs), np.stack(scores)

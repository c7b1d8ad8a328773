"""Slow float64 transcriptions of the variants of attention that came later, and of the options of all.

One cell at a time, and of one sentence: queries (n, h, d), keys (m, g, d), values (m, g, e), masks (h, n, m), maps
(h, n, m). Below them is what the tests of these layers share: weights by name, gradients, decoding.
"""

import functools
import math

import numpy as np
import tensorflow as tf

from keras_headattn.optimizers._heads import head_kernels
from tests.layers import oracles
from tests.layers.harness import array, check_close, random_mask

DOUBLE = 1e-12

# ------------------------------------------------------------------------------------------- what all have in common


def rms(vector, epsilon):
    """No mean is subtracted."""
    return vector / np.sqrt(np.mean(vector**2) + epsilon)


def gelu(vector):
    """The exact one."""
    return np.array([u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in vector])


def dot(weights, query, key, cap=None):
    """Logits (n, m) of one map, from (n, d) and (m, d): QK-norm, product, soft-cap."""
    logits = np.zeros((len(query), len(key)))
    for r, c in np.ndindex(logits.shape):
        q, k = query[r], key[c]
        if "query_norm_scale" in weights:
            q, k = rms(q, 1e-6) * weights["query_norm_scale"], rms(k, 1e-6) * weights["key_norm_scale"]
        logit = q @ k / math.sqrt(len(q))
        logits[r, c] = logit if cap is None else cap * math.tanh(logit / cap)
    return logits


def softmax(logits, allowed, sink=None):
    """Of one row; with a sink, of a column more that is then dropped. All zeros if nothing is allowed."""
    if sink is None:
        return oracles.softmax(logits, allowed)
    return oracles.softmax(np.append(logits, sink), np.append(allowed, allowed.any()))[:-1]


def softmaxes(weights, logits, mask):
    maps = np.zeros(logits.shape)
    for i, r in np.ndindex(logits.shape[:2]):
        sink = weights["sinks"][i] if "sinks" in weights else None
        maps[i, r] = softmax(logits[i, r], mask[i, r], sink)
    return maps


def mix(maps, value):
    """Head outputs (n, h, e); head i of h reads value head i // (h / g)."""
    (h, n, m), g = maps.shape, value.shape[1]
    heads = np.zeros((n, h, value.shape[-1]))
    for i, r, c in np.ndindex(h, n, m):
        heads[r, i] += maps[i, r, c] * value[c, i // (h // g)]
    return heads


# --------------------------------------------------------------------------------------------------- the equations


def grouped_logits(weights, query, key, cap, bias):
    h, g = query.shape[1], key.shape[1]
    logits = [dot(weights, query[:, i], key[:, i // (h // g)], cap) for i in range(h)]
    return np.stack(logits) + bias  # the bias is not capped


def grouped_query(weights, query, key, value, mask, cap=None, bias=0.0):
    """With as many key heads as query heads it is multi-head attention."""
    maps = softmaxes(weights, grouped_logits(weights, query, key, cap, bias), mask)
    return maps, mix(maps, value)


def composition_of(weights, side, place, x, heads):
    """w1 and w2 (R, h) and the gate (h,) of one row `x` of the query's or the key's input."""
    first = second = np.zeros((0, heads))
    gate = np.zeros(heads)
    if f"{side}_gate_kernel" in weights:
        gate = np.tanh(x @ weights[f"{side}_gate_kernel"][:, place])
    if f"{side}_hidden_kernel" in weights:
        hidden = gelu(x @ weights[f"{side}_hidden_kernel"][:, place])
        both = np.einsum("k,krh->rh", hidden, weights[f"{side}_composition_kernel"][place])
        rank = len(both) // 2
        first, second = np.array([rms(row, 1e-6) for row in both[:rank]]), both[rank:]
    return first, second, gate


def compose(weights, maps, place):
    """A'_g = A_g + sum_h A_h W[h,g] + of the row and of the column: sum_r (A . w1[r]) w2[r,g] + A_g gate_g."""
    h, n, m = maps.shape
    rows = [composition_of(weights, "query", place, x, h) for x in weights["inputs.query"]]
    columns = [composition_of(weights, "key", place, z, h) for z in weights["inputs.key"]]
    composed = np.zeros(maps.shape)
    for r, c in np.ndindex(n, m):
        a = maps[:, r, c]
        composed[:, r, c] = a
        if "static_kernel" in weights:
            composed[:, r, c] += sum(a[i] * weights["static_kernel"][place, i] for i in range(h))
        for first, second, gate in (rows[r], columns[c]):
            for w1, w2 in zip(first, second, strict=True):
                composed[:, r, c] += np.sum(a * w1) * w2
            composed[:, r, c] += a * gate
    return composed


def dynamically_composable(pre_compose=True, post_compose=True, **_):
    def equation(weights, query, key, value, mask, cap=None, bias=0.0):
        logits = grouped_logits(weights, query, key, cap, bias)
        if pre_compose:
            logits = compose(weights, logits, 0)
        maps = softmaxes(weights, logits, mask)
        if post_compose:
            maps = compose(weights, maps, int(pre_compose))
        return maps, mix(maps, value)

    return equation


def first_lambda(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * (depth or 0))


def lambda_of(vectors, depth):
    q1, k1, q2, k2 = vectors
    return math.exp(q1 @ k1) - math.exp(q2 @ k2) + first_lambda(depth)


def head_norm(heads, scale, depth):
    """(1 - lambda0) rms(o) over each head's width; zeros stay zeros."""
    normed = np.zeros(heads.shape)
    for index in np.ndindex(heads.shape[:-1]):
        normed[index] = (1 - first_lambda(depth)) * rms(heads[index], 1e-5) * scale
    return normed


def differential(depth=None):
    """Maps 2i and 2i + 1 are the pair of head i, each of a half of its queries and keys."""

    def equation(weights, query, key, value, mask, cap=None, bias=0.0):
        (n, h, width), m = query.shape, len(key)
        d = width // 2
        bias = np.broadcast_to(bias, (h, n, m))
        plain = np.zeros((2 * h, n, m))
        for i, half in np.ndindex(h, 2):
            q, k = query[:, i, half * d : half * d + d], key[:, i, half * d : half * d + d]
            plain[2 * i + half] = dot(weights, q, k, cap) + bias[i]
        plain = softmaxes(weights, plain, np.repeat(mask[:h], 2, axis=0))
        subtracted = lambda_of(weights["lambda_vectors"], depth)
        maps = np.stack([plain[2 * i] - subtracted * plain[2 * i + 1] for i in range(h)])
        return maps, head_norm(mix(maps, value), weights["norm_scale"], depth)

    return equation


def ranked(logits, count):
    """The softmax of logits, and 1 for its `count` largest, of equal ones the first."""
    chances = softmax(logits, np.ones(len(logits), bool))
    kept = np.zeros(len(logits))
    kept[sorted(range(len(logits)), key=lambda i: (-chances[i], i))[:count]] = 1
    return chances, kept


def head_gates(weights, x, heads, shared_heads, active_heads):
    """Of one row of the query's input: the gate of each head, shared heads first."""
    shared, routed = (
        ranked(x @ weights[f"{kind}_kernel"] if f"{kind}_kernel" in weights else np.zeros(number), active_heads)
        for kind, number in (("shared", shared_heads), ("routed", heads - shared_heads))
    )
    gates = np.zeros(heads)
    gates[:shared_heads] = shared_heads * shared[0]
    for i in range(heads - shared_heads):
        gates[shared_heads + i] = active_heads * routed[0][i] * routed[1][i] / (routed[0] @ routed[1])
    if "kind_kernel" in weights:
        (a, b), _ = ranked(x @ weights["kind_kernel"], 0)
        gates *= [2 * a] * shared_heads + [2 * b] * (heads - shared_heads)
    return gates


def mixture_of_heads(shared_heads, active_heads):
    def equation(weights, query, key, value, mask, cap=None, bias=0.0):
        maps, heads = grouped_query(weights, query, key, value, mask, cap, bias)
        for r, x in enumerate(weights["inputs.query"]):
            heads[r] *= head_gates(weights, x, heads.shape[1], shared_heads, active_heads)[:, None]
        return maps, heads

    return equation


def balance(weights, x, real, active_heads):
    """The loss before its weight, and the load of each routed head, over the real tokens of x (B, n, D)."""
    found = [ranked(x[b, r] @ weights["routed_kernel"], active_heads) for b, r in zip(*np.nonzero(real), strict=True)]
    chances, load = (np.mean(rows, axis=0) for rows in zip(*found, strict=True))
    return len(load) * sum(chances * load), load


def remix(weights, maps):
    """The 1 x 1 convolution of the heads, with a bias."""
    mixed = np.zeros(maps.shape)
    for g, h in np.ndindex(len(maps), len(maps)):
        mixed[g] += weights["mixing_kernel"][h, g] * maps[h]
    return mixed + weights["mixing_bias"][:, None, None]


def re_attention(transform_scale=False):
    def equation(weights, query, key, value, mask, cap=None, bias=0.0):
        maps = remix(weights, softmaxes(weights, grouped_logits(weights, query, key, cap, bias), mask))
        for g in range(len(maps)):
            deviation = math.sqrt(weights["moving_variance"][g] + 1e-5)
            normal = (maps[g] - weights["moving_mean"][g]) / deviation
            maps[g] = np.where(mask[g], normal * weights["norm_scale"][g] + weights["norm_offset"][g], 0.0)
        maps = maps * (query.shape[-1] ** -0.5 if transform_scale else 1.0)
        return maps, mix(maps, value)

    return equation


def with_batch_statistics(weights, query, value, key, mask):
    """The weights with a batch's statistics as the moving ones, and those remembered after it; mask (B, h, n, m)."""
    entries = [[] for _ in range(mask.shape[1])]
    for b in range(len(query)):
        q, k = oracles.project(weights, "query", query[b]), oracles.project(weights, "key", key[b])
        mixed = remix(weights, softmaxes(weights, grouped_logits(weights, q, k, None, 0.0), mask[b]))
        for g, found in enumerate(entries):
            found.extend(mixed[g][mask[b, g]])
    mean, variance, unbiased = (
        np.array([measure(found) for found in entries])
        for measure in (np.mean, np.var, functools.partial(np.var, ddof=1))
    )
    after = [0.9 * weights["moving_mean"] + 0.1 * mean, 0.9 * weights["moving_variance"] + 0.1 * unbiased]
    return weights | {"moving_mean": mean, "moving_variance": variance}, after


def knocking_heads(weights, query, key, value, mask, cap=None, bias=0.0):
    """One matrix for all heads, which the weights have less the identity: T_Q, T_K, T_V, or U, G and N of the MLP."""
    kernels = {name.split("_")[1]: weight for name, weight in weights.items() if name.startswith("knocking_")}
    query, key, value = (x.copy() for x in (query, key, value))
    for side, heads in {"query": query, "key": key, "value": value}.items():
        for index in np.ndindex(heads.shape[:-1]):
            if side in kernels:
                heads[index] = heads[index] @ (np.eye(heads.shape[-1]) + kernels[side])
    if "up" in kernels:
        up, down = (np.eye(value.shape[-1]) + kernels[name] for name in ("up", "down"))
        for index in np.ndindex(value.shape[:-1]):
            v = value[index]
            value[index] = 2 * (v @ up / (1 + np.exp(-v @ kernels["gate"]))) @ down
    return grouped_query(weights, query, key, value, mask, cap, bias)


def composed(components, kernel):
    """Heads (m, g, d) of components (m, c, d)."""
    heads = np.zeros((len(components), kernel.shape[1], components.shape[2]))
    for c, j in np.ndindex(kernel.shape):
        heads[:, j] += components[:, c] * kernel[c, j]
    return heads


def multi_head_explicit(weights, query, key, value, mask, cap=None, bias=0.0):
    """QK-norm is of components."""
    query, key = normed(weights, "query", query), normed(weights, "key", key)
    weights = {
        name: weight for name, weight in weights.items() if not name.endswith(("query_norm_scale", "key_norm_scale"))
    }
    key, value = composed(key, weights["key_mixing_kernel"]), composed(value, weights["value_mixing_kernel"])
    maps, heads = grouped_query(weights, query, key, value, mask, cap, bias)
    return maps, np.apply_along_axis(lambda row: rms(row, 1e-5) * weights["norm_scale"], -1, heads)


def collaborative(key_dim):
    """Queries and keys (n, 1, R) and (m, 1, R); QK-norm is of these."""

    def equation(weights, query, key, value, mask, cap=None, bias=0.0):
        mixing, query, key = weights["mixing_kernel"], query[:, 0], key[:, 0]
        if "query_norm_scale" in weights:
            query = np.stack([rms(q, 1e-6) * weights["query_norm_scale"] for q in query])
            key = np.stack([rms(k, 1e-6) * weights["key_norm_scale"] for k in key])
        logits = np.zeros((len(mixing), len(query), len(key)))
        for i, r, c in np.ndindex(logits.shape):
            logit = sum(query[r, s] * mixing[i, s] * key[c, s] for s in range(mixing.shape[1]))
            if "content_kernel" in weights:
                logit += weights["inputs.key"][c] @ weights["content_kernel"][:, i]
            logit /= math.sqrt(key_dim)
            logits[i, r, c] = logit if cap is None else cap * math.tanh(logit / cap)
        maps = softmaxes(weights, logits + bias, mask)
        return maps, mix(maps, value)

    return equation


def convolved(weights, name, maps, mask):
    """Of rows up to this one and columns on both sides; the weights leave out the identity."""
    if f"{name}_kernel" not in weights:
        return maps
    kernel = weights[f"{name}_kernel"].copy()
    kernel[:, -1, kernel.shape[2] // 2] += 1
    (_, rows, columns), m = kernel.shape, maps.shape[2]
    made = np.zeros(maps.shape)
    for i, r, c in np.argwhere(mask):
        for a, b in np.ndindex(rows, columns):
            row, column = r - (rows - 1 - a), c + b - columns // 2
            if row >= 0 and 0 <= column < m and mask[i, row, column]:
                made[i, r, c] += kernel[i, a, b] * maps[i, row, column]
    return made


def mixed_in_groups(weights, name, maps):
    kernel = weights.get(f"{name}_mixing_kernel", np.zeros((1, len(maps), len(maps))))
    mixed, size = maps.copy(), kernel.shape[1]
    for group, a, b in np.ndindex(kernel.shape):
        mixed[group * size + b] += maps[group * size + a] * kernel[group, a, b]
    return mixed


def multi_token(depth=None, has_factor=False):
    def equation(weights, query, key, value, mask, cap=None, bias=0.0):
        logits = grouped_logits(weights, query, key, cap, bias)
        mask = mask[: len(logits)]
        logits = mixed_in_groups(weights, "logits", convolved(weights, "logits", logits, mask))
        maps = convolved(weights, "weights", softmaxes(weights, logits, mask), mask)
        maps = mixed_in_groups(weights, "weights", maps)
        heads = mix(maps, value)
        if "norm_scale" in weights:
            heads = head_norm(heads, weights["norm_scale"], depth) / (1 if has_factor else 1 - first_lambda(depth))
        if "output_gate_kernel" in weights:
            heads /= 1 + np.exp(-heads @ weights["output_gate_kernel"] - weights["output_gate_bias"])
        return maps, heads

    return equation


def normed(weights, side, x):
    """QK-norm of (n, h, d), if the weights have one."""
    if f"{side}_norm_scale" not in weights:
        return x
    return np.apply_along_axis(lambda row: rms(row, 1e-6) * weights[f"{side}_norm_scale"], -1, x)


def turned(vector, position):
    """Rotary positions of base 10000, whose pairs are halves apart."""
    width = len(vector) // 2
    angles = position * 10000.0 ** (-np.arange(width) / width)
    a, b = vector[:width], vector[width:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)])


def pseudo_tokens(heads, alpha):
    """Sequence (n * P, h, d) of heads (n, h, d): token t * P + p is composed by alpha[:, :, p]."""
    (n, h, width), p = heads.shape, alpha.shape[2]
    made = np.zeros((n * p, h, width))
    for t, j, i, g in np.ndindex(n, p, h, h):
        made[t * p + j, g] += alpha[i, g, j] * heads[t, i]
    return made


def interleaved(rotary=False):
    """Pseudo-tokens see what their tokens see."""

    def equation(weights, query, key, value, mask, cap=None, bias=0.0):
        (n, h, _), m, p = query.shape, len(key), weights["query_mixing_kernel"].shape[2]
        query, key = normed(weights, "query", query), normed(weights, "key", key)
        query, key, value = (
            pseudo_tokens(x, weights[f"{side}_mixing_kernel"])
            for side, x in (("query", query), ("key", key), ("value", value))
        )
        if rotary:
            for x in (query, key):
                for place, i in np.ndindex(x.shape[:2]):
                    x[place, i] = turned(x[place, i], place)
        mask, bias = (np.broadcast_to(x, (h, n, m)).repeat(p, 1).repeat(p, 2) for x in (mask[:h], bias))
        plain = {name: weight for name, weight in weights.items() if "norm_scale" not in name}
        maps, mixed = grouped_query(plain, query, key, value, mask, cap, bias)
        token_maps, heads = np.zeros((h * p, n, m)), np.zeros((n, h, value.shape[-1]))
        for i, t, j in np.ndindex(h, n, p):
            token_maps[i * p + j, t] = maps[i, t * p + j].reshape(m, p).sum(1)
            for g in range(h):
                heads[t, g] += weights["collapse_kernel"][i * p + j, g] * mixed[t * p + j, i]
        return token_maps, heads

    return equation


def paired_heads(weights, query, key, value, mask, cap=None, bias=0.0):
    """One softmax over the keys of a head and those of the other head of its pair, 0 and 1, 2 and 3, ..."""
    pairs = np.arange(query.shape[1]) ^ 1
    logits = [grouped_logits(weights, query, k, cap, bias) for k in (key, key[:, pairs])]
    maps = softmaxes(weights, np.concatenate(logits, axis=2), np.concatenate([mask, mask], axis=2))
    own, others = np.split(maps, 2, axis=2)
    return own + others, mix(own, value) + mix(others, value[:, pairs])


def attention(equation, weights, query, value, key=None, mask=None, cap=None, bias=0.0):
    """Output and scores of a whole layer; `mask` (B, 1 or h, n, m), `bias` anything that broadcasts to (B, h, n, m)."""
    key = value if key is None else key
    shape = len(query), 1, query.shape[1], key.shape[1]
    mask = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, (len(query), *mask.shape[1:]))
    bias = np.broadcast_to(bias, np.broadcast_shapes(shape, np.shape(bias)))
    outputs, scores = [], []
    for b in range(len(query)):
        of_one = functools.partial(equation, cap=cap, bias=bias[b])
        one = slice(b, b + 1)
        output, maps = oracles.attention(of_one, weights, query[one], value[one], key[one], mask[one])
        outputs.append(output[0])
        scores.append(maps[0])
    return np.stack(outputs), np.stack(scores)


# ------------------------------------------------------------------------------------------------ weights by name


def by_name(layer):
    """The variables by their path within the layer: `query.kernel`, `sinks`, ..."""
    return {".".join(variable.path.split("/")[1:]): variable for variable in layer.weights}


def own_weights(layer):
    """Shapes of those that are not of the projections."""
    return {name: tuple(variable.shape) for name, variable in by_name(layer).items() if "." not in name}


def layer_with(layer, weights, query, value, key=None):
    """Builds `layer` for these inputs and gives it exactly these weights."""
    layer.build(query.shape, value.shape, value.shape if key is None else key.shape)
    variables = by_name(layer)
    assert {name: tuple(variable.shape) for name, variable in variables.items()} == {
        name: np.shape(value) for name, value in weights.items()
    }
    for name, value in weights.items():
        variables[name].assign(value)
    return layer


def fused_projections(data, prefix, heads, width):
    """Of a PyTorch checkpoint whose queries, keys and values are one product."""
    kernel, bias = (data[f"{prefix}qkv.{kind}"].astype("float64") for kind in ("weight", "bias"))
    kernel, bias = kernel.T.reshape(-1, 3, heads, width), bias.reshape(3, heads, width)
    weights = {}
    for i, name in enumerate(("query", "key", "value")):
        weights |= {f"{name}.kernel": kernel[:, i], f"{name}.bias": bias[i]}
    output = data[f"{prefix}proj.weight"].astype("float64").T.reshape(heads, width, -1)
    return weights | {
        "attention_output.kernel": output,
        "attention_output.bias": data[f"{prefix}proj.bias"].astype("float64"),
    }


def set_weights(layer, **values):
    """Replaces some, each by one number or by an array."""
    for name, value in values.items():
        variable = by_name(layer)[name]
        variable.assign(np.broadcast_to(value, variable.shape))


def permuted(weights, order, key_order=None, **axes):
    """The weights with their heads in another order; `axes` says where those of a layer's own weights have theirs."""
    key_order = order if key_order is None else key_order
    orders = {"query": order, "gate": order, "attention_output": order, "key": key_order, "value": key_order}
    result = dict(weights)
    for name, weight in weights.items():
        projection, _, kind = name.rpartition(".")
        if name == "attention_output.kernel":
            result[name] = np.take(weight, order, axis=0)
        elif projection in orders and name != "attention_output.bias":
            result[name] = np.take(weight, orders[projection], axis=1 if kind == "kernel" else 0)
        for axis in axes.get(name, ()):
            result[name] = np.take(result[name], order, axis=axis)
    return result


def heads_found(layer):
    """Of each weight with heads that `Repulsive` finds: the axis, and how many there are."""
    found = head_kernels(layer.trainable_weights)
    return {kernel.projection: (kernel.axis, kernel.variable.shape[kernel.axis]) for kernel in found}


# -------------------------------------------------------------------------------------------------------- checks


def check(layer, equation, query, value, key=None, attention_mask=None, mask=None, cap=None, bias=None, **call):
    """Compares a layer with its equation, whether scores are asked for or not; `mask` is what all masks make."""
    if mask is None and attention_mask is not None:
        mask = attention_mask[:, None] if attention_mask.ndim == 3 else attention_mask
    weights, offset = oracles.named_weights(layer), 0.0 if bias is None else bias
    expected, expected_scores = attention(equation, weights, query, value, key, mask, cap, offset)
    call = {**call, "key": key, "attention_mask": attention_mask}
    if bias is not None:
        call["bias"] = bias
    output, scores = layer(query, value, return_attention_scores=True, **call)
    check_close(scores, expected_scores, DOUBLE)
    check_close(output, expected, DOUBLE)
    check_close(layer(query, value, **call), expected, DOUBLE)


def check_decoding(layer, x, bias=None):
    """Step by step and in chunks as at once; `bias` is (..., n, n + 2), as the cache has two rows to spare."""
    n = x.shape[1]

    def of(rows, columns):
        return {} if bias is None else {"bias": bias[..., rows, :columns]}

    call = {"use_causal_mask": True, "return_attention_scores": True}
    expected, expected_scores = map(array, layer(x, x, **of(slice(n), n), **call))
    for sizes in ([1] * n, [n - 3, 1, 2]):
        cache, index = layer.init_cache(len(x), n + 2), 0
        for size in sizes:
            rows = slice(index, index + size)
            piece = x[:, rows]
            output, scores, cache = layer(piece, piece, cache=cache, index=index, **of(rows, n + 2), **call)
            check_close(output, expected[:, rows], DOUBLE)
            check_close(scores[..., :n], expected_scores[:, :, rows], DOUBLE)
            assert not array(scores)[..., n:].any()
            index += size
    return cache


def check_cross_decoding(layer, query, value, key):
    """Queries one by one and at once from a cache of the keys, some of them padding."""
    real = random_mask((len(key), key.shape[1]))
    expected, expected_scores = layer(query, value, key, key_mask=real, return_attention_scores=True)
    cache = layer.project_cache(value, key)
    output, scores = layer(query, cache=cache, key_mask=real, return_attention_scores=True)
    check_close(output, expected, DOUBLE)
    check_close(scores, expected_scores, DOUBLE)
    for i in range(query.shape[1]):
        check_close(layer(query[:, i : i + 1], cache=cache, key_mask=real), array(expected)[:, i : i + 1], DOUBLE)
    return cache


def numbers_a_key(cache):
    """How many numbers a cache keeps of one key of one sentence."""
    batch, _, length, _ = cache["value"].shape
    return sum(math.prod(x.shape) for name, x in cache.items() if name != "positions") / (batch * length)


def check_padding(layer, query, value, key):
    """What is masked changes nothing, whatever it is and however much."""
    real = np.arange(key.shape[1])[None] < np.array([[4], [key.shape[1]]])
    expected = layer(query, value, key, key_mask=real)

    def padded(x, content):
        return np.pad(np.where(real[..., None], x, content), ((0, 0), (0, 2), (0, 0)), constant_values=content)

    mask = np.pad(real, ((0, 0), (0, 2)))
    for content in (0.0, 1e3):
        check_close(layer(query, padded(value, content), padded(key, content), key_mask=mask), expected, DOUBLE)


def check_gradients(layer, *inputs, **call):
    """Of all weights, by a finite difference in one random direction; returns them by name."""
    rng = np.random.default_rng(0)
    factors = tf.constant(rng.normal(size=layer(*inputs, **call).shape))

    def loss():
        return tf.reduce_sum(factors * layer(*inputs, **call))

    variables = {name: weight.value for name, weight in by_name(layer).items() if weight.trainable}
    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, variables, unconnected_gradients="zero")
    gradients = {name: array(gradient) for name, gradient in gradients.items()}
    kept = {name: array(variable) for name, variable in variables.items()}
    directions = {name: rng.normal(size=variable.shape) for name, variable in variables.items()}
    ends = []
    for step in (1e-5, -1e-5):
        for name, variable in variables.items():
            variable.assign(kept[name] + step * directions[name])
        ends.append(float(loss()))
    slope = sum(np.sum(gradients[name] * directions[name]) for name in variables)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-5)
    return gradients

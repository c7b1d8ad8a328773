"""Conversion of trained multi-head attention to collaborative heads."""

import functools
from typing import Any

import keras
import numpy as np

from keras_headattn._identifiers import rebuilt
from keras_headattn._private import flatten_layers
from keras_headattn._validation import check_positive
from keras_headattn.layers import Attention, CollaborativeAttention, MultiHeadAttention
from keras_headattn.positions import ALiBiPositions, BucketPositions

TOLERANCE = 1e-4  # stop when a step lowers the error by a smaller share
STEPS = 100


def to_collaborative(source: Any, shared_dim: int | None = None) -> tuple[Any, dict[str, float]]:
    """Converts trained `MultiHeadAttention` to `CollaborativeAttention`.

    The products of a layer's query and key kernels form a tensor `(D, h, D_k)`, which one of rank `shared_dim`
    replaces. At full rank, `num_heads * key_dim`, they are equal. At lower rank, alternating least squares in float64
    finds a close one, starting from the largest singular vectors of all heads: train the result further to recover
    accuracy. The bias of queries goes into `content_kernel` without error; that of keys cancels in the softmax. Values,
    outputs and `scale` stay the same.

    Source: Cordonnier et al. 2020, "Multi-head attention: collaborate instead of concatenate", section 4.

    Args:
        source: built model or layer, which stays unchanged. In a model such as `Bert` or `Transformer` all layers of
            `MultiHeadAttention` are converted.
        shared_dim: rank, at most `num_heads * key_dim`, the default.

    Returns:
        The converted copy, not compiled, and a dictionary from layer path to the relative error of the layer's tensor
        (Frobenius norm).

    Raises:
        ValueError: if there is no `MultiHeadAttention`, or one is not built or cannot be converted: with `qk_norm`,
            positions that read queries or keys, sinks or a soft cap if a key bias is not 0, or weights that are
            quantised or have LoRA.

    >>> from keras_headattn.models import Bert
    >>> model = Bert(50, 16, 32, num_layers=1, num_heads=4, name="bert")
    >>> model.build()
    >>> smaller, errors = to_collaborative(model, shared_dim=8)
    >>> model.count_params() - smaller.count_params(), list(errors)
    (192, ['bert/block_0/attention'])
    """
    layers = [layer for layer in _attentions(source) if type(layer) is MultiHeadAttention]
    if not layers:
        raise ValueError(f"`source` must have a layer of MultiHeadAttention. Received: source={source!r}")
    for layer in layers:
        _check(layer, shared_dim)
    copy = rebuilt(source, functools.partial(_replaced, shared_dim=shared_dim))
    pairs = zip(_attentions(source), _attentions(copy), strict=True)
    pairs = [(old, new) for old, new in pairs if type(old) is MultiHeadAttention]
    unchanged = zip(_unchanged(source, layers), _unchanged(copy, [new for _, new in pairs]), strict=True)
    for old, new in unchanged:
        new.assign(old)
    return copy, {old.path: _convert(old, new) for old, new in pairs}


def _attentions(source):
    return list({id(layer): layer for layer in flatten_layers(source) if isinstance(layer, Attention)}.values())


def _check(layer, shared_dim):
    if not layer.built:
        raise ValueError(f"The layers must be built: call the model first. Received: {layer.name!r} without weights")
    if shared_dim is not None and check_positive("shared_dim", shared_dim) > layer.num_heads * layer.key_dim:
        raise ValueError(
            f"`shared_dim` must be at most num_heads * key_dim, {layer.num_heads * layer.key_dim}. "
            f"Received: shared_dim={shared_dim}"
        )
    wrong = ["qk_norm"] if layer.qk_norm else []
    if not isinstance(layer.relative_positions, (ALiBiPositions, BucketPositions, type(None))):
        wrong.append(type(layer.relative_positions).__name__)
    if layer.use_bias and np.any(keras.ops.convert_to_numpy(layer.key_dense.bias)):  # the softmax does not cancel it
        wrong += [name for name in ("use_sinks", "attn_logits_soft_cap") if getattr(layer, name)]
    dense = layer.query_dense, layer.key_dense
    if any(projection.quantization_mode or getattr(projection, "lora_enabled", False) for projection in dense):
        wrong.append("weights that are quantised or have LoRA")
    if wrong:
        raise ValueError(f"Collaborative heads cannot express a layer's {', '.join(wrong)}. Received: {layer.path}")


def _replaced(config, shared_dim):
    """Returns the configuration of collaborative heads in place of that of multi-head attention."""
    if config.get("registered_name") != keras.saving.get_registered_name(MultiHeadAttention):
        return config
    return {
        **config,
        "module": CollaborativeAttention.__module__,
        "class_name": "CollaborativeAttention",
        "registered_name": keras.saving.get_registered_name(CollaborativeAttention),
        "config": {**config["config"], "shared_dim": shared_dim},
    }


def _unchanged(source, layers):
    """Returns all weights except those that compute the logits of these layers."""
    changed = [weight for layer in layers for dense in (layer.query_dense, layer.key_dense) for weight in dense.weights]
    names = ("mixing_kernel", "content_kernel")
    changed += [getattr(layer, name) for layer in layers for name in names if hasattr(layer, name)]
    ids = {id(weight) for weight in changed}
    return [weight for weight in source.weights if id(weight) not in ids]


def _convert(old, new):
    """Assigns the weights that compute the logits, and returns the relative error of their tensor."""
    query, key = (
        np.asarray(keras.ops.convert_to_numpy(dense.kernel), "float64") for dense in (old.query_dense, old.key_dense)
    )
    queries, mixing, keys, error = decompose(query, key, new.shared_dim)
    new.query_dense.kernel.assign(queries[:, None])
    new.key_dense.kernel.assign(keys[:, None])
    new.mixing_kernel.assign(mixing)
    if old.use_bias:
        new.content_kernel.assign(np.einsum("jhk,hk->jh", key, keras.ops.convert_to_numpy(old.query_dense.bias)))
    return error


def decompose(query, key, rank):
    """Factorises the products of query and key kernels, (D, h, d) and (D_k, h, d), by least squares.

    Returns queries (D, R), mixing (h, R), keys (D_k, R), and the relative error of the tensor (D, h, D_k).
    """
    _, heads, width = query.shape
    q, k = query.reshape(len(query), -1), key.reshape(len(key), -1)
    if rank == heads * width:
        return q, np.repeat(np.eye(heads), width, axis=1), k, 0.0
    total = np.sum((q.T @ q) * (k.T @ k) * np.kron(np.eye(heads), np.ones((width, width))))
    a, m, b = _largest(query, key, rank)
    error = previous = np.inf
    for _ in range(STEPS):
        of_keys = _products(b, k, heads)
        m = _solve((a.T @ a) * (b.T @ b), np.sum(_products(a, q, heads) * of_keys, axis=-1).T)
        a = _solve((m.T @ m) * (b.T @ b), q @ (of_keys * m.T[..., None]).reshape(rank, -1).T)
        of_queries = _products(a, q, heads)
        right = k @ (of_queries * m.T[..., None]).reshape(rank, -1).T
        b = _solve((m.T @ m) * (a.T @ a), right)
        rest = total - 2 * np.sum(b * right) + np.sum((a.T @ a) * (b.T @ b) * (m.T @ m))
        error = (max(rest, 0.0) / total) ** 0.5
        if previous - error < TOLERANCE * error:
            break
        previous = error
    sizes = [np.linalg.norm(x, axis=0) + 1e-300 for x in (a, m, b)]
    scale = np.sqrt(np.prod(sizes, axis=0))  # of queries and keys alike, and 1 of mixing
    return a / sizes[0] * scale, m / sizes[1], b / sizes[2] * scale, float(error)


def _largest(query, key, rank):
    """Returns factors of the largest singular vectors of all heads, each of one head."""
    terms = []
    for i in range(query.shape[1]):
        (left, upper), (right, lower) = np.linalg.qr(query[:, i]), np.linalg.qr(key[:, i])
        u, sizes, v = np.linalg.svd(upper @ lower.T)
        terms += [(size, i, left @ u[:, n], right @ v[n]) for n, size in enumerate(sizes)]
    sizes, head, a, b = zip(*sorted(terms, key=lambda term: -term[0])[:rank], strict=True)
    factors = np.stack(a, axis=1) * sizes, np.eye(query.shape[1])[:, list(head)], np.stack(b, axis=1)
    # Inputs narrower than heads have fewer.
    return [np.pad(factor, ((0, 0), (0, rank - len(sizes)))) for factor in factors]


def _products(factor, kernel, heads):
    return (factor.T @ kernel).reshape(factor.shape[1], heads, -1)  # (R, h, d)


def _solve(gram, right):
    ridge = 1e-12 * np.trace(gram) * np.eye(len(gram))
    return np.linalg.solve(gram + ridge, right.T).T

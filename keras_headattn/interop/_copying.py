"""Copying tensors into the weights of a model by name."""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping

import keras
import numpy as np

from keras_headattn.models import Bert, ModernBert

# PyTorch's names for the last part of a name.
OF_TORCH = {"kernel": "weight", "gamma": "weight", "embeddings": "weight", "scale": "weight", "beta": "bias"}
PLACES = {
    "i": r"\d+",
    "p": "query|key|value",
    "side": "encoder|decoder",
    "a": "attention|self_attention",
    "w": "wi|wi_0|wi_1|wo",
}


@dataclasses.dataclass(frozen=True)
class Names:
    """Weight names of a format.

    Args:
        table: dictionary from this library's name of a layer or weight to the format's. `{i}` stands for a number,
            `{p}` for `query`, `key` or `value`, `{side}` for `encoder` or `decoder`.
        kernels: layout of kernels: `"torch"` `(out, in)`, `"dense"` `(in, out)`, or `"heads"`, this library's. Default
            `"torch"`.
        leaves: dictionary from the last part of this library's names to the format's. Default `None`: PyTorch's for
            `"torch"`, none for others.
        unused: regular expressions of the format's names without a place in this library's models. Default: none.
        skipped: this library's names of weights that keep their initial values. Default: none.
    """

    table: Mapping[str, str]
    kernels: str = "torch"
    leaves: dict[str, str] | None = None
    unused: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def find(self, name: str) -> str | None:
        """Returns a name in the format, `None` if it has none.

        Args:
            name: str, this library's name of a weight.
        """
        if name in self.skipped:
            return None
        owner, _, leaf = name.rpartition("/")
        leaves = self.leaves if self.leaves is not None else OF_TORCH if self.kernels == "torch" else {}
        for ours, theirs in self.table.items():
            if match := re.fullmatch(_pattern(ours), owner):
                separator = "." if self.kernels == "torch" else "/"
                return theirs.format(**_values(match)) + separator + leaves.get(leaf, leaf)
            if match := re.fullmatch(_pattern(ours), name):
                return theirs.format(**_values(match))
        return None

    def is_unused(self, name: str) -> bool:
        """Returns True if a tensor is known to have no place in this library's models.

        Args:
            name: str, the format's name.
        """
        return any(re.fullmatch(pattern, name) for pattern in self.unused)


@functools.cache
def _pattern(template):
    pattern = re.escape(template)
    for placeholder, values in PLACES.items():
        pattern = pattern.replace(f"\\{{{placeholder}\\}}", f"(?P<{placeholder}>{values})", 1)
        pattern = pattern.replace(f"\\{{{placeholder}\\}}", f"(?P={placeholder})")
    return re.compile(pattern)


def _values(match):
    return {name: int(value) if name == "i" else value for name, value in match.groupdict().items()}


@dataclasses.dataclass(frozen=True)
class Report:
    """Outcome of `copy_weights`, by name.

    Args:
        copied: dictionary from weights of the model to tensors of the checkpoint.
        averaged: copied weights that are means over heads, for shared keys and values.
        initialised: weights of the model that the checkpoint lacks; they keep their initial values.
        left_over: tensors of the checkpoint without a place in the model.
    """

    copied: dict
    averaged: list
    initialised: list
    left_over: list

    def __str__(self):
        lines = [f"{len(self.copied)} tensors copied."]
        lines += [f"Means of heads: {_some(self.averaged)}."] if self.averaged else []
        lines += [f"Not in the checkpoint: initialised: {_some(self.initialised)}."] if self.initialised else []
        lines += [f"Left over: {_some(self.left_over)}."] if self.left_over else []
        return "\n".join(lines)


def _some(names, most=6):
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def weights_by_name(model: keras.layers.Layer) -> dict[str, keras.Variable]:
    """Returns all weights (`keras.Variable`) of a model or layer by path, such as `"block_0/attention/query/kernel"`.

    Args:
        model: model or layer; built without arguments if necessary. A head's encoder, as in `MaskedLM`, adds nothing to
            the paths.

    >>> layer = keras.layers.Dense(2)
    >>> layer.build((None, 3))
    >>> sorted(weights_by_name(layer))
    ['bias', 'kernel']
    """
    if not model.built:
        model.build()
    if isinstance(getattr(model, "encoder", None), Bert | ModernBert):  # a head
        inside = {id(weight) for weight in model.encoder.weights}
        outer = [weight for weight in model.weights if id(weight) not in inside]
        return weights_by_name(model.encoder) | _below(model, outer)
    return _below(model, model.weights)


def _below(model, weights):
    result = {}
    for weight in weights:
        parts = weight.path.split("/")
        if model.name in parts[:-1]:
            parts = parts[parts.index(model.name) + 1 :]
        elif isinstance(model, Bert):  # embeddings shared with another encoder
            parts = parts[-2:]
        result["/".join(parts)] = weight
    return result


def copy_weights(
    model: keras.layers.Layer, tensors: Mapping[str, np.ndarray], names: Names | Mapping[str, str], strict: bool = True
) -> Report:
    """Copies tensors into a model by name, all or none.

    Weights without a name in the format, such as the convolution of `EvolvingAttention`, keep their initial values. If
    heads share keys and values, as in `GroupedQueryAttention`, they get the means of their groups (Ainslie et al. 2023,
    "GQA", section 2.1). Fewer components than heads, as in `MultiHeadExplicitAttention`, get the closest keys and
    values of their rank, by a singular value decomposition over the heads.

    Args:
        model: model or layer; built without arguments if necessary.
        tensors: dictionary from name to array, as `read_tensors` returns it.
        names: `Names` of the format, or a dictionary from this library's names to the format's.
        strict: bool, True to raise an error if tensors are left over. Default True.

    Returns:
        `Report`.

    Raises:
        ValueError: if tensors are missing, left over or of another shape.

    >>> from keras_headattn.layers import EvolvingAttention
    >>> layer = EvolvingAttention(num_heads=4, key_dim=4, name="attention")
    >>> layer.build((None, None, 16), (None, None, 16), previous_logits_shape=(None, 4, None, None))
    >>> stock = keras.layers.MultiHeadAttention(4, 4, name="stock")
    >>> stock.build((None, None, 16), (None, None, 16))
    >>> names = Names({"{p}": "{p}", "attention_output": "attention_output"}, kernels="heads")
    >>> print(copy_weights(layer, {name: w.numpy() for name, w in weights_by_name(stock).items()}, names))
    8 tensors copied.
    Not in the checkpoint: initialised: map_kernel, map_bias.
    """
    names = names if isinstance(names, Names) else Names(names)
    weights = weights_by_name(model)
    their_names = {name: names.find(name) for name in weights}
    copied = {name: theirs for name, theirs in their_names.items() if theirs is not None}
    missing = [theirs for theirs in copied.values() if theirs not in tensors]
    left_over = sorted(set(tensors) - set(copied.values()))
    fitted, misshapen, averaged = {}, [], []
    for name, theirs in copied.items():
        if theirs not in tensors:
            continue
        fitted[name], is_mean = _fit_or_mean(name, tensors[theirs], weights, names.kernels)
        averaged += [name] * is_mean
        if fitted[name] is None:
            shape = stored_shape(name, _shape_of_heads(name, weights), names.kernels)
            misshapen.append(f"{theirs} {tuple(tensors[theirs].shape)}, not {shape}")
    surplus = [name for name in left_over if not names.is_unused(name)] if strict else []
    check_fit({"missing": missing, "of another shape": misshapen, "left over": surplus})
    for name in [name for name in copied if name.endswith("/kernel")]:
        if (mixing := _mixing(name, weights)) is not None:
            fitted |= _components(name, fitted, weights[mixing].shape[0])
            copied[mixing] = copied[name]
    for name, value in fitted.items():
        weights[name].assign(value)
    return Report(copied, averaged, [name for name in weights if name not in copied], left_over)


def check_fit(faults):
    """Raises a ValueError if any kind of fault, by which `faults` lists tensor names, occurs."""
    if any(faults.values()):
        received = "; ".join(f"{fault}: {_some(names)}" for fault, names in faults.items() if names)
        raise ValueError(f"The checkpoint does not fit the model, and nothing was copied. Received: {received}")


def stored_shape(name, shape, kernels):
    """Returns the shape of a weight in a checkpoint."""
    if kernels == "heads" or not name.endswith(("/kernel", "/bias")):
        return shape
    if name.endswith("/bias"):
        return (math.prod(shape),)
    inputs = len(shape) - 1 if "attention_output/" in name else 1
    flat = math.prod(shape[:inputs]), math.prod(shape[inputs:])
    return flat[::-1] if kernels == "torch" else flat


def misfits(weights, tensors, names):
    """Returns the names of weights whose tensors have another shape."""
    pairs = [(name, tensors[theirs]) for name in weights if (theirs := names.find(name)) in tensors]
    return [name for name, tensor in pairs if _fit_or_mean(name, tensor, weights, names.kernels)[0] is None]


def _fit_or_mean(name, tensor, weights, kernels):
    """Returns a tensor in the weight's shape or `None`, and True if it is a mean over heads."""
    shape = _shape_of_heads(name, weights)
    fitted = _fit(name, tensor, shape, kernels)
    groups = _groups(name, weights, shape) if fitted is None else None
    if groups is None:
        return fitted, False
    return _mean_of_heads(_fit(name, tensor, groups, kernels), groups, shape), True


def _fit(name, tensor, shape, kernels):
    """Returns a tensor in the weight's shape, `None` if it does not fit."""
    if tuple(tensor.shape) != stored_shape(name, shape, kernels):
        return None
    return (tensor.T if _is_transposed(name, kernels) else tensor).reshape(shape)


def store(name, value, kernels):
    """Returns a weight as a checkpoint stores it, the inverse of `_fit`."""
    value = np.asarray(value)
    shape = stored_shape(name, value.shape, kernels)
    if _is_transposed(name, kernels):
        return np.ascontiguousarray(value.reshape(shape[::-1]).T)
    return value.reshape(shape)


def _is_transposed(name, kernels):
    return kernels == "torch" and name.endswith("/kernel")


def _mixing(name, weights):
    """Returns the name of the kernel by which a key or value weight of fewer components makes heads, or `None`."""
    match = re.fullmatch(r"((?:.*/|)(?:key|value))/(?:kernel|bias)", name)
    mixing = match and f"{match[1]}_mixing_kernel"
    return mixing if mixing in weights and weights[mixing].shape[0] < weights[mixing].shape[1] else None


def _shape_of_heads(name, weights):
    """Returns the shape of a weight, with heads in place of components."""
    mixing, shape = _mixing(name, weights), tuple(weights[name].shape)
    return shape if mixing is None else (*shape[:-2], weights[mixing].shape[1], shape[-1])


def _components(name, fitted, count):
    """Splits keys or values of g heads, kernel and bias, into components and their mixing kernel `(count, g)`."""
    bias, kernel = name.removesuffix("kernel") + "bias", fitted[name]
    rows = np.concatenate([kernel, fitted[bias][None]]) if bias in fitted else kernel  # (D + 1, g, width)
    rows = rows.astype("float64")
    *_, heads, width = rows.shape
    left, sizes, right = np.linalg.svd(np.moveaxis(rows, 1, 2).reshape(-1, heads), full_matrices=False)
    components = np.moveaxis((left[:, :count] * sizes[:count]).reshape(-1, width, count), 2, 1)
    weights = {name: components[: len(kernel)], name.removesuffix("/kernel") + "_mixing_kernel": right[:count]}
    return weights | ({bias: components[-1]} if bias in fitted else {})


def _groups(name, weights, shape):
    """Returns the shape of a key or value weight with as many heads as queries, `None` if heads are not grouped."""
    match = re.fullmatch(r"(.*/|)(?:key|value)/(kernel|bias)", name)
    query = match and weights.get(f"{match[1]}query/{match[2]}")
    if query is None:
        return None
    heads, (*rest, groups, width) = query.shape[-2], shape
    return (*rest, heads, width) if heads > groups and heads % groups == 0 else None


def _mean_of_heads(value, shape, grouped):
    if value is None:
        return None
    *rest, heads, width = shape
    groups = grouped[-2]
    return value.astype("float32").reshape(*rest, groups, heads // groups, width).mean(axis=-2)

"""Models with fewer heads."""

import collections
import functools
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._identifiers import rebuilt
from keras_headattn._paths import by_path
from keras_headattn._private import flatten_layers
from keras_headattn._validation import check_number
from keras_headattn.layers import Attention


def prune_heads(model: Any, importance: Mapping[str, ArrayLike] | None, keep: float) -> Any:
    """Returns a copy of a model with only the most important heads of each attention layer.

    The copy computes what the model would compute without the other heads: their weights are removed, as are their rows
    and columns in matrices and kernels that mix heads. Each layer keeps the same share of its heads. Query heads that
    share keys and values are removed together, and so are paired heads and groups of heads that mix their weights
    (`MultiTokenAttention`). Layers that pass scores or values on, or share a table of positions, keep the same heads;
    their importances are added up.

    Source: Michel et al. 2019, "Are sixteen heads really better than one?", section 4, with a ranking for each layer.

    Args:
        model: built model or attention layer, of classes that Keras can load. The copy is not compiled.
        importance: dictionary from layer path to the importance of its heads `(h,)`, from `head_ablation` or
            `head_importance`. `None` keeps the first heads, to measure size and time or to see if pruning works.
        keep: share of the heads to keep, above 0 and at most 1. Each layer keeps at least one head.

    Raises:
        ValueError: if `importance` lacks a layer, or a layer cannot lose heads: `MixtureOfHeadsAttention`, whose router
            chooses among all; `DisentangledMaskAttention` and `DynamicallyComposableAttention`, where other sizes
            depend on the number of heads; `GraphAttention`; `LuongAttention`; Keras's `GroupQueryAttention`;
            `MultiTokenAttention`, if all heads are one group of `mix_weights`; any layer with `ALiBiPositions`, which
            have a slope for each head; and attention whose heads are channels of the output, as in `AugmentedConv2D`;
            or if weights are quantized or have LoRA.

    >>> x = keras.Input((5, 8))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(num_heads=4, key_dim=2, name="attention")(x, x))
    >>> smaller = prune_heads(model, {"attention": [0.1, 0.0, 0.3, 0.2]}, keep=0.5)
    >>> model.count_params(), smaller.count_params()
    (288, 148)
    """
    check_number("keep", keep, above=0, most=1)
    layers = attention_layers(model)
    for layer in flatten_layers(model):
        if isinstance(layer, keras.layers.GroupQueryAttention):
            raise ValueError(f"Heads of Keras's `GroupQueryAttention` cannot be removed. Received: {layer.path}")
        if layer.quantization_mode is not None or getattr(layer, "lora_enabled", False):
            raise ValueError(f"Weights must be plain, not quantized or with LoRA. Received: {layer.path} of `model`")
    pruned = rebuilt(model, functools.partial(_smaller, keep=keep))
    kept = _choose(layers, importance, keep)
    selections = {  # by variable: the number of heads, and the heads to keep
        id(weight): (_plan(type(layer), layer.get_config(), keep)[1], kept[path])
        for path, layer in layers.items()
        for weight in layer.weights
    }
    for old, new in zip(model.weights, pruned.weights, strict=True):
        value = keras.ops.convert_to_numpy(old)
        selection = selections.get(id(old), (1, np.zeros(1, "int64")))
        new.assign(value if value.shape == tuple(new.shape) else _part(value, new.shape, old.path, *selection))
    return pruned


def head_importance(model: keras.Model, batches: Iterable[Any]) -> dict[str, np.ndarray]:
    """Returns how sensitive the loss is to each head: the mean absolute gradient over batches.

    The gradient is with respect to a factor of the head's output, so one pass over the data ranks all heads. Losses
    that layers add, such as penalties, do not count. Needs the TensorFlow backend.

    Source: Michel et al. 2019, "Are sixteen heads really better than one?", equation 5, which averages over examples;
    the smaller the batches, the closer this comes to it.

    Args:
        model: compiled model.
        batches: batches `(x, y)` or `(x, y, sample_weight)`, such as a `tf.data.Dataset`.

    Returns:
        Dictionary from layer path to importances `(h,)`, with the paths of `head_ablation`.

    Raises:
        ValueError: if there are no batches, a layer has no output projection, or on another backend.

    >>> x = keras.Input((5, 8))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(num_heads=4, key_dim=2, name="attention")(x, x))
    >>> model.compile(loss="mse")
    >>> head_importance(model, [(np.ones((2, 5, 8)), np.ones((2, 5, 8)))])["attention"].shape
    (4,)
    """
    if (backend := keras.backend.backend()) != "tensorflow":
        raise ValueError(f"`head_importance` needs TensorFlow; `head_ablation` does not. Received: backend {backend!r}")
    import tensorflow as tf

    layers = attention_layers(model)
    if plain := [path for path, layer in layers.items() if layer.output_dense is None]:
        raise ValueError(
            f"Layers need an output projection; `head_ablation` takes others, too. Received: {', '.join(plain)}"
        )
    dense = {path: layer.output_dense for path, layer in layers.items()}
    if changed := [path for path, layer in dense.items() if layer.quantization_mode or layer.lora_enabled]:
        raise ValueError(
            "Layers must have plain weights, neither quantized nor with LoRA; `head_ablation` takes others, too. "
            f"Received: {', '.join(changed)}"
        )
    kernels = {path: layer.kernel for path, layer in dense.items()}
    totals: dict[str, Any] = dict.fromkeys(kernels, 0.0)
    num_batches = 0

    @tf.function(reduce_retracing=True)
    def gradients(x, y, sample_weight):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=False), sample_weight, training=False)
            loss -= sum(model.losses)  # penalties of kernels do not depend on outputs
        return tape.gradient(loss, [kernel.value for kernel in kernels.values()], unconnected_gradients="zero")

    for batch in batches:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        num_batches += 1
        for (path, kernel), gradient in zip(kernels.items(), gradients(x, y, sample_weight), strict=True):
            products = kernel.numpy() * gradient.numpy()
            totals[path] = totals[path] + np.abs(products.sum(axis=tuple(range(1, products.ndim))))
    if not num_batches:
        raise ValueError("`batches` must hold at least one batch. Received: none")
    return {path: total / num_batches for path, total in totals.items()}


def attention_layers(model: Any) -> dict[str, Any]:
    """Returns the attention layers of a built model by path; repeated paths end in `_1`, `_2`, ...

    Args:
        model: `keras.Model` or layer.
    """
    kinds = Attention, keras.layers.MultiHeadAttention
    layers = by_path((layer.path, layer) for layer in flatten_layers(model) if isinstance(layer, kinds))
    if not layers or not all(layer.built for layer in layers.values()):
        raise ValueError(f"`model` must have attention layers, and be built: call it first. Received: model={model}")
    return layers


def _smaller(config, keep):
    """Returns the configuration of an object with fewer heads, if it is an attention layer or has one."""
    arguments = config["config"]
    if kind := _attention_class(config):
        return config | {"config": arguments | _plan(kind, arguments, keep)[0]}
    if isinstance(attention := arguments.get("attention"), dict) and "num_heads" in arguments:
        arguments["num_heads"] = attention["config"].get("num_heads", arguments["num_heads"])
    return config


def _attention_class(config):
    kind = keras.saving.get_registered_object(config.get("registered_name"))
    if kind is None:  # one of Keras, or a class that is found by its module
        kind = getattr(sys.modules.get(config.get("module")), config["class_name"], None)
    return kind if isinstance(kind, type) and issubclass(kind, (Attention, keras.layers.MultiHeadAttention)) else None


def _plan(kind, arguments, keep):
    """Returns the changed arguments of a layer, its number of heads or groups of heads, and how many to keep."""
    names = getattr(kind, "head_arguments", ("num_heads",))
    counts = {name: arguments[name] for name in names if arguments[name] > 1}
    group = getattr(kind, "group_argument", None)
    together = arguments.get(group) or getattr(kind, "heads_together", 1)
    count = min(counts.values(), default=1) // together
    if not names or 1 == count < together or any(value % count for value in counts.values()):
        received = kind.__name__ + "".join(f", {name}={arguments[name]}" for name in (*names, group) if name)
        raise ValueError(f"This attention cannot lose heads; see `analysis.prune_heads`. Received: {received}")
    stay = max(1, int(keep * count + 0.5))
    return {name: value // count * stay for name, value in counts.items()}, count, stay


def _choose(layers, importance, keep):
    """Returns the indices of the heads, or groups of heads, to keep in each layer."""
    together, chains = {}, collections.Counter()  # paths of layers that keep the same heads; chains by role
    for path, layer in layers.items():
        if importance is not None and path not in importance:
            raise ValueError(f"`importance` must have {path!r}. Received: {', '.join(importance)}")
        positions = getattr(layer, "relative_positions", None)
        if hasattr(positions, "slopes"):
            raise ValueError(f"Heads with slopes of their own cannot be removed. Received: {positions} in {path}")
        key = path
        if getattr(layer, "carries_logits", False) or getattr(layer, "value_residual", False):
            chains[layer.role] += layer.depth == 0
            key = layer.role, chains[layer.role]
        elif positions is not None and positions.weights:
            key = id(positions)
        together.setdefault(key, []).append(path)
    kept = {}
    for paths in together.values():
        layer = layers[paths[0]]
        _, count, stay = _plan(type(layer), layer.get_config(), keep)
        pairs = getattr(layer, "interaction", None) == "pairwise"
        totals = -np.arange(count)
        if importance is not None:
            totals = sum(_of_units(importance[path], count, pairs, path) for path in paths)
        kept |= dict.fromkeys(paths, np.sort(np.argsort(-totals, kind="stable")[:stay]))
    return kept


def _of_units(importance, count, pairs, path):
    """Returns the importance of each head, or of each group of heads that are removed together."""
    importance = np.asarray(importance, "float64")
    if importance.ndim != 1 or importance.size % count or not np.isfinite(importance).all():
        raise ValueError(
            f"`importance` must have a finite number for each head. Received: {importance} for {count} heads of {path}"
        )
    if pairs:
        importance = importance.reshape(count, count)
        return importance.sum(axis=0) + importance.sum(axis=1)
    return importance.reshape(count, -1).sum(axis=1)


def _part(value, shape, path, count, kept):
    """Returns the part of a weight for the kept heads: blocks of its axes, or pairs of heads."""
    for axis, (before, after) in enumerate(zip(value.shape, shape, strict=True)):
        if before == after:
            continue
        if before * len(kept) == after * count:
            rows = (kept[:, None] * (before // count) + np.arange(before // count)).ravel()
        elif (before, after) == (count**2, len(kept) ** 2):
            rows = (kept[:, None] * count + kept).ravel()
        else:
            raise ValueError(
                f"The size of {path} does not follow the heads, so none can be removed; see `analysis.prune_heads`. "
                f"Received: {value.shape} to {tuple(shape)}"
            )
        value = np.take(value, rows, axis)
    return value

"""Weights of single attention layers of Keras and tensorflow-addons."""

import re
from collections.abc import Mapping

import keras
import numpy as np

from keras_headattn._private import flatten_layers
from keras_headattn.interop._copying import Report, copy_weights, weights_by_name
from keras_headattn.interop._tables import STOCK
from keras_headattn.layers import Attention, GroupedQueryAttention, MultiHeadAttention
from keras_headattn.layers._lora import with_lora

STOCK_CLASSES = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
OF_ADDONS = {
    "query_kernel": "query",
    "key_kernel": "key",
    "value_kernel": "value",
    "projection_kernel": "attention_output",
}
ADDONS_NAME = re.compile(rf"(.*?)/?({'|'.join(OF_ADDONS)}|projection_bias)(?::0)?")


def copy_attention(
    source: keras.layers.Layer | Mapping[str, np.ndarray], target: keras.layers.Layer, strict: bool = True
) -> list[Report]:
    """Copies the weights of Keras's attention layers into this library's, or of this library's into Keras's.

    Args:
        source: built `keras.layers.MultiHeadAttention`, `keras.layers.GroupQueryAttention` or attention layer of this
            library, a model with any number of them, or the tensors of one layer from `of_addons`.
        target: layers of these kinds, or a model with equally many, in the same order, built. Keras's layers take
            weights of `MultiHeadAttention` and `GroupedQueryAttention`, of others after `layers.absorb`.
        strict: bool, True to raise an error if weights are left over. Default True.

    Returns:
        List of `Report`, one for each layer.

    Raises:
        ValueError: if numbers of layers, shapes or sliding windows differ, or a layer of Keras's has no equal of the
            source; nothing is copied then.

    >>> from keras_headattn.layers import TalkingHeadsAttention
    >>> x = keras.random.normal((2, 5, 16))
    >>> stock, ours = keras.layers.MultiHeadAttention(4, 4), TalkingHeadsAttention(4, 4, mixing_initializer="identity")
    >>> expected, _ = stock(x, x), ours(x, x)
    >>> print(copy_attention(stock, ours)[0])
    8 tensors copied.
    Not in the checkpoint: initialised: pre_softmax_kernel, post_softmax_kernel.
    >>> np.testing.assert_allclose(ours(x, x), expected, atol=1e-5)
    """
    is_tensors = isinstance(source, dict)
    theirs = [source] if is_tensors else _attentions(source, (*STOCK_CLASSES, Attention))
    ours = _attentions(target, (*STOCK_CLASSES, Attention))
    if len(theirs) != len(ours) or not ours:
        raise ValueError(
            "`source` and `target` must have the same number of attention layers, at least one. "
            f"Received: {len(theirs)} and {len(ours)}"
        )
    for layer, stock in zip(theirs, ours, strict=True):
        if isinstance(layer, Attention) and isinstance(stock, STOCK_CLASSES):
            _check_expressible(layer, stock)
        windows = [each.get_config().get("sliding_window") for each in (layer, stock) if not is_tensors]
        if len({*windows}) > 1:
            raise ValueError(f"The layers must have the same `sliding_window`. Received: {windows[0]} and {windows[1]}")
    tensors = theirs if is_tensors else [_of_stock(layer) for layer in theirs]
    kept = [[np.array(weight) for weight in layer.weights] for layer in ours]
    try:
        return [copy_weights(layer, arrays, STOCK, strict) for layer, arrays in zip(ours, tensors, strict=True)]
    except ValueError:
        for layer, weights in zip(ours, kept, strict=True):
            layer.set_weights(weights)
        raise


def _attentions(layer, classes):
    attentions = list(
        {id(attention): attention for attention in flatten_layers(layer) if isinstance(attention, classes)}.values()
    )
    for attention in attentions:
        if not attention.built:
            raise ValueError(
                f"The layers must be built: call the model first. Received: {attention.name!r} without weights"
            )
        if with_lora(attention):
            raise ValueError(f"Weights with LoRA must be merged: use `merge_lora` first. Received: {attention.name!r}")
    return attentions


def _check_expressible(layer, stock):
    """Refuses layers whose output depends on more than the weights and arguments of a layer of Keras's."""
    kinds = {MultiHeadAttention: STOCK_CLASSES[0], GroupedQueryAttention: STOCK_CLASSES[1]}
    if kinds.get(type(layer)) is not type(stock):
        raise ValueError(
            f"A {type(stock).__name__} of Keras takes the weights of its equal here; `layers.absorb` returns a "
            f"MultiHeadAttention where that is possible. Received: {type(layer).__name__} {layer.name!r}"
        )
    names = ("relative_positions", "qk_norm", "attn_logits_soft_cap", "use_sinks", "exclusive", "value_residual")
    unsupported = [name for name in names if getattr(layer, name)]
    if layer.scale != layer.key_dim**-0.5:
        unsupported.append("scale")
    if unsupported:
        raise ValueError(
            f"Keras's attention has no {', '.join(unsupported)}. Received: a layer {layer.name!r} with them"
        )


def _of_stock(layer):
    return {name: np.array(weight) for name, weight in weights_by_name(layer).items()}


def of_addons(tensors: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Renames the weights of `tensorflow_addons.layers.MultiHeadAttention` to this library's names.

    Only its output has a bias; the others become 0. If it has none, use `use_bias=False`. Its `head_size` is `key_dim`,
    and the first axis of its kernels `num_heads`.

    Args:
        tensors: dictionary from name to array, as `read_tensors` returns it.

    Returns:
        Dictionary from the path of each layer to its tensors, for `copy_attention`.

    Raises:
        ValueError: if there is no such layer.

    >>> kernel, output = np.ones((2, 16, 4), "float32"), np.ones((2, 4, 16), "float32")
    >>> tensors = {f"model/attention/{name}_kernel": kernel for name in ("query", "key", "value")}
    >>> tensors |= {"model/attention/projection_kernel": output, "model/attention/projection_bias": np.zeros(16)}
    >>> layers = of_addons(tensors)
    >>> {name: tensor.shape for name, tensor in layers["model/attention"].items() if "query" in name}
    {'query/kernel': (16, 2, 4), 'query/bias': (2, 4)}
    """
    layers = {}
    for name, tensor in tensors.items():
        match = ADDONS_NAME.fullmatch(name)
        if match and "OPTIMIZER_SLOT" not in name:
            layers.setdefault(match[1], {})[match[2]] = tensor
    if not layers:
        raise ValueError(
            "There must be tensors such as query_kernel and projection_kernel. "
            f"Received: {', '.join(sorted(tensors)[:4])}"
        )
    return {path: _of_addons(path, layer_tensors) for path, layer_tensors in layers.items()}


def _of_addons(path, tensors):
    if missing := OF_ADDONS.keys() - tensors.keys():
        raise ValueError(f"The layer lacks kernels. Received: {path} without {', '.join(sorted(missing))}")
    # (h, D, d) there, (D, h, d) here; the output's axes are the same.
    result = {
        f"{ours}/kernel": tensors[theirs] if theirs == "projection_kernel" else tensors[theirs].transpose(1, 0, 2)
        for theirs, ours in OF_ADDONS.items()
    }
    if "projection_bias" in tensors:
        for name in ("query", "key", "value"):
            result[f"{name}/bias"] = np.zeros(result[f"{name}/kernel"].shape[1:], tensors["projection_bias"].dtype)
        result["attention_output/bias"] = tensors["projection_bias"]
    return result

"""Layers that equal multi-head attention with other weights."""

from keras import ops

from keras_headattn.layers._attention import Attention
from keras_headattn.layers._attention_inputs import check_built
from keras_headattn.layers._grouped_query_attention import GroupedQueryAttention
from keras_headattn.layers._interacting_head_attention import InteractingHeadAttention
from keras_headattn.layers._knocking_heads_attention import KnockingHeadsAttention
from keras_headattn.layers._multi_head_attention import MultiHeadAttention

KINDS = MultiHeadAttention, GroupedQueryAttention, KnockingHeadsAttention, InteractingHeadAttention


def absorb(layer: Attention) -> MultiHeadAttention:
    """Returns a `MultiHeadAttention` with the same output, if a layer is multi-head attention with tied weights.

    Shared keys and values are copied for each query head, matrices of knocking heads are multiplied into the
    projections, and a sum of queries becomes the query of every head. A `head_regularizer` is left out.

    Args:
        layer: `GroupedQueryAttention`, `KnockingHeadsAttention` without an MLP, `InteractingHeadAttention` with
            `"sum"`, or `MultiHeadAttention`; built.

    Raises:
        ValueError: for other layers, or if the layer is not built, or its weights are quantised or have LoRA.

    >>> import keras
    >>> from keras_headattn.layers import GroupedQueryAttention, absorb
    >>> layer, x = GroupedQueryAttention(num_heads=4, key_dim=8, num_key_value_heads=2), keras.random.normal((2, 5, 16))
    >>> y = layer(x, x)
    >>> bool(keras.ops.all(keras.ops.isclose(absorb(layer)(x, x), y, atol=1e-5)))
    True
    """
    kind = type(layer).__name__
    ways = {name: getattr(layer, name) for name in ("interaction", "knocking") if hasattr(layer, name)}
    if type(layer) not in KINDS or ways.get("interaction") == "pairwise" or "value_mlp" in ways.get("knocking", ()):
        received = "".join(f" with {name}={value!r}" for name, value in ways.items())
        raise ValueError(
            "Only multi-head attention, grouped queries, knocking heads without an MLP and summed interacting heads "
            f"equal multi-head attention with other weights. Received: {kind}{received}"
        )
    check_built(layer, "absorb")
    dense = {name: getattr(layer, f"_{name}_dense") for name in layer.projections if hasattr(layer, f"_{name}_dense")}
    changed = [each for each in dense.values() if each.quantization_mode or getattr(each, "lora_enabled", False)]
    if changed:
        raise ValueError(f"The weights must be plain, not quantised or with LoRA. Received: {kind} {layer.name!r}")
    names = MultiHeadAttention(1, 1).get_config()
    config = {name: value for name, value in layer.get_config().items() if name in names}
    if type(layer) is not MultiHeadAttention:
        config["head_regularizer"] = None  # it would compare copies
    found = MultiHeadAttention.from_config(config)
    found.build_from_config(layer.get_build_config())
    shared = {weight.name for weight in found.weights}
    for weight, own in zip(found.weights, (own for own in layer.weights if own.name in shared), strict=True):
        if weight.shape == own.shape:
            weight.assign(own)
    for name in dense.keys() - {"gate"}:
        weights = zip(layer.projection_weights(name), _weights_of(found, name), (1, 0), strict=True)
        for value, weight, axis in weights:
            if weight is not None:
                weight.assign(ops.repeat(value, weight.shape[axis] // value.shape[axis], axis=axis))
    return found


def _weights_of(layer, name):
    dense = getattr(layer, f"_{name}_dense")
    return dense.kernel, dense.bias

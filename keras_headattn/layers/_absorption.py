"""Layers that equal multi-head attention with other weights."""

from keras import ops

from keras_headattn.layers._attention import Attention
from keras_headattn.layers._attention_inputs import check_built
from keras_headattn.layers._grouped_query_attention import GroupedQueryAttention
from keras_headattn.layers._interacting_head_attention import InteractingHeadAttention
from keras_headattn.layers._interleaved_head_attention import InterleavedHeadAttention
from keras_headattn.layers._knocking_heads_attention import KnockingHeadsAttention
from keras_headattn.layers._multi_head_attention import MultiHeadAttention

KINDS = (
    MultiHeadAttention,
    GroupedQueryAttention,
    KnockingHeadsAttention,
    InteractingHeadAttention,
    InterleavedHeadAttention,
)


def absorb(layer: Attention) -> MultiHeadAttention:
    """Returns a `MultiHeadAttention` with the same output, if a layer is multi-head attention with tied weights.

    Shared keys and values are copied for each query head, matrices of knocking heads and of interleaved heads are
    multiplied into the projections, and a sum of queries becomes the query of every head. A `head_regularizer` is left
    out.

    Args:
        layer: `GroupedQueryAttention`, `KnockingHeadsAttention` without an MLP, `InteractingHeadAttention` with
            `"sum"`, `InterleavedHeadAttention` with one pseudo-token, no gate and no norm, or `MultiHeadAttention`;
            built.

    Raises:
        ValueError: for other layers, or if the layer is not built, or its weights are quantised or have LoRA.

    >>> import keras
    >>> from keras_headattn.layers import GroupedQueryAttention, absorb
    >>> layer, x = GroupedQueryAttention(num_heads=4, key_dim=8, num_key_value_heads=2), keras.random.normal((2, 5, 16))
    >>> y = layer(x, x)
    >>> bool(keras.ops.all(keras.ops.isclose(absorb(layer)(x, x), y, atol=1e-5)))
    True
    """
    dense = _checked(layer)
    is_interleaved = isinstance(layer, InterleavedHeadAttention)
    known = MultiHeadAttention(1, 1).get_config()
    config = {name: value for name, value in layer.get_config().items() if name in known}
    if type(layer) is not MultiHeadAttention:
        config["head_regularizer"] = None  # it would compare copies
    absorbed = MultiHeadAttention.from_config(config)
    absorbed.build_from_config(layer.get_build_config())
    shared = {weight.name for weight in absorbed.weights}
    for weight, source in zip(absorbed.weights, (x for x in layer.weights if x.name in shared), strict=True):
        if weight.shape == source.shape:
            weight.assign(source)
    for name in dense.keys() - {"gate"}:
        values = layer.projection_weights(name)
        if is_interleaved:
            values = _composed(values, getattr(layer, f"{name}_mixing_kernel"))
        weights = zip(values, _weights_of(absorbed, name), (1, 0), strict=True)
        for value, weight, axis in weights:
            if weight is not None:
                weight.assign(ops.repeat(value, weight.shape[axis] // value.shape[axis], axis=axis))
    if is_interleaved:
        kernel = absorbed.output_dense.kernel
        kernel.assign(ops.tensordot(layer.collapse_kernel, kernel, axes=1))
    return absorbed


def _checked(layer):
    """Returns the projections by name of a layer that equals multi-head attention; others are a `ValueError`."""
    kind = type(layer).__name__
    names = ["interaction", "knocking"]
    if isinstance(layer, InterleavedHeadAttention):
        names = ["num_pseudo_tokens", "use_gate", "qk_norm"]
    names += ["value_residual"] if getattr(layer, "value_residual", False) else []
    ways = {name: getattr(layer, name) for name in names if hasattr(layer, name)}
    composes_more = ways.get("num_pseudo_tokens", 1) > 1 or ways.get("use_gate") or ways.get("qk_norm")
    differs = ways.get("interaction") == "pairwise" or "value_mlp" in ways.get("knocking", ())
    if type(layer) not in KINDS or differs or composes_more or "value_residual" in ways:
        received = "".join(f" with {name}={value!r}" for name, value in ways.items())
        raise ValueError(
            "Only multi-head attention, grouped queries, knocking heads without an MLP, summed interacting heads, and "
            "interleaved heads with one pseudo-token, no gate and no norm equal multi-head attention with other "
            f"weights. Received: {kind}{received}"
        )
    check_built(layer, "absorb")
    dense = {name: getattr(layer, f"_{name}_dense") for name in layer.projections if hasattr(layer, f"_{name}_dense")}
    changed = [
        projection
        for projection in dense.values()
        if projection.quantization_mode or getattr(projection, "lora_enabled", False)
    ]
    if changed:
        raise ValueError(f"The weights must be plain, not quantised or with LoRA. Received: {kind} {layer.name!r}")
    return dense


def _composed(weights, mixing):
    """Returns a kernel `(D, h, d)` and a bias, or `None`, of composed heads, of one pseudo-token."""
    mixing = ops.transpose(mixing[:, :, 0])
    return [None if weight is None else ops.matmul(mixing, weight) for weight in weights]


def _weights_of(layer, name):
    dense = getattr(layer, f"_{name}_dense")
    return dense.kernel, dense.bias

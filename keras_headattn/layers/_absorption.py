"""Layers that equal multi-head attention with other weights."""

from keras import ops


def absorbed(layer, plain, kinds):
    """Returns `plain`, the class of multi-head attention, with the output of a layer of one of `kinds`."""
    kind = type(layer).__name__
    ways = {name: getattr(layer, name) for name in ("interaction", "knocking") if hasattr(layer, name)}
    if type(layer) not in kinds or ways.get("interaction") == "pairwise" or "value_mlp" in ways.get("knocking", ()):
        received = "".join(f" with {name}={value!r}" for name, value in ways.items())
        raise ValueError(
            "Only multi-head attention, grouped queries, knocking heads without an MLP and summed interacting heads "
            f"equal multi-head attention with other weights. Received: {kind}{received}"
        )
    dense = {name: getattr(layer, f"_{name}_dense") for name in layer.projections if hasattr(layer, f"_{name}_dense")}
    changed = [each for each in dense.values() if each.quantization_mode or getattr(each, "lora_enabled", False)]
    if changed:
        raise ValueError(f"The weights must be plain, not quantised or with LoRA. Received: {kind} {layer.name!r}")
    names = plain(1, 1).get_config()
    config = {name: value for name, value in layer.get_config().items() if name in names}
    if type(layer) is not plain:
        config["head_regularizer"] = None  # it would compare copies
    found = plain.from_config(config)
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

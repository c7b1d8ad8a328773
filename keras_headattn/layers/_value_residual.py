"""Value residual: values of a block mixed with those of the first block."""

import dataclasses

from keras import ops

from keras_headattn._validation import differ


def check_value_residual(layer):
    """Checks that a layer with `value_residual` is self-attention that knows the number of blocks below it."""
    if layer.value_residual and (layer.role not in ("encoder", "decoder") or layer.depth is None):
        raise ValueError(
            "`value_residual` is for self-attention with a `depth`, which models set in their blocks. "
            f"Received: value_residual=True, role={layer.role!r}, depth={layer.depth} for {type(layer).__name__}"
        )


def mix_first_values(layer, state, entry):
    """Returns the state and the entry of a call: values of the first block go into the state, others are mixed."""
    values, first = entry["value"], state.first_values
    if layer.depth == 0:
        return dataclasses.replace(state, first_values=values), entry
    if first is None or len(first.shape) != 4 or any(map(differ, first.shape, values.shape)):
        raise ValueError(
            "`first_values` must be those of the first block, of the same tokens and of heads of the same shape. "
            f"Received: first_values of shape {None if first is None else tuple(first.shape)} for values of shape "
            f"{tuple(values.shape)}"
        )
    own, others = ops.unstack(ops.cast(layer.value_lambdas, values.dtype), 2)
    return state, entry | {"value": own * values + others * ops.cast(first, values.dtype)}

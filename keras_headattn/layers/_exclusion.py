"""Exclusive self-attention: outputs of heads without their part along the token's own value."""

from keras import backend, ops

from keras_headattn._validation import differ


def check_exclusive(layer, sums_values):
    """Checks that heads of an `exclusive` layer are sums of their own values, or of those of their group."""
    heads, values = layer.merged_heads, layer.projections.get("value", (0, 0))[0]
    is_alike = values in (heads, getattr(layer, "num_key_value_heads", None))
    if layer.exclusive and (layer.role == "cross" or not (sums_values and is_alike)):
        raise ValueError(
            "`exclusive` is for self-attention whose heads are sums of their values. "
            f"Received: exclusive={layer.exclusive!r}, role={layer.role!r} for {type(layer).__name__}"
        )


def exclude_own_values(heads, values, weights=None):
    """Takes from outputs `(B, h, n, d)` their part along values of `h` heads or groups, or tanh of `weights` of it."""
    if values is None or differ(values.shape[2], heads.shape[2]):
        shape = None if values is None else tuple(values.shape)
        raise ValueError(
            "`exclusive` needs self-attention, with a value for each query. "
            f"Received: values of shape {shape} for outputs of shape {tuple(heads.shape)}"
        )
    values = ops.repeat(values, heads.shape[1] // values.shape[1], axis=1)
    values = ops.cast(values, backend.result_type(values.dtype, "float32"))
    wide = ops.cast(heads, values.dtype)
    squares = ops.maximum(ops.sum(ops.square(values), axis=-1, keepdims=True), 1e-12)
    shares = ops.sum(wide * values, axis=-1, keepdims=True) / squares
    if weights is not None:
        shares = shares * ops.tanh(ops.cast(weights, values.dtype))[:, None, None]
    return ops.cast(wide - shares * values, heads.dtype)

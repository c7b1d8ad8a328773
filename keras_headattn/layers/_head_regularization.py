"""The `head_regularizer` of a layer, see `keras_headattn.regularizers`."""

from keras import ops, regularizers


def as_head_regularizer(identifier, parts=("kernels", "weights", "outputs", "values")):
    """Returns a head regularizer whose `of` is among `parts`, from itself, its configuration or `None`."""
    try:
        regularizer = regularizers.get(identifier)
    except (ValueError, TypeError, AttributeError):
        regularizer = identifier  # for the error below
    of = getattr(regularizer, "of", None)
    if regularizer is not None and of not in parts:
        raise ValueError(
            "`head_regularizer` must be one of keras_headattn.regularizers, for a part that this layer has: "
            f"{', '.join(parts)}. Received: head_regularizer={identifier!r}, of {of}"
        )
    return regularizer


def kernel_regularizer(regularizer, head_regularizer):
    """Adds the head regularizer, if it is one of kernels, to a projection's own regularizer."""
    if not regularizes(head_regularizer, "kernels"):
        return regularizer
    return head_regularizer if regularizer is None else lambda kernel: regularizer(kernel) + head_regularizer(kernel)


def regularizes(regularizer, *parts):
    return regularizer is not None and regularizer.of in parts


def head_loss(regularizer, weights, outputs, values, mask):
    """Computes the loss of weights, outputs or values. Fully masked queries and values do not count."""
    # weights (B, h, n, m), outputs (B, h, n, d), values (B, h, m, d), mask or None -> scalar
    if regularizer.of == "values":
        return regularizer(values, None if mask is None else ops.any(mask, axis=(1, 2)))
    queries = None if mask is None else ops.any(mask, axis=(1, 3))
    if regularizer.of == "weights" and len(weights.shape) == 5:  # pairs of heads
        batch, heads, other_heads, *sizes = ops.shape(weights)
        weights = ops.reshape(weights, (batch, heads * other_heads, *sizes))
    return regularizer(weights if regularizer.of == "weights" else outputs, queries)

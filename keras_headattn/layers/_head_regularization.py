"""What a layer does with its `head_regularizer`, see `keras_headattn.regularizers`."""

from keras import ops, regularizers

from keras_headattn import _heads


def as_head_regularizer(identifier, parts=("kernels", "weights", "outputs", "values")):
    """A regularizer of heads from one, from its configuration, or from `None`.

    Args:
        identifier: regularizer, dictionary or `None`.
        parts: what the layer has to give: values that `of` may have.

    Raises:
        ValueError: for anything else.
    """
    regularizer = regularizers.get(identifier)
    of = getattr(regularizer, "of", None)
    if regularizer is not None and of not in parts:
        raise ValueError(
            "`head_regularizer` must be one of keras_headattn.regularizers, of what this layer has: "
            f"{', '.join(parts)}. Received: head_regularizer={identifier!r}, of {of}"
        )
    return regularizer


def mark_heads(kernel, regularizer):
    """Says which axis of a kernel is that of the heads, and has it regularized by one of kernels.

    Such a loss is Keras's own, of the variable: it counts once, however often the layer is called.

    Args:
        kernel: variable whose axis 1 is that of the heads.
        regularizer: `head_regularizer` of the layer.
    """
    _heads.mark_heads(kernel, 1, kernel.path.removesuffix("/kernel").rpartition("/")[2])
    if regularizer is not None and regularizer.of == "kernels":
        own = kernel.regularizer
        kernel.regularizer = regularizer if own is None else lambda x: own(x) + regularizer(x)


def regularizes(regularizer, *parts):
    return regularizer is not None and regularizer.of in parts


def head_loss(regularizer, weights, outputs, values, mask):
    """The loss of a regularizer that is not of kernels.

    A query counts that may attend to something, and a value that some query may attend to.

    Args:
        regularizer: of `"weights"`, `"outputs"` or `"values"`.
        weights: `(B, h, n, m)`.
        outputs: `(B, h, n, d)`.
        values: `(B, h, m, d)`.
        mask: boolean, broadcasts to `(B, h, n, m)`, True = may attend; or `None`.

    Returns:
        Scalar.
    """
    if regularizer.of == "values":
        return regularizer(values, None if mask is None else ops.any(mask, axis=(1, 2)))
    queries = None if mask is None else ops.any(mask, axis=(1, 3))
    return regularizer(weights if regularizer.of == "weights" else outputs, queries)

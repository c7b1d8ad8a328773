"""Products of rows with a kernel of two axes, and sizes that graphs know."""

from keras import ops


def apply_kernel(weights, x):
    """Product with a kernel, and a bias added.

    Args:
        weights: dictionary of `"kernel"` `(D, E)` and, where there is one, `"bias"` `(E,)`.
        x: `(..., D)`.

    Returns:
        `(rows, E)`, all rows of `x` one after the other.
    """
    product = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), weights["kernel"])
    return product + weights["bias"] if "bias" in weights else product


def sizes(x):
    """The shape of a tensor to reshape others to: a single size that is not known is -1, which costs no operation.

    Args:
        x: of any shape.

    Returns:
        Tuple of integers; and of scalar tensors where several sizes are not known.
    """
    shape = tuple(x.shape)
    return tuple(-1 if size is None else size for size in shape) if shape.count(None) < 2 else ops.shape(x)

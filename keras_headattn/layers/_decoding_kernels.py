"""Two-dimensional projection kernels for decoding; kernels of the same input are concatenated."""

import itertools
import math

from keras import ops

from keras_headattn.ops._dense import apply_kernel, is_one, sizes, swap_heads


def make_kernels(layer):
    """See `Attention.decoding_kernels`."""
    if layer.value_dense.quantization_mode is not None:
        return {}
    weights = {side: _side_by_side(layer, side) for side in ("query", "memory") if _projections(layer, side)}
    dense = layer.output_dense
    if dense is not None:
        weights["output"] = {"kernel": ops.reshape(dense.kernel, (math.prod(dense.kernel.shape[:2]), -1))}
        if dense.bias is not None:
            weights["output"]["bias"] = ops.reshape(dense.bias, (-1,))
    return {
        side: {name: ops.cast(tensor, layer.compute_dtype) for name, tensor in tensors.items()}
        for side, tensors in weights.items()
    }


def project_together(layer, side, x, kernels):
    """Projects an input by one product with the kernels of `make_kernels`; returns `{}` without kernels."""
    # (B, n, D) -> {name of a projection: (B, heads, n, width)}
    if not kernels or side not in kernels:
        return {}
    names = _projections(layer, side)
    shapes = [tuple(layer.projection_weights(name)[0].shape[1:]) for name in names]
    made = dict(zip(names, _split_heads(apply_kernel(kernels[side], x), sizes(x)[:2], shapes), strict=True))
    return made | {"gate": ops.sigmoid(made["gate"])} if "gate" in made else made


def merge_by_kernel(weights, heads, output_shape):
    """Projects heads `(B, h, n, width)` by the output kernel to `(B, n, D)` or `(B, n, *output_shape)`."""
    batch, h, n, width = sizes(heads)
    # If a size is 1, XLA would emit two reshapes for one.
    rows = heads if any(map(is_one, heads.shape[1:3])) else ops.swapaxes(heads, 1, 2)
    output = apply_kernel(weights, ops.reshape(rows, (-1, h * width)))
    return ops.reshape(output, (batch, n, *(output_shape or output.shape[1:])))


def _projections(layer, side):
    """Returns the names of a side's projections in the order of their kernels."""
    of_memory = ("key", "value") if layer.role == "cross" else ()
    made = [name for name in layer.projections if name != "gate" or layer.use_gate]
    return [name for name in made if (name in of_memory) == (side == "memory")]


def _side_by_side(layer, side):
    weights = [layer.projection_weights(name) for name in _projections(layer, side)]
    kernels = [ops.reshape(kernel, (kernel.shape[0], -1)) for kernel, _ in weights]
    biases = [ops.zeros(kernel.shape[1:], kernel.dtype) if bias is None else bias for kernel, bias in weights]
    has_bias = any(bias is not None for _, bias in weights)
    parts = {"kernel": kernels} | ({"bias": [ops.reshape(bias, (-1,)) for bias in biases]} if has_bias else {})
    return {name: ops.concatenate(tensors, axis=-1) for name, tensors in parts.items()}


def _split_heads(product, lengths, shapes):
    """Splits a product `(B * n, all)` into `(B, heads, n, width)` for each (heads, width) of `shapes`."""
    if len(shapes) == 1:
        return [swap_heads(ops.reshape(product, (*lengths, *shapes[0])))]
    if len({*shapes}) == 1:
        batch, n = lengths
        heads, width = shapes[0]
        if is_one(n):
            return ops.unstack(ops.reshape(product, (batch, len(shapes), heads, 1, width)), len(shapes), axis=1)
        together = ops.reshape(product, (batch, n, len(shapes), heads, width))
        return ops.unstack(ops.transpose(together, (2, 0, 3, 1, 4)), len(shapes))  # (k, B, h, n, d)
    ends = [*itertools.accumulate(math.prod(shape) for shape in shapes)]
    parts = [product[:, end - math.prod(shape) : end] for end, shape in zip(ends, shapes, strict=True)]
    return [swap_heads(ops.reshape(part, (*lengths, *shape))) for part, shape in zip(parts, shapes, strict=True)]

"""Floating-point operations of a model, counted in its graph."""

import math

import tensorflow as tf


def count_flops(function, *inputs):
    """Counts floating-point operations of matrix products and convolutions in one call.

    A multiplication and an addition count 2, as in papers; all else, such as softmax and normalisation, counts nothing.

    Args:
        function: model, or any function of tensors.
        *inputs: arguments; arrays or `tf.TensorSpec`s of known shapes.

    Raises:
        ValueError: if a shape is not known in the graph.

    >>> count_flops(lambda x: x @ tf.ones((3, 5)), tf.TensorSpec((2, 3)))
    60
    """
    graph = tf.function(function, autograph=False).get_concrete_function(*inputs).graph
    return 2 * sum(COUNTS[op.type](op) for op in graph.get_operations() if op.type in COUNTS)


def _matrix_product(op, adjoint):
    rows = op.inputs[0].shape
    return math.prod(_known(op.outputs[0].shape)) * _known(rows)[-2 if op.get_attr(adjoint) else -1]


def _convolution(op):
    return math.prod(_known(op.outputs[0].shape)) * math.prod(_known(op.inputs[1].shape)[:3])


def _einsum(op):
    operands = op.get_attr("equation").decode().split("->")[0].split(",")
    if len(operands) == 1:  # a sum, or another order of axes
        return 0
    sizes = {}
    for labels, tensor in zip(operands, op.inputs, strict=True):
        sizes.update(zip(labels, _known(tensor.shape), strict=True))
    return math.prod(sizes.values())


def _known(shape):
    if not shape.is_fully_defined():
        raise ValueError(f"Operations can be counted where all shapes are known. Received: a tensor of shape {shape}")
    return tuple(shape)


COUNTS = {
    "MatMul": lambda op: _matrix_product(op, "transpose_a"),
    "BatchMatMulV2": lambda op: _matrix_product(op, "adj_x"),
    "Conv2D": _convolution,
    "Einsum": _einsum,
}

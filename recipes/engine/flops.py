"""Operations of a model, counted in its graph."""

import math

import tensorflow as tf


def count_flops(call):
    """Returns the floating-point operations of products of matrices and convolutions: two for each multiplication.

    `call` is a function of no arguments that computes outputs of inputs of known shapes, of one example say. If its
    graph has a loop, the result is `None`.

    >>> count_flops(lambda: tf.ones((1, 3)) @ tf.ones((3, 5)))
    30
    """
    operations = list(_operations(tf.function(call, autograph=False).get_concrete_function().graph))
    has_loop = any(operation.type.endswith("While") for operation in operations)
    return None if has_loop else sum(map(_flops, operations))


def _operations(graph):
    """Yields the operations of a graph, with those of the functions that it calls."""
    for operation in graph.get_operations():
        yield operation
        if operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            yield from _operations(graph._get_function(operation.get_attr("f").name).graph)


def _flops(operation):
    shapes = [tensor.shape for tensor in operation.inputs]
    if operation.type in ("MatMul", "BatchMatMulV2"):
        transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        return 2 * math.prod(operation.outputs[0].shape) * shapes[0][-2 if transposed else -1]
    if operation.type == "Einsum":
        letters = operation.get_attr("equation").decode().partition("->")[0].replace(",", "")
        sizes = dict(zip(letters, [size for shape in shapes for size in shape], strict=True))
        return 2 * math.prod(sizes.values())
    if operation.type == "Conv2D":
        return 2 * math.prod(operation.outputs[0].shape) * math.prod(shapes[1][:-1])
    return 0

"""Recomputation in the backward pass, on every backend."""

import keras
from keras import ops


def map_chunks(function, sliced, shared, dtype):
    """Stacks `function(*(x[i] for x in sliced), *shared)` of each i, and keeps none of its intermediates.

    The backward pass runs the function again, a slice at a time. Gradients of `shared` are summed in their dtype.

    Args:
        function: makes a tensor of tensors, and depends on nothing else that has a gradient.
        sliced: list of tensors `(count, ...)`.
        shared: list of tensors.
        dtype: of the result.

    Returns:
        Tensor `(count, ...)`.
    """
    if keras.backend.backend() == "tensorflow":
        return _map_in_tensorflow(function, sliced, shared, dtype)
    return ops.map(lambda slices: keras.remat(function)(*slices, *shared), tuple(sliced))


def _map_in_tensorflow(function, sliced, shared, dtype):
    # `keras.ops.map` keeps ten slices at once, and `keras.remat` knows no tensors from outside the loop.
    import tensorflow as tf

    @tf.custom_gradient
    def whole(*tensors):
        sliced, shared = tensors[:number], tensors[number:]
        output = tf.map_fn(
            lambda slices: function(*slices, *shared), sliced, fn_output_signature=dtype, parallel_iterations=1
        )
        return output, lambda upstream: _gradients(tf, function, sliced, shared, upstream)

    number = len(sliced)
    return whole(*map(tf.convert_to_tensor, (*sliced, *shared)))  # values of variables, not variables


def _gradients(tf, function, sliced, shared, upstream):
    """Gradients of all tensors of `sliced` and `shared`; `None` of integers and booleans."""
    count = tf.shape(upstream)[0] if upstream.shape[0] is None else upstream.shape[0]
    rows, sums = ([x for x in tensors if x.dtype.is_floating] for tensors in (sliced, shared))

    def add(i, arrays, totals):
        slices = [x[i] for x in sliced]
        watched = [x for x in (*slices, *shared) if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            output = function(*slices, *shared)
        found = tape.gradient(output, watched, upstream[i], unconnected_gradients="zero")
        of_slices, of_shared = found[: len(rows)], found[len(rows) :]
        arrays = [array.write(i, x) for array, x in zip(arrays, of_slices, strict=True)]
        return i + 1, arrays, [total + x for total, x in zip(totals, of_shared, strict=True)]

    start = [tf.TensorArray(x.dtype, count, element_shape=x.shape[1:]) for x in rows], [tf.zeros_like(x) for x in sums]
    _, arrays, totals = tf.while_loop(
        lambda i, *_: i < count, add, (0, *start), parallel_iterations=1, maximum_iterations=count
    )
    found = iter([*(array.stack() for array in arrays), *totals])
    return [next(found) if x.dtype.is_floating else None for x in (*sliced, *shared)]

"""Recomputation in the backward pass, on every backend."""

import contextlib

import keras
from keras import ops, tree

from keras_headattn._private import autocast_scope


def chunk_sizes(length, size):
    """Returns the size of chunks of at most `size`, and how many cover a length, an integer or a scalar tensor.

    There is one of padding if the length is 0.
    """
    if isinstance(length, int):
        size = max(min(size, length), 1)
        return size, max(-(-length // size), 1)
    size = ops.maximum(ops.minimum(size, length), 1)
    return size, ops.maximum(-(-length // size), 1)


def map_chunks(segments, sliced, shared, dtype):
    """Stacks `function(*(x[i] for x in sliced), *shared)` over i without keeping its intermediates.

    The backward pass runs the functions again, one slice at a time. Gradients of `shared` are summed in float32 or
    more.

    Args:
        segments: list of `(function, first, last)` in the order of slices: the function of slices `first` to
            `last - 1`. It takes tensors and returns one; it depends on nothing else that has a gradient.
        sliced: list of tensors `(count, ...)`.
        shared: list of tensors.
        dtype: of the result.

    Returns:
        Tensor `(count, ...)`.
    """
    num_sliced, dtypes = len(sliced), [x.dtype for x in shared]

    def narrowed(function):
        return lambda *tensors: function(*tensors[:num_sliced], *map(ops.cast, tensors[num_sliced:], dtypes))

    segments = [(narrowed(function), first, last) for function, first, last in segments]
    shared = [_widened(ops.convert_to_tensor(x)) for x in shared]  # values, not variables
    if keras.backend.backend() == "tensorflow":
        return _map_in_tensorflow(segments, sliced, shared, dtype)
    outputs = []
    for function, first, last in segments:
        run = keras.remat(function)
        outputs.append(ops.map(lambda slices: run(*slices, *shared), tuple(x[first:last] for x in sliced)))  # noqa: B023
    return ops.concatenate(outputs) if len(outputs) > 1 else outputs[0]


def _widened(x):
    return ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) in ("float16", "bfloat16") else x


def _map_in_tensorflow(segments, sliced, shared, dtype):
    # `keras.ops.map` runs ten slices at once, and `keras.remat` does not see tensors from outside the loop.
    import tensorflow as tf

    @tf.custom_gradient
    def whole(*tensors):
        sliced, shared = tensors[:num_sliced], tensors[num_sliced:]

        def write(function, i, array):
            return array.write(i, function(*(x[i] for x in sliced), *shared))

        output = _loops(tf, segments, write, tf.TensorArray(dtype, segments[-1][-1])).stack()
        return output, lambda upstream: _gradients(tf, segments, sliced, shared, upstream)

    num_sliced = len(sliced)
    return whole(*map(tf.convert_to_tensor, (*sliced, *shared)))


def _loops(tf, segments, step, state):
    """Returns `state = step(function, i, state)` after all slices, in one loop a segment.

    A loop takes its first index from the loop before it: loops that can start at once all hold tensors at once. The
    last segments, whose tensors are largest, come first.
    """
    i = end = 0
    for function, first, last in reversed(segments):
        i, state = tf.while_loop(
            lambda i, _: i < last,  # noqa: B023
            lambda i, state: (i + 1, step(function, i, state)),  # noqa: B023
            (i + first - end, state),
            parallel_iterations=1,
            maximum_iterations=last - first,
        )
        end = last
    return state


def _gradients(tf, segments, sliced, shared, upstream):
    """Returns the gradients of all tensors of `sliced` and `shared`, `None` for integers and booleans."""
    rows, sums = ([x for x in tensors if x.dtype.is_floating] for tensors in (sliced, shared))

    def add(function, i, state):
        arrays, totals = state
        gradients = _float_gradients(tf, function, [*(x[i] for x in sliced), *shared], [upstream[i]])
        of_slices, of_shared = gradients[: len(rows)], gradients[len(rows) :]
        arrays = [array.write(i, x) for array, x in zip(arrays, of_slices, strict=True)]
        return arrays, [total + x for total, x in zip(totals, of_shared, strict=True)]

    count = segments[-1][-1]
    start = [tf.TensorArray(x.dtype, count, element_shape=x.shape[1:]) for x in rows], [tf.zeros_like(x) for x in sums]
    arrays, totals = _loops(tf, segments, add, start)
    gradients = iter([*(array.stack() for array in arrays), *totals])
    return [next(gradients) if x.dtype.is_floating else None for x in (*sliced, *shared)]


def _float_gradients(tf, function, tensors, upstream):
    """Returns the gradients of those of `tensors` that are floats, from those of the outputs of `function`."""
    watched = [x for x in tensors if x.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = tf.nest.flatten(function(*tensors))
    pairs = [(y, dy) for y, dy in zip(outputs, upstream, strict=True) if y.dtype.is_floating]
    outputs, upstream = map(list, zip(*pairs, strict=True))
    return tape.gradient(outputs, watched, upstream, unconnected_gradients="zero")


def after(x):
    """Delays operations of a TensorFlow graph until `x` is computed, so that few tensors are in memory at once."""
    if keras.backend.backend() != "tensorflow":
        return contextlib.nullcontext()
    import tensorflow as tf

    return tf.control_dependencies([x])


def recompute(layer, function, inputs):
    """Calls `function(inputs)`, a part of a layer's `call`, without keeping its intermediates.

    The backward pass runs it again, with the same random numbers.

    Args:
        layer: owns all variables that `function` uses, and receives the losses that it adds.
        function: takes a structure of tensors and returns one.
        inputs: structure of tensors and `None`.
    """
    tensors = _tensors(inputs)
    variables, states = layer.variables, layer.non_trainable_variables
    precision = autocast_scope()
    made = {}  # structure of the results, known after the function has run

    def pure(*values):
        packed = _packed(inputs, values)
        state = zip(variables, values[len(tensors) :], strict=True)
        with precision, keras.StatelessScope(state, collect_losses=True) as scope:
            outputs = function(packed)
        results = outputs, scope.losses, [scope.get_current_value(variable) for variable in states]
        made["results"] = results
        return tuple(_tensors(results))

    run = _recompute_in_tensorflow if keras.backend.backend() == "tensorflow" else keras.remat
    values = run(pure)(*tensors, *map(ops.convert_to_tensor, variables))
    outputs, losses, updated = _packed(made["results"], values)
    for loss in losses:
        layer.add_loss(loss)
    for variable, value in zip(states, updated, strict=True):
        variable.assign(value)
    return outputs


def _tensors(structure):
    return [x for x in tree.flatten(structure) if x is not None]


def _packed(structure, values):
    """Returns the structure with its tensors replaced by the first of `values`."""
    # `map_structure` takes the entries of a dictionary in another order than `flatten` on PyTorch.
    values = iter(values)
    return tree.pack_sequence_as(structure, [None if x is None else next(values) for x in tree.flatten(structure)])


def _recompute_in_tensorflow(function):
    # `keras.remat` adds numbers to booleans, too.
    import tensorflow as tf

    @tf.custom_gradient
    def whole(*tensors):
        def gradient(*upstream):
            # With the same inputs, XLA and Grappler would reuse the first results.
            nothing = 0 * tf.cast(tf.reduce_sum(tf.reshape(upstream[0], [-1])[:1]), "float32")
            again = [x + tf.cast(nothing, x.dtype) if x.dtype.is_floating else x for x in tensors]
            gradients = iter(_float_gradients(tf, function, again, upstream))
            return [next(gradients) if x.dtype.is_floating else None for x in tensors]

        return function(*tensors), gradient

    return lambda *tensors: whole(*map(tf.convert_to_tensor, tensors))

from typing import Any

from keras import ops

from keras_headattn._recompute import map_chunks
from keras_headattn._types import Tensor
from keras_headattn._validation import check_number, check_positive


def linear_crossentropy(
    states: Tensor,
    kernel: Tensor,
    labels: Tensor,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
    chunk_size: int = 1024,
) -> tuple[Tensor, Tensor]:
    """Computes the cross-entropy of an output layer without all of its logits in memory.

    Multiplies a chunk of states at a time, and again in the backward pass. The results are those of
    `losses.LabelSmoothedCrossentropy` and of an accuracy.

    Args:
        states: `(..., D)`.
        kernel: `(D, V)`, of the same dtype.
        labels: integers `(...)`. Those outside the vocabulary, such as -100, need a weight of 0.
        bias: `(V,)`, perhaps in more bits. Default: none.
        label_smoothing: at least 0 and below 1.
        chunk_size: number of states; `chunk_size * V` logits are in memory.

    Returns:
        Losses `(...)` in nats, float32; and booleans `(...)`: True where the label is the likeliest class, the first of
        several.

    >>> states, kernel = np.ones((2, 5, 4), "float32"), np.eye(4, 30, dtype="float32")
    >>> losses, is_right = linear_crossentropy(states, kernel, np.zeros((2, 5), "int32"), chunk_size=3)
    >>> tuple(losses.shape), round(float(losses[0, 0]), 4), bool(is_right[0, 0])
    ((2, 5), 2.6075, True)
    """
    check_number("label_smoothing", label_smoothing, least=0, below=1)
    check_positive("chunk_size", chunk_size)

    def measure(logits, labels):
        return smoothed_crossentropy(labels, logits, label_smoothing), is_likeliest(labels, logits)

    losses, is_right = map_logits(measure, states, kernel, bias, [labels], chunk_size)
    return losses, is_right > 0


def map_logits(
    function: Any, states: Tensor, kernel: Tensor, bias: Tensor | None, rows: list[Tensor], chunk_size: int
) -> list[Tensor]:
    """Computes functions of logits, `chunk_size` rows of which are in memory.

    Args:
        function: takes float32 logits `(c, V)` and c of each of `rows`, and returns tensors `(c,)`, without a gradient
            if they are not floats.
        states, kernel, bias: as in `linear_crossentropy`.
        rows: tensors `(...)`.
        chunk_size: as in `linear_crossentropy`.

    Returns:
        List of float32 tensors `(...)`.
    """
    shape = ops.shape(states)
    rows = [ops.reshape(states, (-1, shape[-1])), *(ops.reshape(x, (-1,)) for x in rows)]
    count, length = ops.shape(rows[0])[0], rows[0].shape[0]
    if length is None:
        chunk_size = ops.maximum(ops.minimum(chunk_size, count), 1)
        number = ops.maximum(-(-count // chunk_size), 1)
    else:
        chunk_size = max(min(chunk_size, length), 1)
        number = max(-(-length // chunk_size), 1)

    def chunk(states, *tensors):
        tensors = list(tensors)
        bias = tensors.pop() if has_bias else None
        kernel = tensors.pop()
        return ops.stack([ops.cast(x, "float32") for x in function(project(states, kernel, bias), *tensors)])

    has_bias = bias is not None
    sliced = [_chunks(x, chunk_size, number) for x in rows]
    results = map_chunks(chunk, sliced, [kernel, bias] if has_bias else [kernel], "float32")  # (number, k, size)
    results = ops.reshape(ops.moveaxis(results, 1, 0), (results.shape[1], -1))[:, :count]
    return [ops.reshape(result, shape[:-1]) for result in ops.unstack(results)]


def project(states, kernel, bias=None):
    """Computes logits `(..., V)`, in float32."""
    logits = ops.matmul(states, kernel)
    return ops.cast(logits if bias is None else logits + bias, "float32")


def _chunks(x, size, number):
    missing = ops.zeros((size * number - ops.shape(x)[0], *x.shape[1:]), x.dtype)
    return ops.reshape(ops.concatenate([x, missing]), (number, size, *x.shape[1:]))


def is_likeliest(labels, logits):
    """Returns where a label `(...)` is the first class with the largest of the logits `(..., V)`."""
    # `argmax` takes eight times as long on TensorFlow.
    is_largest = ops.equal(logits, ops.max(logits, axis=-1, keepdims=True))
    size = logits.shape[-1]
    return ops.equal(labels, ops.min(ops.where(is_largest, ops.arange(size, dtype="int32"), size), axis=-1))


def smoothed_crossentropy(labels, logits, smoothing):
    """Computes cross-entropy and its gradient from one softmax: each pass over the logits, a model's largest tensor,
    counts.
    """
    size = ops.shape(logits)[-1]

    @ops.custom_gradient
    def crossentropy(logits, labels):
        probabilities = ops.softmax(logits)
        log_sum = ops.max(logits, axis=-1) - ops.log(ops.max(probabilities, axis=-1))
        classes = ops.cast(labels, "int32")[..., None]
        known = ops.clip(classes, 0, size - 1)  # labels such as -100 come with weight 0
        loss = log_sum - (1 - smoothing) * ops.take_along_axis(logits, known, axis=-1)[..., 0]
        if smoothing:
            loss = loss - smoothing * ops.mean(logits, axis=-1)

        def gradient(*args, upstream=None):
            upstream = (args[0] if upstream is None else upstream)[..., None]
            share = smoothing / ops.cast(size, logits.dtype) if smoothing else 0.0
            smooth = (probabilities - share) * upstream
            is_label = ops.equal(classes, ops.arange(size, dtype="int32"))
            return ops.where(is_label, smooth - (1 - smoothing) * upstream, smooth), ops.zeros_like(labels)

        return loss, gradient

    return crossentropy(logits, ops.cast(labels, "float32"))  # JAX: an argument, with a gradient

import numbers

import numpy as np

from keras_headattn._validation import positive


def max_num_heads(model_dim, lengths):
    """The largest number of heads without a low-rank bottleneck, h_max = model_dim / mean length.

    Source: Zhang et al. 2022, "Interacting-head attention", eq. 13.

    Args:
        model_dim: width of the model.
        lengths: mean length of the training sequences in tokens, or any iterable (a data set, a
            list) of sequences or of their lengths, read once. No batches, and one side of a data set of pairs.

    Returns:
        `(h_max, proposals)`: h_max rounded down, at least 1, and the powers of two from 2 to h_max that
        divide `model_dim`, the paper's table 2.

    Raises:
        ValueError: for an empty data set, one of batches or pairs, or a width or mean length that is not positive.

    >>> max_num_heads(512, 20)
    (25, [2, 4, 8, 16])
    >>> max_num_heads(512, [[5, 6, 7], [8]])[0]
    256
    """
    positive("model_dim", model_dim)
    mean = float(lengths) if isinstance(lengths, numbers.Real) else _mean_length(lengths)
    if not mean > 0:
        raise ValueError(f"The mean length must be positive. Received: {mean}")
    highest = max(1, int(model_dim / mean))
    powers = [2**i for i in range(1, highest.bit_length())]
    return highest, [heads for heads in powers if model_dim % heads == 0]


def _mean_length(lengths):
    total = count = 0
    for item in lengths:
        total += _length(item)
        count += 1
    if not count:
        raise ValueError("`lengths` must hold at least one sequence. Received: an empty iterable")
    return total / count


def _length(item):
    if isinstance(item, (tuple, dict)):
        raise ValueError(
            f"`lengths` must be one side of a data set of pairs. Received: an item of type {type(item).__name__}"
        )
    if isinstance(item, list):
        rank = np.ndim(item[:1])  # lists in a list may differ in length
    else:
        rank = len(item.shape) if hasattr(item, "shape") else np.ndim(item)
    if rank > 1:
        raise ValueError(
            "`lengths` must hold single sequences, or their lengths: unbatch the data set. "
            f"Received: an item with {rank} axes"
        )
    return len(item) if rank else float(item)

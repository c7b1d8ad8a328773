"""How far apart the heads of a layer are."""

import keras
import numpy as np


def head_distance(representations):
    """Mean 2-norm distance between what two heads make of an item, over all items and pairs of heads.

    Source: An et al. 2020, "Repulsive attention", table 1, where it is called Dist.

    Args:
        representations: `(B, h, d)`, such as a sentence classifier's `encode` returns; of at least two heads. The
            distance in a whole data set is the mean of those in batches of one size.

    Returns:
        Float, in the unit of the representations.

    Raises:
        ValueError: if the shape is another.

    >>> head_distance(np.array([[[0, 0], [3, 4]]]))
    5.0
    """
    array = np.asarray(keras.ops.convert_to_numpy(representations), "float64")
    if array.ndim != 3 or array.shape[0] < 1 or array.shape[1] < 2:
        raise ValueError(
            "`representations` must be (batch, heads, width), of at least one item and two heads. "
            f"Received: representations of shape {array.shape}"
        )
    one, other = np.triu_indices(array.shape[1], 1)
    # By item: all differences at once would be as many times larger as there are heads.
    return float(np.mean([np.linalg.norm(heads[one] - heads[other], axis=-1).mean() for heads in array]))

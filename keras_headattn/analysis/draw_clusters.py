"""The clusters of a sentence's tokens, and the semantic mask that they make."""

import keras
import numpy as np

from keras_headattn.analysis.validation import as_posteriors
from keras_headattn.figures import new_figure


def draw_clusters(tokens, posteriors, same=None):
    """Draws which clusters the tokens of a sentence belong to, and beside it the semantic mask.

    The mask says how likely two tokens are of one cluster, relative to the other tokens: rows that sum to 1.

    As figures 5, 12 and 13 of "Disentangled mask attention in Transformer" (anonymous); the mask is its eq. 6.

    Args:
        tokens: list of `n` strings.
        posteriors: probabilities `(n, C)` of the clusters, of one head of one layer. There may be more rows than
            tokens: the rest is padding, and has no part in the mask.
        same: `(n, n)`, at least 0, the probability that two tokens are of one cluster: what rows are to be
            normalised of. Defaults to `posteriors @ posteriors.T`. Here too the rest is padding.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_clusters(["two", "years", "ago"], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    >>> mask = figure.axes[1].get_images()[0].get_array()
    >>> mask[0].round(3).tolist()
    [0.577, 0.183, 0.239]
    """
    length = len(tokens)
    posteriors = as_posteriors(posteriors, tokens, padded=True)
    same = posteriors @ posteriors.T if same is None else np.asarray(keras.ops.convert_to_numpy(same), "float64")
    if same.ndim != 2 or min(same.shape) < length:
        raise ValueError(f"`same` must be ({length}, {length}). Received: same of shape {same.shape}")
    same = same[:length, :length]
    sums = same.sum(-1, keepdims=True)
    if not (np.all(same >= 0) and np.all(sums > 0)):
        raise ValueError(f"`same` must be at least 0, and in no row 0 everywhere. Received: same={same}")
    side = 1 + 0.17 * length
    figure = new_figure(2 * side + 1.5, side + 0.5)
    left, right = figure.subplots(1, 2)
    clusters = posteriors.shape[1]
    titled = (left, posteriors.T, "p(cluster | token)"), (right, same / sums, "semantic mask")
    for axes, picture, title in titled:
        image = axes.imshow(picture, vmin=0, vmax=1 if axes is left else None, cmap="Blues", aspect="auto")
        axes.set_xticks(range(length), tokens, rotation=90, fontsize=7, parse_math=False)
        axes.set_title(title, fontsize=9)
        figure.colorbar(image, ax=axes, shrink=0.8)
    left.set_yticks(range(clusters), range(clusters), fontsize=7)
    left.set_ylabel("cluster")
    right.set_yticks(range(length), tokens, fontsize=7, parse_math=False)
    return figure

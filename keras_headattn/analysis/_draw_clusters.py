"""The clusters of a sentence's tokens, and the semantic mask that they make."""

import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._validation import as_posteriors


def draw_clusters(tokens, posteriors, keys=None):
    """Draws which clusters the tokens of a sentence belong to, and beside it the semantic mask.

    The mask says how likely a token and each of those it may attend to are of one cluster, relative to all of these:
    rows that sum to 1.

    As figures 5, 12 and 13 of "Disentangled mask attention in Transformer" (anonymous); the mask is its eq. 6.

    Args:
        tokens: list of `n` strings.
        posteriors: probabilities `(n, C)` of the clusters, of one head of one layer. There may be more rows than
            tokens: the rest is padding, and has no part in the mask.
        keys: what the tokens attend to, `(tokens, posteriors)` likewise, of cross-attention. Default: the tokens
            themselves.

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
    posteriors = as_posteriors(posteriors, tokens, padded=True)
    key_tokens, of_keys = (tokens, posteriors) if keys is None else keys
    of_keys = as_posteriors(of_keys, key_tokens, padded=True)
    if of_keys.shape[1] != posteriors.shape[1]:
        raise ValueError(
            "Tokens and keys must have the same clusters. "
            f"Received: {posteriors.shape[1]} and {of_keys.shape[1]} of them"
        )
    same = posteriors @ of_keys.T
    mask = same / np.maximum(same.sum(-1, keepdims=True), 1e-30)
    width, height = (1 + 0.17 * len(names) for names in (key_tokens, tokens))
    figure = new_figure(width + height + 1.5, height + 0.5)
    left, right = figure.subplots(1, 2)
    clusters = posteriors.shape[1]
    titled = (left, posteriors.T, tokens, "p(cluster | token)"), (right, mask, key_tokens, "semantic mask")
    for axes, picture, names, title in titled:
        image = axes.imshow(picture, vmin=0, vmax=1 if axes is left else None, cmap="Blues", aspect="auto")
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7, parse_math=False)
        axes.set_title(title, fontsize=9)
        figure.colorbar(image, ax=axes, shrink=0.8)
    left.set_yticks(range(clusters), range(clusters), fontsize=7)
    left.set_ylabel("cluster")
    right.set_yticks(range(len(tokens)), tokens, fontsize=7, parse_math=False)
    return figure

"""Clusters of disentangled mask attention."""

import html
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._figures import Figure, new_figure
from keras_headattn._optional import optional_import
from keras_headattn._validation import check_positive
from keras_headattn.analysis._validation import as_posteriors, check_named


def cluster_tokens(
    posteriors: ArrayLike, tokens: Sequence[str], top: int = 15, leave_out: Collection[str] | None = None
) -> list[dict[str, float]]:
    """Returns the tokens that are expected most often in each cluster.

    Tokens are ranked by the sum of their posteriors over all occurrences. Like figures 4 and 11 of "Disentangled mask
    attention in Transformer" (anonymous), which does not state its ranking.

    Args:
        posteriors: cluster probabilities `(N, C)` of N token occurrences, of one head of one layer, without padding.
        tokens: the N tokens.
        top: number of tokens per cluster.
        leave_out: words to skip, compared in lower case and without SentencePiece's "▁" or "_". Default `None`:
            scikit-learn's English stop words (ImportError without it). Punctuation (also "&apos;") and tokens like
            "</s>" are always skipped.

    Returns:
        List of C dictionaries from token to summed posterior, largest first.

    >>> posteriors = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.9]]
    >>> first, second = cluster_tokens(posteriors, ["▁year", "▁ran", "▁year", "."], leave_out=[])
    >>> {token: round(total, 6) for token, total in first.items()}
    {'▁year': 1.6, '▁ran': 0.2}
    """
    posteriors = as_posteriors(posteriors, tokens)
    check_positive("top", top)
    if isinstance(leave_out, str):
        raise ValueError(f"`leave_out` must be a collection of words. Received: leave_out={leave_out!r}")
    if leave_out is None:
        leave_out = optional_import("sklearn.feature_extraction.text", "recipes").ENGLISH_STOP_WORDS
    unwanted = {_word(token) for token in leave_out}
    words, places = np.unique(np.asarray(tokens), return_inverse=True)
    totals = np.zeros((len(words), posteriors.shape[1]))
    np.add.at(totals, places, posteriors)
    kept = [_is_word(word) and _word(word) not in unwanted for word in words.tolist()]
    words, totals = words[kept], totals[kept]
    order = np.argsort(-totals, axis=0, kind="stable")[:top]
    return [dict(zip(words[rows].tolist(), totals[rows, c].tolist(), strict=True)) for c, rows in enumerate(order.T)]


def _word(token):
    return html.unescape(token).lower().strip("▁_")


def _is_word(token):
    return any(map(str.isalnum, html.unescape(token))) and not (token.startswith("<") and token.endswith(">"))


def draw_cluster_tokens(tokens: Mapping[str, float], title: str = "The tokens that a cluster has most of") -> Figure:
    """Draws the expected occurrences of a cluster's top tokens as bars.

    Like figures 4 and 11 of "Disentangled mask attention in Transformer" (anonymous). Needs matplotlib.

    Args:
        tokens: dictionary from token to summed posterior, see `cluster_tokens`.
        title: title of the figure.

    >>> figure = draw_cluster_tokens({"▁year": 1.6, "▁time": 0.2}, "cluster 1")
    >>> len(figure.axes[0].patches)
    2
    """
    check_named("tokens", tokens)
    figure = new_figure(max(4, 1.8 + 0.28 * len(tokens)), 3, title)
    axes = figure.add_subplot()
    axes.bar(range(len(tokens)), tokens.values(), color="tab:blue")
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=8, parse_math=False)
    axes.set(xlabel="token", ylabel="expected occurrences")
    return figure


def draw_clusters(
    tokens: Sequence[str],
    posteriors: ArrayLike,
    keys: tuple[Sequence[str], ArrayLike] | None = None,
    title: str = "Clusters of tokens, and the mask they make",
) -> Figure:
    """Draws the clusters of a sentence's tokens beside the semantic mask.

    Each row of the mask sums to 1: the relative probability that query and key are in the same cluster. Like figures 5,
    12 and 13 of "Disentangled mask attention in Transformer" (anonymous); the mask is its eq. 6. Needs matplotlib.

    Args:
        tokens: the `n` tokens.
        posteriors: cluster probabilities `(n, C)`, of one head of one layer. Further rows are padding and not drawn.
        keys: `(tokens, posteriors)` of the keys in cross-attention. Default `None`: the tokens themselves.
        title: title of the figure.

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
            "`keys` must have as many clusters as `posteriors`. "
            f"Received: {of_keys.shape[1]} and {posteriors.shape[1]} of them"
        )
    same = posteriors @ of_keys.T
    mask = same / np.maximum(same.sum(-1, keepdims=True), 1e-30)
    width, height = (1.3 + 0.17 * len(names) for names in (key_tokens, tokens))
    figure = new_figure(width + height + 2.5, height + 0.9, title)
    left, right = figure.subplots(1, 2, width_ratios=(height, width))
    clusters = posteriors.shape[1]
    titled = (left, posteriors.T, tokens, "clusters"), (right, mask, key_tokens, "semantic mask")
    labels = {left: "p(cluster | token)", right: "share of a row"}
    for axes, picture, names, name in titled:
        image = axes.imshow(picture, vmin=0, vmax=1 if axes is left else None, cmap="Blues", aspect="auto")
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7, parse_math=False)
        axes.set_title(name, fontsize=9)
        figure.colorbar(image, ax=axes, shrink=0.8, label=labels[axes])
    left.set_xlabel("token", fontsize=8)
    right.set_xlabel("key: is attended to", fontsize=8)
    right.set_ylabel("query: attends", fontsize=8)
    left.set_yticks(range(clusters), range(1, clusters + 1), fontsize=7)
    left.set_ylabel("cluster")
    right.set_yticks(range(len(tokens)), tokens, fontsize=7, parse_math=False)
    return figure

"""The tokens of one cluster, as bars."""

from keras_headattn._figures import new_figure
from keras_headattn.analysis._validation import check_named


def draw_cluster_tokens(tokens, title=None):
    """Draws how often each of a cluster's top tokens is expected in it, a bar for each token.

    As figures 4 and 11 of "Disentangled mask attention in Transformer" (anonymous).

    Args:
        tokens: one of the dictionaries that `cluster_tokens` returns, of tokens to the sum of their posteriors.
        title: str, such as which cluster it is. Defaults to none.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_cluster_tokens({"▁year": 1.6, "▁time": 0.2}, "cluster 0")
    >>> len(figure.axes[0].patches)
    2
    """
    check_named("tokens", tokens)
    figure = new_figure(1.8 + 0.28 * len(tokens), 3)
    axes = figure.add_subplot()
    axes.bar(range(len(tokens)), tokens.values(), color="tab:blue")
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=8, parse_math=False)
    axes.set_ylabel("expected occurrences")
    if title is not None:
        axes.set_title(title, fontsize=9)
    return figure

"""Which tokens a cluster is made of."""

import html

import numpy as np

from keras_headattn.analysis._validation import as_posteriors


def cluster_tokens(posteriors, tokens, top=15, leave_out=None):
    """The tokens that most of each cluster is made of.

    Tokens are ranked by the sum of their posteriors over all their occurrences: how many occurrences of the token are
    expected in the cluster. The source does not say what it ranks by. A mean instead of the sum would put tokens first
    that occur once.

    As figures 4 and 11 of "Disentangled mask attention in Transformer" (anonymous).

    Args:
        posteriors: probabilities `(N, C)` of the clusters of N occurrences of tokens, of one head of one layer.
        tokens: list of the N tokens, strings. Leave out padding beforehand.
        top: number of tokens to return of each cluster.
        leave_out: collection of words not to return. A token is compared with them in lower case and without the "▁" in
            which SentencePiece writes a space, or "_". Defaults to the English stop words of scikit-learn. Tokens
            without any letter or digit, such as punctuation, written as "&apos;" too, and those in angle brackets, such
            as "</s>", are never returned.

    Returns:
        List of the C clusters, each a dictionary of at most `top` tokens to the sum of their posteriors, largest first.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if scikit-learn is not installed and `leave_out` not given.

    >>> posteriors = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.9]]
    >>> first, second = cluster_tokens(posteriors, ["▁year", "▁ran", "▁year", "."], leave_out=[])
    >>> {token: round(total, 6) for token, total in first.items()}
    {'▁year': 1.6, '▁ran': 0.2}
    """
    posteriors = as_posteriors(posteriors, tokens)
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise ValueError(f"`top` must be a positive integer. Received: top={top}")
    if isinstance(leave_out, str):
        raise ValueError(f"`leave_out` must be a collection of words. Received: leave_out={leave_out!r}")
    unwanted = {_word(token) for token in (_stop_words() if leave_out is None else leave_out)}
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


def _stop_words():
    try:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
    except ImportError as error:
        raise ImportError('Install scikit-learn: pip install "keras_headattn[recipes]"') from error
    return ENGLISH_STOP_WORDS

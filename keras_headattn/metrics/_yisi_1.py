import math
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._files import Path
from keras_headattn._optional import optional_import
from keras_headattn.metrics._score import Score, mean_score
from keras_headattn.metrics._sentences import check_sentences, words
from keras_headattn.metrics._word_vectors import read_word_vectors


def yisi_1(
    hypotheses: Sequence[str],
    references: Sequence[str],
    embed: Callable[[list[str]], ArrayLike] | Path,
    idf_from: Sequence[str] | None = None,
    tokenize: Callable[[str], list[str]] = words,
    ngram_size: int = 1,
    alpha: float = 0.8,
) -> Score:
    """Computes YiSi-1 without semantic roles, in percent: the similarity of each word's best match.

    With `w(t) = log(1 + (N + 1) / (N_t + 1))` for a token in `N_t` of `N` sentences, and the cosine `s` of two tokens,

        precision = sum_h w(h) max_r s(h, r) / sum_h w(h)
        recall = sum_r w(r) max_h s(h, r) / sum_r w(r)
        YiSi-1 = precision * recall / (alpha * precision + (1 - alpha) * recall),

    averaged over sentences; an empty sentence scores 0. For n-grams, `w` is the sum and `s` the weighted mean over
    their tokens. A negative cosine counts as 0. A token with a zero vector, such as an unknown word, matches only
    itself.

    Source: Lo 2019, "YiSi: a unified semantic MT quality evaluation and estimation metric for languages with different
    levels of available resources", and the public code, which uses `ngram_size=3` with word2vec.

    Args:
        hypotheses, references: see `bleu`, also for errors; a single reference for each hypothesis.
        embed: function from the n tokens of a sentence to `(n, d)`, such as a BERT; or path of a GloVe or word2vec
            file.
        idf_from: sentences for the weights. Default `None`: the references.
        tokenize: function from str to list of str; use the tokenizer of `embed`.
        ngram_size: length of the n-grams.
        alpha: weight from 0 (precision alone) to 1 (recall alone).

    Raises:
        ValueError: if `embed` does not return a finite vector for every token.
        ImportError: if tqdm is missing.

    >>> def embed(tokens):
    ...     return np.array([[1.0, 0.0] if token in ("dog", "hound") else [0.0, 1.0] for token in tokens])
    >>> yisi_1(["the hound"], ["the dog"], embed).value
    100.0
    """
    hypotheses, references = check_sentences(hypotheses=hypotheses, references=references)
    if ngram_size < 1 or not 0 <= alpha <= 1:
        raise ValueError(
            f"`ngram_size` must be at least 1 and `alpha` from 0 to 1. Received: ngram_size={ngram_size}, alpha={alpha}"
        )
    corpus = references if idf_from is None else check_sentences(idf_from=idf_from)[0]
    weight = _weights([set(tokenize(sentence)) for sentence in corpus])
    pairs = list(zip(map(tokenize, hypotheses), map(tokenize, references), strict=True))
    if isinstance(embed, str | os.PathLike):
        name, embed = pathlib.Path(embed).name, _embed_by_file(embed, pairs)
    else:
        name = getattr(embed, "__name__", type(embed).__name__)
    scores = [
        _score(pair, embed, weight, ngram_size, alpha)
        for pair in optional_import("tqdm", "metrics").tqdm(pairs, desc="YiSi-1", delay=5, disable=None)
    ]
    tokens = "unicode-words" if tokenize is words else getattr(tokenize, "__name__", type(tokenize).__name__)
    idf = "references" if idf_from is None else f"{len(corpus)}-sentences"
    signature = f"embed:{name}|tok:{tokens}|idf:{idf}|n:{ngram_size}|alpha:{alpha}"
    return mean_score("YiSi-1", scores, signature)


def _weights(sentences):
    frequency = Counter(token for sentence in sentences for token in sentence)
    return lambda token: math.log(1 + (len(sentences) + 1) / (frequency[token] + 1))


def _embed_by_file(path, pairs):
    vectors = read_word_vectors(path, {token for pair in pairs for tokens in pair for token in tokens})
    unknown = np.zeros_like(next(iter(vectors.values())))
    return lambda tokens: np.stack([vectors.get(token, unknown) for token in tokens])


def _score(pair, embed, weight, ngram_size, alpha):
    if not all(pair):
        return 0.0
    similarity = _similarity(pair, [_unit_vectors(embed, tokens) for tokens in pair])
    of_hypothesis, of_reference = (np.array([weight(token) for token in tokens]) for tokens in pair)
    size = min(ngram_size, *similarity.shape)
    precision = _coverage(similarity, of_hypothesis, size)
    recall = _coverage(similarity.T, of_reference, size)
    if precision == 0 or recall == 0:
        return 0.0
    return precision * recall / (alpha * precision + (1 - alpha) * recall)


def _unit_vectors(embed, tokens):
    vectors = np.asarray(embed(tokens), "float64")
    if vectors.ndim != 2 or len(vectors) != len(tokens) or not np.isfinite(vectors).all():
        raise ValueError(
            f"`embed` must give {len(tokens)} finite vectors for the tokens {tokens}. "
            f"Received: an array of shape {vectors.shape}, finite: {bool(np.isfinite(vectors).all())}"
        )
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)


def _similarity(pair, vectors):
    """Returns the similarity `(n, m)` of n hypothesis tokens and m reference tokens."""
    hypothesis, reference = vectors
    cosine = np.clip(hypothesis @ reference.T, -1, 1)
    unknown = ~hypothesis.any(axis=1)[:, None] & ~reference.any(axis=1)[None, :]
    equal = np.array(pair[0])[:, None] == np.array(pair[1])[None, :]
    return np.where(unknown & equal, 1.0, cosine)


def _coverage(similarity, weights, size):
    """Returns the weighted mean, over n-grams of the rows, of the similarity of the best n-gram of the columns."""
    rows, columns = (length - size + 1 for length in similarity.shape)
    weighted = weights[:, None] * similarity
    best = sum(weighted[k : k + rows, k : k + columns] for k in range(size)).max(axis=1)
    return np.maximum(best, 0).sum() / sum(weights[k : k + rows] for k in range(size)).sum()

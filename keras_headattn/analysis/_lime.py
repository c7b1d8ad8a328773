from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._validation import check_positive
from keras_headattn.analysis._word_removal import WordRemoval, class_of

KERNEL_WIDTH = 25
FEW = 6  # features that are chosen one after the other


def lime(
    predict: Callable[..., ArrayLike],
    texts: Sequence[str] | Sequence[Sequence[str]],
    second_texts: Sequence[str] | Sequence[Sequence[str]] | None = None,
    classes: ArrayLike | None = None,
    samples: int = 1_000,
    num_features: int | Sequence[int] | None = None,
    seed: int = 0,
    keep_second: bool = False,
    progress: Callable[[int], Any] | None = None,
) -> list[np.ndarray]:
    """Scores words by a linear model of a classifier's probabilities for a text without some of its words.

    Words are removed at random; samples that keep more words weigh more. A word that occurs twice has two scores.
    Source: Ribeiro et al. 2016, "Why should I trust you?", as in the package `lime` 0.2.0.1 with `bow=False`; its
    defaults are 5,000 samples and 10 features.

    Args:
        predict: function from a list of texts (and, for pairs, a list of second texts) to probabilities `(B, C)`, such
            as `Classifier.probabilities`. It gets about 1,000 texts at once.
        texts: list of str, split at white space, or of lists of words; `predict` gets the same type. Truncate long
            texts as the model does.
        second_texts: second texts of pairs, likewise. Default `None`: single texts.
        classes: index of the class to explain for each text. Default `None`: the likeliest.
        num_features: number of words with a score other than 0, or a list of one for each text. Up to 6 are chosen by
            forward selection, more by their coefficients in a model of all words. Default `None`: all.
        samples, seed: number of samples per text, of which the first is the whole text, and their seed.
        keep_second: True to keep second texts whole, without scores.
        progress: function of the number of texts done. Default `None`.

    Returns:
        List of float64 arrays `(n,)`, scores of the words of a text and, for pairs, then of its second text. Words that
        speak against the class have negative scores.

    >>> predict = lambda texts: np.array([[0.9, 0.1] if "bad" in text else [0.5, 0.5] for text in texts])
    >>> [f"{score:.1f}" for score in np.abs(lime(predict, ["a bad film"], samples=200)[0])]
    ['0.0', '0.4', '0.0']
    """
    check_positive("samples", samples)
    removal = WordRemoval(predict, texts, second_texts, keep_second)
    rows = (lime_samples(size, samples, seed=[seed, index]) for index, size in enumerate(removal.sizes))
    scores = []
    for index, (kept, probabilities) in enumerate(removal.probabilities(rows, progress)):
        features = num_features[index] if isinstance(num_features, Sequence) else num_features
        scores.append(fit_lime(kept, probabilities[:, class_of(classes, index, probabilities[0])], features))
    return scores


def lime_samples(size: int, samples: int, seed: int | Sequence[int] = 0) -> np.ndarray:
    """Draws which words each sample keeps: all in the first; in the others a random number of words is removed.

    Args:
        size, samples: numbers of words and samples.
        seed: int or list of ints.

    Returns:
        Booleans `(samples, size)`.

    >>> lime_samples(5, 100).sum(axis=1).tolist()[0], int(lime_samples(5, 100)[1:].sum(axis=1).max())
    (5, 4)
    """
    rng = np.random.default_rng(seed)
    kept = np.ones((samples, size), bool)
    if size:
        removed = rng.integers(1, size + 1, (samples - 1, 1))
        kept[1:] = rng.permuted(np.tile(np.arange(size), (samples - 1, 1)), axis=1) >= removed
    return kept


def fit_lime(kept: ArrayLike, targets: ArrayLike, num_features: int | None = None) -> np.ndarray:
    """Fits LIME's weighted ridge regression.

    Args:
        kept: booleans `(samples, n)`, words kept by each sample.
        targets: floats `(samples,)`, the classifier's probabilities.
        num_features: see `lime`.

    Returns:
        Coefficients of the words, float64 `(n,)`.

    >>> fit_lime([[True, True], [True, False], [False, True]], [1, 0.5, 0.7], num_features=1).round(3).tolist()
    [0.0, 0.109]
    """
    kept, targets = np.asarray(kept, "float64"), np.asarray(targets, "float64")
    if kept.ndim != 2 or targets.shape != kept.shape[:1]:
        raise ValueError(
            f"`kept` must be (samples, words), and `targets` (samples,). Received: {kept.shape} and {targets.shape}"
        )
    if num_features is not None:
        check_positive("num_features", num_features)
    size = kept.shape[1]
    coefficients = np.zeros(size)
    if not size:
        return coefficients
    distances = 100 * (1 - np.sqrt(kept.mean(axis=1)))  # of cosine, from the whole text
    weights = np.exp(-np.square(distances / KERNEL_WIDTH) / 2)
    chosen = np.arange(size)
    if num_features is not None and num_features < size:
        if num_features <= FEW:
            chosen = _forward(kept, targets, weights, num_features)
        else:
            chosen = np.argsort(-np.abs(_ridge(kept, targets, weights, 0.01)), kind="stable")[:num_features]
    coefficients[chosen] = _ridge(kept[:, chosen], targets, weights, 1.0)
    return coefficients


def _centred(kept, targets, weights):
    """Centres both by their weighted means (instead of an intercept) and scales rows by the root of their weight."""
    roots = np.sqrt(weights)
    x, y = (values - np.average(values, axis=0, weights=weights) for values in (kept, targets))
    return x * roots[:, None], y * roots


def _ridge(kept, targets, weights, penalty):
    x, y = _centred(kept, targets, weights)
    if len(x) < x.shape[1]:  # the smaller of the two systems that have the same solution
        return x.T @ np.linalg.solve(x @ x.T + penalty * np.eye(len(x)), y)
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)


def _forward(kept, targets, weights, num_features):
    """Selects words greedily by how much more of the targets they explain."""
    x, y = _centred(kept, targets, weights)
    chosen = []
    for _ in range(num_features):
        squares = np.square(x).sum(axis=0)
        gains = np.divide(np.square(y @ x), squares, out=np.zeros(len(squares)), where=squares > 1e-9)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        best, square = x[:, chosen[-1]], squares[chosen[-1]]
        if square > 1e-9:  # of all that is left, only what is at right angles to it explains more
            unit = best / np.sqrt(square)
            x, y = x - np.outer(unit, unit @ x), y - unit * (unit @ y)
    return chosen

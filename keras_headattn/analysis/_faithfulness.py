"""Faithfulness of rationales."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_headattn.analysis._validation import SUM_TOLERANCE, as_probabilities

AOPC_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


def comprehensiveness(full: ArrayLike, without: ArrayLike, classes: ArrayLike | None = None) -> float:
    """Returns the mean drop in the predicted class's probability without the top-scored words; higher is better.

    Source: DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models", and its public scorer.

    Args:
        full: probabilities `(B, C)` of whole texts.
        without: probabilities `(B, C)` of the texts without these words.
        classes: integers `(B,)`. Default `None`: the likeliest class of each whole text.

    >>> round(comprehensiveness([[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.3, 0.7]]), 6)
    0.25
    """
    return aopc(full, [without], classes)[0]


def sufficiency(full: ArrayLike, only: ArrayLike, classes: ArrayLike | None = None) -> float:
    """Returns the mean drop in the predicted class's probability with the top-scored words alone; lower is better.

    Source: DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models", and its public scorer.

    Args:
        full, classes: see `comprehensiveness`.
        only: probabilities `(B, C)` of these words alone.

    >>> round(sufficiency([[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.2, 0.8]]), 6)
    0.05
    """
    return aopc(full, [only], classes)[0]


def aopc(full: ArrayLike, parts: Sequence[ArrayLike], classes: ArrayLike | None = None) -> tuple[float, list[float]]:
    """Returns comprehensiveness or sufficiency averaged over shares of words (area over the perturbation curve).

    As in the public scorer, the mean is over the shares. The paper's formula divides by one more. Source: DeYoung et
    al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models", and its public scorer.

    Args:
        full, classes: see `comprehensiveness`.
        parts: probabilities `(B, C)` for each share, of the texts without these words or of these words alone. See
            `remove_words`.

    Returns:
        `(mean, values)`: the mean, and the list of values of the shares.

    >>> mean, values = aopc([[0.9, 0.1]], [[[0.8, 0.2]], [[0.5, 0.5]]])
    >>> round(mean, 6), [round(value, 6) for value in values]
    (0.25, [0.1, 0.4])
    """
    full = as_probabilities(full)
    classes = full.argmax(-1) if classes is None else np.asarray(classes)
    if classes.shape != full.shape[:1] or classes.min() < 0 or classes.max() >= full.shape[1]:
        raise ValueError(
            f"`classes` must be {len(full)} numbers from 0 to {full.shape[1] - 1}. Received: classes={classes}"
        )
    if not len(parts):
        raise ValueError("`parts` must have probabilities of at least one number of words. Received: none")
    values = []
    for part in parts:
        part = np.asarray(keras.ops.convert_to_numpy(part), "float64")
        if part.shape != full.shape or np.abs(part.sum(-1) - 1).max() > SUM_TOLERANCE:
            raise ValueError(
                f"`parts` must be probabilities {full.shape}, as `full`, that sum to 1. Received: shape {part.shape}"
            )
        values.append(float(np.mean((full - part)[np.arange(len(full)), classes])))
    return float(np.mean(values)), values


def top_words(scores: ArrayLike, share: float) -> np.ndarray:
    """Marks the words with the highest scores; of equal scores, the earlier ones.

    Args:
        scores: floats `(n,)`.
        share: share of the words, from 0 to 1; their number is rounded up.

    Returns:
        Booleans `(n,)`.

    >>> top_words([0.1, 0.3, 0.3, 0.2], 0.3).tolist()
    [False, True, True, False]
    """
    scores = np.asarray(keras.ops.convert_to_numpy(scores), "float64")
    if scores.ndim != 1 or np.isnan(scores).any():
        raise ValueError(f"`scores` must be numbers, one for each word. Received: scores={scores}")
    if not 0 <= share <= 1:
        raise ValueError(f"`share` must be from 0 to 1. Received: share={share}")
    chosen = np.zeros(len(scores), bool)
    # 0.2 * 15 is a little more than 3.
    chosen[np.argsort(-scores, kind="stable")[: math.ceil(round(share * len(scores), 9))]] = True
    return chosen

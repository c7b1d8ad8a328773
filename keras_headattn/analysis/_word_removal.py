"""Scores of words by their removal from a text."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_headattn.analysis._faithfulness import AOPC_SHARES, top_words

PORTION = 1_000  # texts at once: enough to fill batches of few lengths


class WordRemoval:
    """Texts, or pairs, whose words are removed before a model reads them; arguments as in `lime`."""

    def __init__(self, predict, texts, second_texts=None, keep_second=False):
        sides = [texts] if second_texts is None else [texts, second_texts]
        if any(isinstance(side, str) for side in sides) or len({len(side) for side in sides}) > 1:
            raise ValueError(
                "`texts` must be a list, and `second_texts` one of the same length. "
                f"Received: texts={texts!r:.60}, second_texts={second_texts!r:.60}"
            )
        self.predict = predict
        self.sides = [[text.split() if isinstance(text, str) else list(text) for text in side] for side in sides]
        self.joins = [[isinstance(text, str) for text in side] for side in sides]
        scored = self.sides[:1] if keep_second else self.sides
        self.sizes = [sum(map(len, words)) for words in zip(*scored, strict=True)]  # words that have scores

    def __len__(self):
        return len(self.sizes)

    def probabilities(self, rows, progress=None):
        """Yields the kept words `(k, n)` of each text with the probabilities `(k, C)` of what is left."""
        begun, waiting = 0, []
        for kept in rows:
            kept = np.asarray(kept, bool)
            waiting.append((kept, *_distinct(kept)))
            if sum(len(distinct) for _, distinct, _ in waiting) >= PORTION:
                yield from self._portion(begun, waiting)
                begun, waiting = begun + len(waiting), []
                if progress:
                    progress(begun)
        if waiting:
            yield from self._portion(begun, waiting)
            if progress:
                progress(begun + len(waiting))

    def _portion(self, begun, waiting):
        inputs = [[] for _ in self.sides]
        for index, (_, distinct, _) in enumerate(waiting, begun):
            start = 0
            for side, joins, texts in zip(self.sides, self.joins, inputs, strict=True):
                words, end = side[index], start + len(side[index])
                # A side without scores is kept: there are no columns for it.
                left = (list(itertools.compress(words, row[start:end])) for row in distinct)
                left = [words] * len(distinct) if end > self.sizes[index] else left
                texts += [" ".join(text) if joins[index] else text for text in left]
                start = end
        probabilities = np.asarray(keras.ops.convert_to_numpy(self.predict(*inputs)), "float64")
        if probabilities.ndim != 2 or len(probabilities) != len(inputs[0]):
            raise ValueError(
                f"`predict` must return probabilities ({len(inputs[0])}, classes) for {len(inputs[0])} texts. "
                f"Received: shape {probabilities.shape}"
            )
        ends = np.cumsum([len(distinct) for _, distinct, _ in waiting])
        for (kept, _, inverse), part in zip(waiting, np.split(probabilities, ends[:-1]), strict=True):
            yield kept, part[inverse]


def _distinct(kept):
    """Returns the distinct rows and the index of each row among them: short texts repeat samples."""
    if not kept.size:
        return kept[:1], np.zeros(len(kept), int)
    _, first, inverse = np.unique(np.packbits(kept, axis=1), axis=0, return_index=True, return_inverse=True)
    return kept[first], inverse.reshape(-1)


def class_of(classes, index, probabilities):
    """Returns the class to explain: the given one, or the likeliest."""
    return int(probabilities.argmax() if classes is None else classes[index])


def leave_one_out(
    predict: Callable[..., ArrayLike],
    texts: Sequence[str] | Sequence[Sequence[str]],
    second_texts: Sequence[str] | Sequence[Sequence[str]] | None = None,
    classes: ArrayLike | None = None,
    keep_second: bool = False,
    progress: Callable[[int], Any] | None = None,
) -> list[np.ndarray]:
    """Scores words by how much the probability of a class drops without each of them.

    Args:
        predict, texts, second_texts, classes, keep_second, progress: see `lime`, also for results.

    >>> predict = lambda texts: np.array([[1, 0] if "bad" in text else [0.5, 0.5] for text in texts])
    >>> leave_one_out(predict, ["a bad film"])[0].tolist()
    [0.0, 0.5, 0.0]
    """
    removal = WordRemoval(predict, texts, second_texts, keep_second)
    rows = (np.vstack([np.ones((1, size), bool), ~np.eye(size, dtype=bool)]) for size in removal.sizes)
    scores = []
    for index, (_, probabilities) in enumerate(removal.probabilities(rows, progress)):
        column = probabilities[:, class_of(classes, index, probabilities[0])]
        scores.append(column[0] - column[1:])
    return scores


def random_scores(
    texts: Sequence[str] | Sequence[Sequence[str]],
    second_texts: Sequence[str] | Sequence[Sequence[str]] | None = None,
    seed: int = 0,
    keep_second: bool = False,
) -> list[np.ndarray]:
    """Draws random word scores from [0, 1), as a baseline for other methods.

    Args:
        texts, second_texts, keep_second: see `lime`, also for results.
        seed: random seed. A text's scores do not depend on later texts.

    >>> [scores.shape for scores in random_scores(["a bad film", ""])]
    [(3,), (0,)]
    """
    rng = np.random.default_rng(seed)
    return [rng.random(size) for size in WordRemoval(None, texts, second_texts, keep_second).sizes]


def remove_words(
    predict: Callable[..., ArrayLike],
    texts: Sequence[str] | Sequence[Sequence[str]],
    scores: Sequence[Sequence[float] | np.ndarray],
    second_texts: Sequence[str] | Sequence[Sequence[str]] | None = None,
    shares: Sequence[float] = AOPC_SHARES,
    keep_second: bool = False,
    progress: Callable[[int], Any] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns probabilities of texts without their top-scored words, and of these words alone, for `aopc`.

    Args:
        predict, texts, second_texts, keep_second, progress: see `lime`.
        scores: scores of the words of each text, as `lime` returns them.
        shares: shares of the words, from 0 to 1, see `top_words`.

    Returns:
        `(full, without, only)`: probabilities of whole texts `(B, C)`, of the texts without these words, and of these
        words alone, both `(shares, B, C)`.

    >>> predict = lambda texts: np.array([[0.9, 0.1] if "bad" in text else [0.5, 0.5] for text in texts])
    >>> full, without, only = remove_words(predict, ["a bad film"], [[0, 1, 0]], shares=[0.1])
    >>> full.tolist(), without.tolist(), only.tolist()
    ([[0.9, 0.1]], [[[0.5, 0.5]]], [[[0.9, 0.1]]])
    """
    removal = WordRemoval(predict, texts, second_texts, keep_second)
    received = [len(row) for row in scores]
    if received != removal.sizes or not received:
        index = next((i for i, pair in enumerate(zip(received, removal.sizes, strict=False)) if len({*pair}) > 1), None)
        details = "" if index is None else f"; text {index} has {removal.sizes[index]} words, {received[index]} scores"
        raise ValueError(
            f"`scores` must have a score for each word of each of the texts, at least one. "
            f"Received: scores of {len(received)} texts for {len(removal)}{details}"
        )
    rows = []
    for row in scores:
        top = np.array([top_words(row, share) for share in shares])
        rows.append(np.vstack([np.ones((1, len(row)), bool), ~top, top]))
    probabilities = np.stack([part for _, part in removal.probabilities(rows, progress)], axis=1)
    full, without, only = np.split(probabilities, [1, 1 + len(shares)])
    return full[0], without, only

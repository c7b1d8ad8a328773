"""Accuracy of classes, and plausibility of rationales: agreement of scores of words with those that people marked."""

import math

import keras
import numpy as np

from keras_headattn._optional import optional_import


def performance(labels, predicted):
    """Measures accuracy and the mean F1 of the classes that occur.

    >>> performance([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    {'accuracy': 0.6666666666666666, 'f1_macro': 0.6666666666666666}
    """
    labels, chosen = np.asarray(labels), np.asarray(predicted).argmax(-1)
    values = []
    for name in np.union1d(labels, chosen):
        hits = np.sum((labels == name) & (chosen == name))
        values.append(2 * hits / (np.sum(labels == name) + np.sum(chosen == name)))
    return {"accuracy": float(np.mean(labels == chosen)), "f1_macro": float(np.mean(values))}


def iou_f1(predicted, truth, threshold=0.5):
    """F1 of spans of words, where a span counts as found if it overlaps a true one enough; 0 if nothing is found.

    A predicted span counts if its best intersection over union with a true span of its document reaches the threshold.
    The F1 is that of the mean precision over documents with predictions and the mean recall over documents with true
    spans. Recall counts predicted spans, too, so several that overlap the same true one can take it above 1.

    Source: DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models", and its public scorer.

    Args:
        predicted, truth: a list for each document of its spans, `(start, end)` in words, end exclusive. Spans that are
            given twice count once.
        threshold: the least intersection over union.

    >>> round(iou_f1([[(0, 4), (8, 9)], [(2, 4)]], [[(0, 5)], [(2, 4)]]), 4)
    0.8571
    """
    predicted, truth = _as_spans(predicted, truth)
    precisions, recalls = [], []
    for guess, true in zip(predicted, truth, strict=True):
        hits = sum(max((_iou(span, other) for other in true), default=0) >= threshold for span in guess)
        if guess:
            precisions.append(hits / len(guess))
        if true:
            recalls.append(hits / len(true))
    return _f1(_mean(precisions), _mean(recalls))


def token_f1(predicted, truth):
    """Returns the mean over documents of the F1 of the words in their spans, which are as of `iou_f1`.

    Documents with neither true nor predicted spans do not count.

    >>> round(token_f1([[(0, 4)], [(2, 4)], []], [[(0, 5)], [(0, 2)], []]), 4)
    0.4444
    """
    values = []
    for guess, true in zip(*_as_spans(predicted, truth), strict=True):
        guess, true = ({word for span in spans for word in range(*span)} for spans in (guess, true))
        if guess or true:
            both = len(guess & true)
            values.append(_f1(both / max(len(guess), 1), both / max(len(true), 1)))
    return _mean(values)


def rationale_auprc(scores, truth):
    """Returns the mean over documents of the area under the precision-recall curve, by trapezoids.

    Trapezoids reward ties: constant scores give half of 1 plus the share of true words, far above random ones. Compare
    with `degenerate_baselines`, and with `rationale_average_precision`, which does not reward them.

    Source: as of `iou_f1`. A document without a true word counts as 0.5, as scikit-learn has it.

    Args:
        scores: a list for each document of a number for each word.
        truth: a list for each document of a boolean for each word, `True` in a rationale.

    >>> rationale_auprc([[0.9, 0.2, 0.8], [1, 1, 1, 1]], [[True, False, True], [True, False, False, False]])
    0.8125
    """
    return _mean([_area(*pair, trapezoids=True) for pair in _as_pairs(scores, truth)])


def rationale_average_precision(scores, truth):
    """Returns the mean over documents of the average precision, the area under the precision-recall curve by steps.

    Documents without a true word, or without another, do not count; NaN if none does. Arguments and source are as of
    `rationale_auprc`.

    >>> rationale_average_precision([[0.9, 0.2, 0.8], [1, 1, 1, 1]], [[True, False, True], [True, False, False, False]])
    0.625
    """
    pairs = _as_pairs(scores, truth)
    areas = [_area(*pair, trapezoids=False) for pair in pairs if 0 < pair[1].sum() < len(pair[1])]
    return _mean(areas) if areas else math.nan


def degenerate_baselines(truth, draws=10, seed=0):
    """Measures of scores that know nothing, to compare others with; `truth` is as of `rationale_auprc`.

    Returns a dictionary of `"constant"`, `"random"` (the mean of so many draws) and `"position"`, where later words
    score higher, to a dictionary of `"auprc"` and `"average_precision"`.

    >>> baselines = degenerate_baselines([[True, False, False, False, False]] * 20)
    >>> {name: round(values["auprc"], 2) for name, values in baselines.items()}
    {'constant': 0.6, 'random': 0.33, 'position': 0.1}
    """
    rng = np.random.default_rng(seed)
    sizes = [len(words) for words in truth]
    baselines = {
        "constant": [[np.zeros(size) for size in sizes]],
        "random": [[rng.random(size) for size in sizes] for _ in range(draws)],
        "position": [[np.arange(size) for size in sizes]],
    }
    measures = {"auprc": rationale_auprc, "average_precision": rationale_average_precision}
    return {
        name: {measure: _mean([call(scores, truth) for scores in all_scores]) for measure, call in measures.items()}
        for name, all_scores in baselines.items()
    }


def as_spans(words):
    """Spans `(start, end)`, end exclusive, of words that follow each other; takes a boolean for each word.

    >>> as_spans([True, True, False, True])
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(words, bool).astype(int), [0]])))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def _area(scores, truth, trapezoids):
    """Area under the precision-recall curve of one document."""
    metrics = optional_import("sklearn.metrics", "recipes")
    if not truth.any():
        return 0.5 if trapezoids else 0.0
    scores = np.unique(scores, return_inverse=True)[1]  # ranks: also orders infinity
    if not trapezoids:
        return float(metrics.average_precision_score(truth, scores))
    precision, recall, _ = metrics.precision_recall_curve(truth, scores)
    return float(metrics.auc(recall, precision))


def _as_pairs(scores, truth):
    """For each document its scores, float64 `(n,)`, and booleans `(n,)`."""
    _check_documents("scores", scores, truth)
    pairs = []
    for index, (row, true) in enumerate(zip(scores, truth, strict=True)):
        row, true = np.asarray(keras.ops.convert_to_numpy(row), "float64"), np.asarray(true)
        if row.ndim != 1 or not row.size or row.shape != true.shape or np.isnan(row).any():
            raise ValueError(
                "`scores` and `truth` must have a number, not NaN, and a boolean for each word, of at least one word. "
                f"Received: document {index} with scores of shape {row.shape}, truth of shape {true.shape}, "
                f"{np.isnan(row).sum()} of them NaN"
            )
        pairs.append((row, true.astype(bool)))
    return pairs


def _as_spans(predicted, truth):
    """For each document its spans, as sorted lists of pairs, without repetitions."""
    _check_documents("predicted", predicted, truth)
    both = []
    for name, documents in (("predicted", predicted), ("truth", truth)):
        both.append([sorted({(int(start), int(end)) for start, end in spans}) for spans in documents])
        wrong = [span for spans in both[-1] for span in spans if not 0 <= span[0] <= span[1]]
        if wrong:
            raise ValueError(f"Spans in `{name}` must be (start, end) with 0 <= start <= end. Received: {wrong[0]}")
    return both


def _check_documents(name, values, truth):
    if len(values) != len(truth) or not len(truth):
        raise ValueError(
            f"`{name}` and `truth` must have an item for each document, of at least one. "
            f"Received: {len(values)} and {len(truth)}"
        )


def _iou(span, other):
    (start, end), (other_start, other_end) = span, other
    both = max(0, min(end, other_end) - max(start, other_start))
    either = end - start + other_end - other_start - both
    return both / either if either else 0


def _f1(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision and recall else 0.0


def _mean(values):
    return float(np.mean(values)) if len(values) else 0.0

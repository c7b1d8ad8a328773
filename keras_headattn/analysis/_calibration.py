"""Whether a classifier is right as often as it is confident."""

import numpy as np

from keras_headattn.analysis._validation import as_labels, as_probabilities


def reliability(labels, probabilities, bins=15, closed="right"):
    """How often a classifier is right, for each interval of its confidence, which is its largest probability.

    Source: Guo et al. 2017, "On calibration of modern neural networks"; An et al. 2020, "Repulsive attention",
    eqs. 10 and 11.

    Args:
        labels: integers `(B,)`.
        probabilities: `(B, C)`.
        bins: number of intervals of equal width, from 0 to 1.
        closed: `"right"` for intervals (low, high], or `"left"` for [low, high). It matters only to confidences that
            lie on an edge.

    Returns:
        Three arrays `(bins,)`: how many predictions are in each interval, their accuracy and their mean confidence,
        which are 0 where there is none.

    Raises:
        ValueError: naming the argument and what was received.

    >>> counts, accuracies, confidences = reliability([0, 1], [[0.9, 0.1], [0.9, 0.1]], bins=2)
    >>> counts.tolist(), accuracies.tolist(), confidences.tolist()
    ([0, 2], [0.0, 0.5], [0.0, 0.9])
    """
    probabilities = as_probabilities(probabilities)
    labels = as_labels(labels, probabilities)
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise ValueError(f"`bins` must be a positive integer. Received: bins={bins}")
    if closed not in ("right", "left"):
        raise ValueError(f"`closed` must be 'right' or 'left'. Received: closed={closed!r}")
    confidence, right = probabilities.max(-1), probabilities.argmax(-1) == labels
    edges = np.arange(bins + 1) / bins  # rather than multiples of a width: 3 / 5 is the 0.6 that people write
    places = np.clip(np.digitize(confidence, edges, right=closed == "right") - 1, 0, bins - 1)
    counts, *sums = (np.bincount(places, weights, minlength=bins) for weights in (None, right, confidence))
    return counts, *(total / np.maximum(counts, 1) for total in sums)


def expected_calibration_error(labels, probabilities, bins=15, closed="right"):
    """Expected calibration error (ECE): how far accuracy is from confidence, on average.

    Source: Guo et al. 2017, "On calibration of modern neural networks"; An et al. 2020, "Repulsive attention",
    eq. 12.

    Args:
        labels, probabilities, bins, closed: as of `reliability`.

    Returns:
        Float from 0 to 1; 0 is best.

    Raises:
        ValueError: naming the argument and what was received.

    >>> round(expected_calibration_error([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.4
    """
    counts, accuracies, confidences = reliability(labels, probabilities, bins, closed)
    return float(np.average(np.abs(accuracies - confidences), weights=counts))


def overconfidence_error(labels, probabilities, bins=15, closed="right"):
    """Overconfidence error (OE): how far confidence is above accuracy, the more so the higher the confidence.

    It is at most the expected calibration error.

    Source: Thulasidasan et al. 2019, "On mixup training"; An et al. 2020, "Repulsive attention", eq. 13.

    Args:
        labels, probabilities, bins, closed: as of `reliability`.

    Returns:
        Float from 0 to 1; 0 is best.

    Raises:
        ValueError: naming the argument and what was received.

    >>> round(overconfidence_error([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.36
    """
    counts, accuracies, confidences = reliability(labels, probabilities, bins, closed)
    return float(np.average(confidences * np.maximum(confidences - accuracies, 0), weights=counts))

"""Reliability diagrams."""

import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._calibration import expected_calibration_error, overconfidence_error, reliability
from keras_headattn.analysis._validation import check_named

MEASURES = expected_calibration_error, overconfidence_error


def draw_reliability(models, bins=15, closed="right"):
    """Draws accuracy against confidence, models side by side, and below how often each confidence occurs.

    Points below the diagonal are overconfident, points above it underconfident. An interval of confidence in which
    there is no prediction has neither point nor bar.

    As figure 4 of An et al. 2020, "Repulsive attention".

    Args:
        models: dictionary of the name of a model to its `(labels, probabilities)`, as of `reliability`.
        bins, closed: as of `reliability`.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_reliability({"standard": ([0, 1], [[0.9, 0.1], [0.6, 0.4]])})
    >>> len(figure.axes)
    2
    """
    check_named("models", models)
    figure = new_figure(3.2 * len(models), 4.2)
    grid = figure.subplots(2, len(models), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1))
    for (above, below), (name, (labels, probabilities)) in zip(grid.T, models.items(), strict=True):
        counts, accuracies, confidences = reliability(labels, probabilities, bins, closed)
        errors = [measure(labels, probabilities, bins, closed) for measure in MEASURES]
        filled, middles = counts > 0, (np.arange(bins) + 0.5) / bins
        above.bar(middles[filled], accuracies[filled], width=1 / bins, color="tab:blue", alpha=0.3, edgecolor="white")
        above.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
        above.plot(confidences[filled], accuracies[filled], "o", color="tab:blue", markersize=5, clip_on=False)
        above.set_title("{}\nECE {:.3f}, OE {:.3f}".format(name, *errors), fontsize=9)
        below.bar(middles, counts / counts.sum(), width=1 / bins, color="gray", edgecolor="white")
        below.set(xlim=(0, 1), xlabel="confidence")
    grid[0, 0].set(ylim=(0, 1), ylabel="accuracy")
    grid[1, 0].set_ylabel("share")
    return figure

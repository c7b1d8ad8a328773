"""Accuracy and calibration of classifiers."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._figures import CARD, Figure, new_figure
from keras_headattn._optional import optional_import
from keras_headattn._validation import check_positive
from keras_headattn.analysis._validation import as_labels, as_probabilities, check_named


def reliability(
    labels: ArrayLike, probabilities: ArrayLike, bins: int = 15, closed: str = "right"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the accuracy and mean confidence (largest probability) of a classifier in intervals of its confidence.

    Source: Guo et al. 2017, "On calibration of modern neural networks"; An et al. 2020, "Repulsive attention", eqs. 10
    and 11.

    Args:
        labels: integers `(B,)`.
        probabilities: `(B, C)`, with rows that sum to 1.
        bins: number of equal intervals from 0 to 1.
        closed: `"right"` for intervals (low, high], `"left"` for [low, high).

    Returns:
        `(counts, accuracies, confidences)`, each `(bins,)`; 0 in empty intervals.

    >>> counts, accuracies, confidences = reliability([0, 1], [[0.9, 0.1], [0.9, 0.1]], bins=2)
    >>> counts.tolist(), accuracies.tolist(), confidences.tolist()
    ([0, 2], [0.0, 0.5], [0.0, 0.9])
    """
    probabilities = as_probabilities(probabilities)
    labels = as_labels(labels, probabilities)
    check_positive("bins", bins)
    if closed not in ("right", "left"):
        raise ValueError(f"`closed` must be 'right' or 'left'. Received: closed={closed!r}")
    confidence, right = probabilities.max(-1), probabilities.argmax(-1) == labels
    edges = np.arange(bins + 1) / bins  # exact: 3 / 5 == 0.6, but np.linspace(0, 1, 6)[3] > 0.6
    places = np.clip(np.digitize(confidence, edges, right=closed == "right") - 1, 0, bins - 1)
    counts, hits, sums = (np.bincount(places, weights, minlength=bins) for weights in (None, right, confidence))
    return counts, hits / np.maximum(counts, 1), sums / np.maximum(counts, 1)


def expected_calibration_error(
    labels: ArrayLike, probabilities: ArrayLike, bins: int = 15, closed: str = "right"
) -> float:
    """Returns the expected calibration error (ECE), the mean gap between accuracy and confidence, from 0 (best) to 1.

    Source: Guo et al. 2017, "On calibration of modern neural networks"; An et al. 2020, "Repulsive attention", eq. 12.

    Args:
        labels, probabilities, bins, closed: see `reliability`.

    >>> round(expected_calibration_error([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.4
    """
    counts, accuracies, confidences = reliability(labels, probabilities, bins, closed)
    return float(np.average(np.abs(accuracies - confidences), weights=counts))


def overconfidence_error(labels: ArrayLike, probabilities: ArrayLike, bins: int = 15, closed: str = "right") -> float:
    """Returns the overconfidence error (OE), the mean excess of confidence over accuracy weighted by confidence.

    It is from 0 (best) to the expected calibration error. Source: Thulasidasan et al. 2019, "On mixup training"; An et
    al. 2020, "Repulsive attention", eq. 13.

    Args:
        labels, probabilities, bins, closed: see `reliability`.

    >>> round(overconfidence_error([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.36
    """
    counts, accuracies, confidences = reliability(labels, probabilities, bins, closed)
    return float(np.average(confidences * np.maximum(confidences - accuracies, 0), weights=counts))


def draw_reliability(
    models: Mapping[str, tuple[ArrayLike, ArrayLike]],
    bins: int = 15,
    closed: str = "right",
    title: str = "Accuracy against confidence",
) -> Figure:
    """Draws accuracy against confidence, models side by side, with a histogram of confidence below.

    Points below the diagonal are overconfident. Like figure 4 of An et al. 2020, "Repulsive attention". Needs
    matplotlib.

    Args:
        models: dictionary from model name to `(labels, probabilities)`, see `reliability`.
        bins, closed: see `reliability`.
        title: title of the figure.

    >>> figure = draw_reliability({"standard": ([0, 1], [[0.9, 0.1], [0.6, 0.4]])})
    >>> len(figure.axes)
    2
    """
    check_named("models", models)
    measures = expected_calibration_error, overconfidence_error
    figure = new_figure(3.2 * len(models), 4.5, title)
    grid = figure.subplots(2, len(models), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1))
    for (above, below), (name, (labels, probabilities)) in zip(grid.T, models.items(), strict=True):
        counts, accuracies, confidences = reliability(labels, probabilities, bins, closed)
        errors = [measure(labels, probabilities, bins, closed) for measure in measures]
        filled, middles = counts > 0, (np.arange(bins) + 0.5) / bins
        above.bar(middles[filled], accuracies[filled], width=1 / bins, color="tab:blue", alpha=0.3, edgecolor="white")
        above.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
        above.plot(confidences[filled], accuracies[filled], "o", color="tab:blue", markersize=5, clip_on=False)
        above.set_title("{}\nECE {:.3f}, OE {:.3f}".format(name, *errors), fontsize=9)
        bars = below.bar(middles, counts / counts.sum(), width=1 / bins, color="gray", edgecolor="white")
        below.bar_label(bars, [f"{count}" if count else "" for count in counts], rotation=90, fontsize=6, padding=2)
        below.margins(y=0.4)
        below.set(xlim=(0, 1), xlabel="confidence")
    grid[0, 0].set(ylim=(0, 1), ylabel="accuracy")
    grid[1, 0].set_ylabel("share of\npredictions")
    return figure


def predictive_entropy(probabilities: ArrayLike) -> np.ndarray:
    """Returns the entropy of each prediction, `(B,)` in nats: 0 if it is certain, log C if it is uniform.

    Args:
        probabilities: `(B, C)`.

    >>> predictive_entropy([[0.5, 0.5], [1, 0]]).round(4).tolist()
    [0.6931, 0.0]
    """
    probabilities = as_probabilities(probabilities)
    logarithms = np.log(np.where(probabilities > 0, probabilities, 1))
    return np.abs(np.sum(probabilities * logarithms, axis=-1))  # not -0


def draw_entropy_cdf(models: Mapping[str, ArrayLike], title: str = "How unsure predictions are") -> Figure:
    """Draws the empirical distribution function of predictive entropy, a curve for each model.

    On out-of-domain data the curve nearest to the bottom right is best. A dotted line marks a uniform prediction. As
    figure 5 of An et al. 2020, "Repulsive attention". Needs matplotlib.

    Args:
        models: dictionary from model name to probabilities `(B, C)`.
        title: title of the figure.

    >>> figure = draw_entropy_cdf({"standard": [[0.9, 0.1], [0.6, 0.4]], "repulsive": [[0.7, 0.3], [0.6, 0.4]]})
    >>> len(figure.axes[0].get_legend().get_texts())
    2
    """
    check_named("models", models)
    figure = new_figure(4.5, 3.7, title)
    axes = figure.add_subplot()
    for name, probabilities in models.items():
        axes.ecdf(predictive_entropy(probabilities), label=name)
    for classes in {np.shape(probabilities)[1] for probabilities in models.values()}:
        axes.axvline(np.log(classes), color="gray", linestyle=":", linewidth=1)
    axes.set(xlim=(0, None), ylim=(0, 1.02), xlabel="entropy (nats)", ylabel="share of predictions at most as unsure")
    axes.legend(fontsize=8)
    return figure


def draw_confusion_matrix(
    labels: ArrayLike,
    probabilities: ArrayLike,
    names: Sequence[str] | None = None,
    title: str = "Labels and predictions",
) -> Figure:
    """Draws counts of each pair of true and predicted class, coloured by share of the true class. Needs matplotlib.

    Args:
        labels, probabilities: see `reliability`.
        names: names of the classes. Default `None`: their indices.
        title: title of the figure.

    >>> figure = draw_confusion_matrix([0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]], ["negative", "positive"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '0', '1', '1']
    """
    probabilities = as_probabilities(probabilities)
    labels, classes = as_labels(labels, probabilities), probabilities.shape[1]
    names = range(classes) if names is None else names
    if len(names) != classes:
        raise ValueError(f"`names` must be those of {classes} classes. Received: names={names}")
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (labels, probabilities.argmax(-1)), 1)
    shares = counts / np.maximum(counts.sum(-1, keepdims=True), 1)
    cell, size = (0.5, 8) if classes < 6 else (0.2, 6)  # a dozen classes can be read in a card of TensorBoard's
    inches = cell * classes + 0.05 * max(len(str(name)) for name in names)
    figure = new_figure(max(CARD, 0.4 + inches), 1.2 + inches, title)
    axes = figure.add_subplot()
    picture = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    bar = figure.colorbar(picture, ax=axes, orientation="horizontal", aspect=40)
    bar.set_label("share of the label", size=8)
    bar.ax.tick_params(labelsize=7)
    for (row, column), count in np.ndenumerate(counts):
        color = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(count), ha="center", va="center", fontsize=size, color=color)
    axes.set_xticks(range(classes), names, rotation=90, fontsize=size)
    axes.set_yticks(range(classes), names, fontsize=size)
    axes.set_xlabel("predicted", fontsize=8)
    axes.set_ylabel("label", fontsize=8)
    return figure


def evaluate_classifier(labels: ArrayLike, probabilities: ArrayLike, bins: int = 15) -> dict[str, float]:
    """Returns accuracy, F1, Matthews correlation, areas under curves and calibration errors of a classifier.

    Args:
        labels, probabilities: see `reliability`. With two classes, class 1 is the positive one.
        bins: number of confidence intervals of the calibration errors.

    Returns:
        Dictionary of floats; scikit-learn, which is required, computes F1, Matthews correlation and areas:

        - `accuracy`;
        - `f1_macro`, mean over classes that are labelled or predicted; with two classes also `f1` of the positive one;
        - `mcc`, Matthews correlation, 0 if all labels or all predictions are one class;
        - `auc_roc` and `auc_pr` (average precision) of the positive class, or the one-against-rest mean over labelled
          classes if there are more than two; NaN if only one class is labelled;
        - `ece` and `oe`, see `expected_calibration_error` and `overconfidence_error`.

    >>> measures = evaluate_classifier([0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
    >>> {name: round(value, 2) for name, value in measures.items()}
    {'accuracy': 0.67, 'f1_macro': 0.67, 'f1': 0.67, 'mcc': 0.5, 'auc_roc': 1.0, 'auc_pr': 1.0, 'ece': 0.3, 'oe': 0.12}
    """
    metrics = optional_import("sklearn.metrics", "recipes")
    probabilities = as_probabilities(probabilities)
    labels, predicted = as_labels(labels, probabilities), probabilities.argmax(-1)
    measures = {
        "accuracy": np.mean(predicted == labels),
        "f1_macro": metrics.f1_score(labels, predicted, average="macro", zero_division=0),
    }
    if probabilities.shape[1] == 2:
        measures["f1"] = metrics.f1_score(labels, predicted, zero_division=0)
    measures |= {
        # Undefined for a single class: scikit-learn returns 0 with a warning.
        "mcc": metrics.matthews_corrcoef(labels, predicted) if len(np.union1d(labels, predicted)) > 1 else 0,
        "auc_roc": _mean_area(metrics.roc_auc_score, labels, probabilities),
        "auc_pr": _mean_area(metrics.average_precision_score, labels, probabilities),
        "ece": expected_calibration_error(labels, probabilities, bins),
        "oe": overconfidence_error(labels, probabilities, bins),
    }
    return {name: float(value) for name, value in measures.items()}


def _mean_area(area, labels, probabilities):
    labelled = np.unique(labels)
    if len(labelled) == 1:
        return np.nan
    classes = [1] if probabilities.shape[1] == 2 else labelled
    return np.mean([area(labels == label, probabilities[:, label]) for label in classes])

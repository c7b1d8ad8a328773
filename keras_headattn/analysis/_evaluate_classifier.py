"""All measures of a classifier at once."""

import numpy as np

from keras_headattn.analysis._calibration import expected_calibration_error, overconfidence_error
from keras_headattn.analysis._validation import as_labels, as_probabilities


def evaluate_classifier(labels, probabilities, bins=15):
    """Accuracy, F1, Matthews correlation, areas under curves and calibration errors of a classifier.

    Those that scikit-learn has are scikit-learn's.

    Args:
        labels: integers `(B,)`.
        probabilities: `(B, C)`. Of two classes, class 1 is the positive one.
        bins: of the calibration errors, see `reliability`.

    Returns:
        Dictionary of floats:

        - `accuracy`;
        - `f1_macro`, the mean over classes that are labelled or predicted, and of two classes also `f1`, that of the
          positive one;
        - `mcc`, Matthews correlation coefficient, 0 where all labels or all predictions are of one class;
        - `auc_roc` and `auc_pr`, areas under the ROC curve and the precision-recall curve (average precision): of the
          positive class, or with more than two the mean over classes, each against the rest. Classes without label
          are left out, and it is NaN if all labels are of one class;
        - `ece` and `oe`, see `expected_calibration_error` and `overconfidence_error`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if scikit-learn is not installed.

    >>> measures = evaluate_classifier([0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
    >>> {name: round(value, 2) for name, value in measures.items()}
    {'accuracy': 0.67, 'f1_macro': 0.67, 'f1': 0.67, 'mcc': 0.5, 'auc_roc': 1.0, 'auc_pr': 1.0, 'ece': 0.3, 'oe': 0.12}
    """
    try:
        from sklearn import metrics
    except ImportError as error:
        raise ImportError('Install scikit-learn: pip install "keras_headattn[recipes]"') from error
    probabilities = as_probabilities(probabilities)
    labels, predicted = as_labels(labels, probabilities), probabilities.argmax(-1)
    measures = {
        "accuracy": np.mean(predicted == labels),
        "f1_macro": metrics.f1_score(labels, predicted, average="macro", zero_division=0),
    }
    if probabilities.shape[1] == 2:
        measures["f1"] = metrics.f1_score(labels, predicted, zero_division=0)
    measures |= {
        # Not defined where there is one class; scikit-learn then says 0, with a warning.
        "mcc": metrics.matthews_corrcoef(labels, predicted) if len(np.union1d(labels, predicted)) > 1 else 0,
        "auc_roc": _mean_area(metrics.roc_auc_score, labels, probabilities),
        "auc_pr": _mean_area(metrics.average_precision_score, labels, probabilities),
        "ece": expected_calibration_error(labels, probabilities, bins),
        "oe": overconfidence_error(labels, probabilities, bins),
    }
    return {name: float(value) for name, value in measures.items()}


def _mean_area(area, labels, probabilities):
    """An area under a curve, that of the positive class of two, or the mean of all that are labelled."""
    labelled = np.unique(labels)
    if len(labelled) == 1:
        return np.nan
    classes = [1] if probabilities.shape[1] == 2 else labelled
    return np.mean([area(labels == number, probabilities[:, number]) for number in classes])

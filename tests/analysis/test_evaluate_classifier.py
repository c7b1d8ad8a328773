"""Measures of a classifier against their definition, and its confusion matrix."""

import numpy as np
import pytest

from keras_headattn.analysis import draw_confusion_matrix, evaluate_classifier, expected_calibration_error
from keras_headattn.metrics import MatthewsCorrelationCoefficient


def predictions(classes, size=60, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, size)
    logits = rng.normal(size=(size, classes)) + np.eye(classes)[labels]
    return labels, np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def f1(labels, predicted, number):
    both = np.sum((labels == number) & (predicted == number))
    return 2 * both / (np.sum(labels == number) + np.sum(predicted == number))


def roc_area(positive, scores):
    """How often a positive item has a larger score than a negative one."""
    return np.mean(scores[positive][:, None] > scores[~positive])


def precision_recall_area(positive, scores):
    """Mean over the positive items of the precision among all items that score as high."""
    return np.mean([np.mean(positive[scores >= score]) for score in scores[positive]])


@pytest.mark.parametrize("classes", [2, 4])
def test_definition(classes):
    pytest.importorskip("sklearn")
    labels, probabilities = predictions(classes)
    predicted, measures = probabilities.argmax(-1), evaluate_classifier(labels, probabilities)
    f1s = [f1(labels, predicted, number) for number in range(classes)]
    counted = [1] if classes == 2 else range(classes)
    areas = [
        np.mean([area(labels == number, probabilities[:, number]) for number in counted])
        for area in (roc_area, precision_recall_area)
    ]
    expected = {
        "accuracy": np.mean(labels == predicted),
        "f1_macro": np.mean(f1s),
        "f1": f1s[1],
        "mcc": float(MatthewsCorrelationCoefficient(classes)(labels, predicted)),
        "auc_roc": areas[0],
        "auc_pr": areas[1],
        "ece": expected_calibration_error(labels, probabilities),
    }
    if classes > 2:
        del expected["f1"]
    assert set(measures) == {*expected, "oe"}
    assert {name: measures[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert all(type(value) is float for value in measures.values())


def test_classes_that_do_not_occur():
    """No warning; areas are of the classes that do, or NaN of one alone."""
    pytest.importorskip("sklearn")
    labels, probabilities = predictions(3)
    chosen = labels < 2
    measures = evaluate_classifier(labels[chosen], probabilities[chosen])
    expected = [roc_area(labels[chosen] == number, probabilities[chosen, number]) for number in (0, 1)]
    assert measures["auc_roc"] == pytest.approx(np.mean(expected))
    measures = evaluate_classifier([1, 1], [[0.2, 0.8], [0.4, 0.6]])
    assert np.isnan(measures["auc_roc"]) and np.isnan(measures["auc_pr"])
    assert measures["accuracy"] == measures["f1"] == 1 and measures["mcc"] == 0


def test_confusion_matrix():
    labels, probabilities = predictions(3)
    axes = draw_confusion_matrix(labels, probabilities, ["a", "b", "c"]).axes[0]
    expected = [[np.sum((labels == i) & (probabilities.argmax(-1) == j)) for j in range(3)] for i in range(3)]
    assert [int(text.get_text()) for text in axes.texts] == np.ravel(expected).tolist()
    shares = np.asarray(axes.get_images()[0].get_array())
    np.testing.assert_allclose(shares, expected / np.sum(expected, -1, keepdims=True))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert not draw_confusion_matrix([0], [[0.1, 0.9]]).axes[0].get_images()[0].get_array()[1].any()  # never labelled

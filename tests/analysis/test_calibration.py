"""Calibration errors against golden vectors, their definition in slow code, and what always holds."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from keras_headattn.analysis import (
    draw_confusion_matrix,
    draw_entropy_cdf,
    draw_reliability,
    expected_calibration_error,
    overconfidence_error,
    predictive_entropy,
    reliability,
)

MEASURES = [expected_calibration_error, overconfidence_error]
few = hypothesis.settings(max_examples=60, deadline=None)


def by_definition(labels, probabilities, bins):
    """Eqs. 10 to 13, an item at a time."""
    expected = over = 0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [(row, label) for row, label in zip(probabilities, labels, strict=True) if low < max(row) <= high]
        if inside:
            accuracy = sum(np.argmax(row) == label for row, label in inside) / len(inside)
            confidence = sum(max(row) for row, _ in inside) / len(inside)
            expected += len(inside) / len(labels) * abs(accuracy - confidence)
            over += len(inside) / len(labels) * confidence * max(confidence - accuracy, 0)
    return expected, over


@st.composite
def classified(draw):
    """Labels and probabilities; some rows have a confidence on an edge."""
    seed, size, classes = draw(st.integers(0, 10**6)), draw(st.integers(1, 30)), draw(st.integers(2, 5))
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(classes, draw(st.sampled_from([0.1, 1, 5]))), size)
    probabilities[rng.random(size) < 0.2] = np.eye(classes)[0] * 0.4 + np.eye(classes)[1] * 0.6
    return rng.integers(0, classes, size), probabilities


@pytest.mark.parametrize("bins", [10, 15])
def test_golden(golden, bins):
    data = golden("repulsive_regularisers.npz")
    given = data["cal_labels"], data["cal_probs"], bins
    for measure, name in zip(MEASURES, ("ECE", "OE"), strict=True):
        assert measure(*given) == pytest.approx(float(data[f"cal.bins{bins}.{name}"]), abs=1e-12)
    for array, name in zip(reliability(*given), ("count", "acc", "conf"), strict=True):
        np.testing.assert_allclose(array, data[f"cal.bins{bins}.{name}"], atol=1e-12)


@pytest.mark.parametrize("bins", [4, 5])
@pytest.mark.parametrize("closed, name", [("right", "lo_open_hi_closed"), ("left", "lo_closed_hi_open")])
def test_golden_edges(golden, bins, closed, name):
    data = golden("repulsive_regularisers.npz")
    given = data["edge_labels"], data["edge_probs_f64"], bins, closed
    np.testing.assert_array_equal(reliability(*given)[0], data[f"edge.bins{bins}.{name}.count"])
    for measure, kind in zip(MEASURES, ("ECE", "OE"), strict=True):
        assert measure(*given) == pytest.approx(float(data[f"edge.bins{bins}.{name}.{kind}"]), abs=1e-12)


@few
@hypothesis.given(classified(), st.integers(1, 20))
def test_definition(given, bins):
    expected = by_definition(*given, bins)
    assert [measure(*given, bins) for measure in MEASURES] == pytest.approx(expected, abs=1e-12)


@few
@hypothesis.given(classified(), st.integers(1, 20), st.sampled_from(["right", "left"]))
def test_overconfidence_is_part_of_the_error(given, bins, closed):
    expected, over = (measure(*given, bins, closed) for measure in MEASURES)
    assert 0 <= over <= expected <= 1
    assert reliability(*given, bins, closed)[0].sum() == len(given[0])


@few
@hypothesis.given(st.integers(1, 20), st.integers(2, 5))
def test_right_as_often_as_confident(right, classes):
    """`right` of 20 items of that confidence are, so that nothing is wrong; and all wrong of a certain model is 1."""
    confidence = max(right / 20, 1 / classes)
    probabilities = np.full((20, classes), (1 - confidence) / (classes - 1))
    probabilities[:, 0] = confidence
    labels = (np.arange(20) >= confidence * 20 - 1e-9).astype(int)
    if confidence * 20 == np.count_nonzero(labels == 0):
        assert expected_calibration_error(labels, probabilities) == pytest.approx(0, abs=1e-12)
    certain = np.eye(classes)[np.zeros(20, int)]
    assert [measure(np.ones(20, int), certain) for measure in MEASURES] == [1, 1]


@few
@hypothesis.given(classified())
def test_entropy(given):
    entropy, classes = predictive_entropy(given[1]), given[1].shape[1]
    expected = [-sum(p * np.log(p) for p in row if p > 0) for row in given[1]]
    np.testing.assert_allclose(entropy, expected, atol=1e-12)
    assert (entropy >= 0).all() and (entropy <= np.log(classes) + 1e-12).all()


def test_reliability_diagram_leaves_empty_bins_out():
    models = {
        "standard": ([0, 1, 1], [[0.9, 0.1], [0.95, 0.05], [0.4, 0.6]]),
        "repulsive": ([0, 1], [[0.7, 0.3], [0.7, 0.3]]),
    }
    figure = draw_reliability(models, bins=5)
    above = figure.axes[:2]
    assert [axes.get_title() for axes in above] == ["standard\nECE 0.417, OE 0.262", "repulsive\nECE 0.200, OE 0.140"]
    points = [axes.lines[1].get_xydata().tolist() for axes in above]
    assert points == [[[0.6, 1.0], [0.925, 0.5]], [[0.7, 0.5]]]
    bars = [[(bar.get_x(), bar.get_height()) for bar in axes.patches] for axes in above]
    assert bars == [[(pytest.approx(0.4), 1), (pytest.approx(0.8), 0.5)], [(pytest.approx(0.6), 0.5)]]
    assert figure.get_suptitle() and [axes.get_ylabel() for axes in figure.axes[::2]] == [
        "accuracy", "share of\npredictions"
    ]  # fmt: skip
    shares = [bar.get_height() for bar in figure.axes[2].patches]
    assert shares == pytest.approx([0, 0, 1 / 3, 0, 2 / 3])
    assert [text.get_text() for text in figure.axes[2].texts] == ["", "", "1", "", "2"]


def test_entropy_curves():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    figure = draw_entropy_cdf({"standard": probabilities, "uniform": np.full((4, 3), 1 / 3)})
    curve, step, *marks = figure.axes[0].lines
    entropies, shares = curve.get_xydata()[1:].T
    np.testing.assert_allclose(entropies, np.sort(predictive_entropy(probabilities)))
    np.testing.assert_allclose(shares, np.arange(1, 41) / 40)
    np.testing.assert_allclose(step.get_xdata(), np.log(3))
    assert len(marks) == 1 and marks[0].get_xdata()[0] == pytest.approx(np.log(3))
    assert figure.get_suptitle() == "How unsure predictions are" and "nats" in figure.axes[0].get_xlabel()


def test_a_confusion_matrix_has_a_colour_bar():
    figure = draw_confusion_matrix([0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]], title="test")
    matrix, bar = figure.axes
    np.testing.assert_array_equal(matrix.get_images()[0].get_array(), [[1, 0], [0.5, 0.5]])
    assert [text.get_text() for text in matrix.texts] == ["1", "0", "1", "1"]
    assert matrix.get_images()[0].get_clim() == (0, 1) and bar.get_xlabel() == "share of the label"
    assert (matrix.get_xlabel(), matrix.get_ylabel(), figure.get_suptitle()) == ("predicted", "label", "test")

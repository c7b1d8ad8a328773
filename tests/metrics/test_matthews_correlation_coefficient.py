import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.metrics import MatthewsCorrelationCoefficient


def coefficient(num_classes, *arguments, **kwargs):
    return float(MatthewsCorrelationCoefficient(num_classes)(*arguments, **kwargs))


def by_definition(true, predicted, num_classes, weights=None):
    """Weighted correlation of the one-hot rows, in float64."""
    weights = np.ones(len(true)) if weights is None else np.asarray(weights, "float64")
    true, predicted = np.eye(num_classes)[true], np.eye(num_classes)[predicted]
    weights = weights / weights.sum()
    true, predicted = true - weights @ true, predicted - weights @ predicted
    covariance, variances = (
        (weights @ (true * predicted)).sum(),
        [(weights @ x**2).sum() for x in (true, predicted)],
    )
    return covariance / np.sqrt(variances[0] * variances[1]) if min(variances) > 1e-12 else 0.0


def test_golden_classes(golden):
    data = golden("metrics_tfa.npz")
    arguments = data["mc_true_onehot"], data["mc_prob"]
    assert coefficient(4, *arguments) == pytest.approx(float(data["mc_mcc_f64"]), abs=1e-6)
    assert coefficient(4, *arguments) == pytest.approx(float(data["mc_mcc"]), abs=1e-6)
    weighted = coefficient(4, *arguments, sample_weight=data["sample_weight"])
    assert weighted == pytest.approx(float(data["mc_mcc_weighted"]), abs=1e-6)
    assert weighted != pytest.approx(float(data["mc_mcc"]), abs=1e-3)


def test_golden_labels_equal_one_hot_rows(golden):
    data = golden("metrics_tfa.npz")
    labels = coefficient(4, data["mc_true"], data["mc_prob"].argmax(axis=1))
    assert labels == coefficient(4, data["mc_true_onehot"], data["mc_prob"])
    assert labels == coefficient(4, data["mc_true"][:, None], data["mc_prob"])


def test_golden_binary(golden):
    data = golden("metrics_tfa.npz")
    true, probability = data["bin_true"], data["bin_prob"]
    for predicted in (probability, probability[:, None], np.stack([1 - probability, probability], axis=1)):
        assert coefficient(2, true, predicted) == pytest.approx(float(data["bin_mcc_f64"]), abs=1e-6)
    assert coefficient(2, true, probability) == pytest.approx(float(data["bin_mcc"]), abs=1e-6)
    constant = coefficient(2, true, np.full_like(probability, 0.9))
    assert constant == float(data["bin_mcc_constant_prediction"]) == 0


def test_golden_binary_counts(golden):
    data = golden("metrics_tfa.npz")
    metric = MatthewsCorrelationCoefficient(2)
    metric.update_state(data["bin_true"], data["bin_prob"])
    tp, tn, fp, fn = data["bin_counts_tp_tn_fp_fn"]
    confusion = keras.ops.convert_to_numpy(1 * metric.confusion)  # a tensor: of a variable NumPy warns
    np.testing.assert_array_equal(confusion, [[tn, fp], [fn, tp]])


def test_two_classes_by_hand():
    # 1 true positive, 2 true negatives, 1 false positive: (1 * 2 - 1 * 0) / sqrt(2 * 1 * 3 * 2)
    assert coefficient(2, [1, 0, 0, 0], [1, 1, 0, 0]) == pytest.approx(2 / np.sqrt(12))


@pytest.mark.parametrize("num_classes", [2, 3])
def test_true_labels_below_0_are_left_out(num_classes):
    found = coefficient(num_classes, [1, 0, 0, 0, -1], [1, 1, 0, 0, 1])
    assert found == coefficient(num_classes, [1, 0, 0, 0], [1, 1, 0, 0])


def test_best_and_worst():
    assert coefficient(3, [0, 1, 2, 1], [0, 1, 2, 1]) == pytest.approx(1)
    assert coefficient(2, [0, 1, 0, 1], [1, 0, 1, 0]) == pytest.approx(-1)


@pytest.mark.parametrize(("true", "predicted"), [([0, 1, 2], [1, 1, 1]), ([2, 2, 2], [0, 1, 2]), ([1, 1], [1, 1])])
def test_one_class_gives_zero(true, predicted):
    weights = np.linspace(0.1, 0.7, len(true))  # sums that rounding would otherwise make unequal
    assert coefficient(3, true, predicted, sample_weight=weights) == 0


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.floats(0.125, 4)), min_size=1, max_size=40),
    permutation=st.permutations(range(3)),
)
@settings(max_examples=50, deadline=None)
def test_definition_bounds_symmetry_and_names_of_classes(rows, permutation):
    true, predicted = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    weights = np.array([row[2] for row in rows], "float32")
    value = coefficient(3, true, predicted, sample_weight=weights)
    assert value == pytest.approx(by_definition(true, predicted, 3, weights), abs=1e-4)
    assert -1 - 1e-5 <= value <= 1 + 1e-5
    assert value == pytest.approx(coefficient(3, predicted, true, sample_weight=weights), abs=1e-5)
    renamed = np.array(permutation)
    assert value == pytest.approx(coefficient(3, renamed[true], renamed[predicted], sample_weight=weights), abs=1e-5)


def test_batches_add_up_and_reset():
    rng = np.random.default_rng(0)
    true, predicted = rng.integers(0, 4, 50), rng.integers(0, 4, 50)
    metric = MatthewsCorrelationCoefficient(4)
    for start in range(0, 50, 7):
        metric.update_state(true[start : start + 7], predicted[start : start + 7])
    assert float(metric.result()) == pytest.approx(by_definition(true, predicted, 4), abs=1e-6)
    metric.reset_state()
    assert float(metric.result()) == 0


def test_a_weight_of_two_is_the_sample_twice():
    twice = coefficient(2, [0, 1, 1, 1], [0, 1, 0, 0])
    assert coefficient(2, [0, 1, 1], [0, 1, 0], sample_weight=[[1.0], [1.0], [2.0]]) == pytest.approx(twice)


def test_millions_of_samples_do_not_overflow():
    metric = MatthewsCorrelationCoefficient(2)
    metric.update_state([0, 0, 1, 1], [0, 1, 1, 1], sample_weight=[1e15] * 4)
    assert float(metric.result()) == pytest.approx(by_definition([0, 0, 1, 1], [0, 1, 1, 1], 2), abs=1e-6)


def test_in_a_compiled_model():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Softmax()(inputs))
    model.compile(
        loss="sparse_categorical_crossentropy",
        metrics=[MatthewsCorrelationCoefficient(3, name="mcc")],
        jit_compile=True,
    )
    rng = np.random.default_rng(1)
    logits, true = rng.normal(size=(20, 3)).astype("float32"), rng.integers(0, 3, 20)
    result = model.evaluate(logits, true, batch_size=8, verbose=0, return_dict=True)
    assert result["mcc"] == pytest.approx(by_definition(true, logits.argmax(axis=1), 3), abs=1e-6)


def test_serialisation():
    metric = MatthewsCorrelationCoefficient(5, name="mcc", dtype="float64")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
    assert isinstance(copy, MatthewsCorrelationCoefficient)
    assert copy.get_config() == metric.get_config()
    assert (copy.num_classes, copy.name, copy.dtype) == (5, "mcc", "float64")

"""Keras's own F1 agrees with that of tensorflow-addons, so the library needs none."""

import keras
import numpy as np
import pytest


@pytest.mark.parametrize("average", [None, "micro", "macro", "weighted"])
def test_golden_classes(golden, average):
    data = golden("metrics_tfa.npz")
    score = keras.metrics.F1Score(average=average)(data["mc_true_onehot"], data["mc_prob"])
    np.testing.assert_allclose(keras.ops.convert_to_numpy(score), data[f"mc_f1_{average}"], atol=1e-6)


def test_golden_binary(golden):
    data = golden("metrics_tfa.npz")
    true, probability = data["bin_true"][:, None].astype("float32"), data["bin_prob"][:, None]
    score = keras.metrics.F1Score(threshold=0.5)(true, probability)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(score), data["bin_f1_thr0.5"], atol=1e-6)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(score), [data["bin_f1_f64"]], atol=1e-6)

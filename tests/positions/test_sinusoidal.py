"""Sinusoids of either series of wavelengths, and of another first position."""

import numpy as np
import pytest

from keras_headattn.positions import SinusoidalPositions
from tests.layers.harness import array


@pytest.mark.parametrize("endpoint, steps", [(True, 3), (False, 4)])
def test_wavelengths(endpoint, steps):
    found = array(SinusoidalPositions(endpoint=endpoint)(np.zeros((1, 5, 8), "float32")))[0]
    angles = np.arange(5)[:, None] * 10_000.0 ** (-np.arange(4) / steps)
    np.testing.assert_allclose(found, np.concatenate([np.sin(angles), np.cos(angles)], axis=1), atol=1e-6)


def test_first():
    zeros = np.zeros((1, 7, 8), "float32")
    found = SinusoidalPositions(first=2)(zeros[:, :5])
    np.testing.assert_allclose(array(found), array(SinusoidalPositions()(zeros))[:, 2:], atol=1e-6)
    again = SinusoidalPositions.from_config(SinusoidalPositions(endpoint=False, first=2).get_config())
    assert (again.endpoint, again.first) == (False, 2)

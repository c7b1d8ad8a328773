"""Repulsive attention trains the same on Keras's other backends."""

import numpy as np
import pytest

from tests.backends import load_from, run_on
from tests.optimizers import backend_worker


@pytest.fixture(scope="module")
def ours():
    return backend_worker.everything()


def test_same_weights(other_backend, ours, tmp_path):
    run_on(other_backend, "-m", "tests.optimizers.backend_worker", tmp_path / "out.npz")
    theirs = load_from(other_backend, tmp_path / "out.npz")
    np.testing.assert_allclose(theirs["noise"], ours["noise"], rtol=0.2)
    assert theirs.keys() == ours.keys()
    for name in ours.keys() - {"noise"}:
        np.testing.assert_allclose(theirs[name], ours[name], atol=1e-5, err_msg=name)

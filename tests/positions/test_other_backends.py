"""The same weights and inputs give the same outputs on Keras's other backends."""

import numpy as np
import pytest

from tests.backends import load_from, run_on
from tests.positions import backend_worker
from tests.positions.cases import ALL


@pytest.fixture(scope="module")
def ours():
    return backend_worker.everything()


@pytest.fixture(scope="module")
def theirs(other_backend, tmp_path_factory):
    path = tmp_path_factory.mktemp(other_backend) / "out.npz"
    run_on(other_backend, "-W", "error::UserWarning", "-m", "tests.positions.backend_worker", path)
    return load_from(other_backend, path)


@pytest.mark.parametrize("name", ALL)
def test_same_outputs(name, ours, theirs):
    assert not [str(out[f"{name}/error"]) for out in (ours, theirs) if f"{name}/error" in out]
    names = [key for key in ours if key.startswith(f"{name}/")]
    assert len(names) >= 3
    for key in names:
        tolerance = (1e-2 if "/half" in key else 1e-5) * max(1, np.abs(ours[key]).max())
        np.testing.assert_allclose(theirs[key], ours[key], rtol=0, atol=tolerance, err_msg=key)

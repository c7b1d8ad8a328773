"""A Transformer saved here translates and trains the same on Keras's other backends."""

import numpy as np
import pytest

from tests.backends import load_from, run_on
from tests.models import backend_worker
from tests.models.small import CASES, make

# The first moves rows of the cache, the second has positions in it.
MODELS = ("evolving_decoder", "relative")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of models without randomness in training."""
    folder = tmp_path_factory.mktemp("models")
    for case in CASES:
        if case.name in MODELS:
            make(case, dropout=0.0).save(folder / f"{case.name}.keras")
    return folder


@pytest.fixture(scope="module")
def ours(folder):
    return backend_worker.everything(folder)


@pytest.fixture(scope="module")
def theirs(folder, other_backend, tmp_path_factory):
    path = tmp_path_factory.mktemp(other_backend) / "out.npz"
    run_on(other_backend, "-m", "tests.models.backend_worker", folder, path)
    return load_from(other_backend, path)


@pytest.mark.parametrize("model", MODELS)
def test_same_translations(model, ours, theirs):
    names = [name for name in ours if name.startswith(f"{model}/")]
    assert len(names) == 7 and theirs.keys() == ours.keys()
    for name in names:
        tolerance = 0 if "/tokens" in name else 1e-4 if name.endswith("trained") else 1e-5
        atol = tolerance * max(1, np.abs(ours[name]).max())
        np.testing.assert_allclose(theirs[name], ours[name], rtol=0, atol=atol, err_msg=name)

"""The same weights and inputs give the same outputs on Keras's JAX backend."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.positions import jax_worker
from tests.positions.cases import ALL


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Outputs here and in a process with KERAS_BACKEND=jax."""
    pytest.importorskip("jax")
    path = tmp_path_factory.mktemp("jax") / "out.npz"
    root = pathlib.Path(__file__).resolve().parents[2]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error::UserWarning", "-m", "tests.positions.jax_worker", str(path)]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(path) as out:
        theirs = dict(out)
    assert str(theirs.pop("backend")) == "jax"
    return jax_worker.everything(), theirs


@pytest.mark.parametrize("name", ALL)
def test_same_outputs(name, both):
    ours, theirs = both
    assert not [str(out[f"{name}/error"]) for out in both if f"{name}/error" in out]
    names = [key for key in ours if key.startswith(f"{name}/")]
    assert len(names) >= 3
    for key in names:
        tolerance = (1e-2 if "/half" in key else 1e-5) * max(1, np.abs(ours[key]).max())
        np.testing.assert_allclose(theirs[key], ours[key], rtol=0, atol=tolerance, err_msg=key)

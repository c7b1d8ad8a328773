"""Repulsive attention trains the same on Keras's JAX backend."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.optimizers import jax_worker


def test_same_weights(tmp_path):
    pytest.importorskip("jax")
    root = pathlib.Path(__file__).resolve().parents[2]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.optimizers.jax_worker", str(tmp_path / "out.npz")]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(tmp_path / "out.npz") as out:
        theirs = dict(out)
    assert str(theirs.pop("backend")) == "jax"
    ours = jax_worker.everything()
    np.testing.assert_allclose(theirs.pop("noise"), ours.pop("noise"), rtol=0.2)
    for name, weight in ours.items():
        np.testing.assert_allclose(theirs[name], weight, atol=1e-5, err_msg=name)

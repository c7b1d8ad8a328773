"""The same weights and inputs give the same outputs on Keras's JAX backend."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.layers import jax_worker
from tests.layers.harness import CASES, build, cross_inputs, each_layer, output_bias, self_input


def weights():
    """`case/kind/00`, `case/kind/01`, ... for cross and self-attention."""
    found = {}
    for case in CASES:
        for kind, inputs in (("cross", cross_inputs()), ("self", (self_input(),) * 3)):
            for i, weight in enumerate(build(case.make(), *inputs).get_weights()):
                found[f"{case.name}/{kind}/{i:02}"] = weight
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Outputs here and in a process with KERAS_BACKEND=jax."""
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("jax")
    given = weights()
    np.savez(folder / "in.npz", **given)
    root = pathlib.Path(__file__).resolve().parents[2]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    files = [str(folder / name) for name in ("in.npz", "out.npz")]
    command = [sys.executable, "-m", "tests.layers.jax_worker", *files]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=1500)
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(folder / "out.npz") as out:
        theirs = dict(out)
    assert str(theirs.pop("backend")) == "jax"
    return jax_worker.everything(given), theirs


def check_no_errors(name, outputs):
    assert not [str(outputs[n]) for n in outputs if n.startswith(f"{name}/") and n.endswith("/error")]


def check_same(name, ours, theirs):
    check_no_errors(name, ours)
    check_no_errors(name, theirs)
    names = [n for n in ours if n.startswith(f"{name}/")]
    assert names
    for n in names:
        tolerance = 2e-2 if n.endswith("half") else 1e-5
        np.testing.assert_allclose(theirs[n], ours[n], rtol=tolerance, atol=tolerance, err_msg=n)


def test_rows_written(both):
    check_same("write_rows", *both)


@each_layer
def test_same_outputs(case, both):
    check_same(case.name, *both)


@each_layer
def test_contract_on_jax(case, both):
    _, theirs = both
    check_no_errors(case.name, theirs)
    bias = output_bias(build(case.make(), *cross_inputs()))
    for name, tolerance in (("masked", 0), ("with_scores", 0), ("half", 1e-3)):
        np.testing.assert_allclose(theirs[f"{case.name}/{name}"][1, 2], bias, rtol=tolerance, err_msg=name)
    if case.causal:
        np.testing.assert_allclose(theirs[f"{case.name}/steps"], theirs[f"{case.name}/at_once"], rtol=1e-5, atol=1e-5)

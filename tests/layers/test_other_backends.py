"""The same weights and inputs give the same outputs and gradients on Keras's other backends."""

import numpy as np
import pytest

from tests.backends import load_from, run_on
from tests.layers import backend_worker
from tests.layers.backend_worker import EVERY
from tests.layers.harness import build, cross_inputs, each, output_bias, self_input

each_layer = each(EVERY)


@pytest.fixture(scope="module")
def weights():
    """`case/kind/00`, `case/kind/01`, ... for cross and self-attention."""
    found = {}
    for case in EVERY:
        for kind, inputs in (("cross", cross_inputs()), ("self", (self_input(),) * 3)):
            for i, weight in enumerate(build(case.make(), *inputs).get_weights()):
                found[f"{case.name}/{kind}/{i:02}"] = weight
    return found


@pytest.fixture(scope="module")
def ours(weights):
    return backend_worker.everything(weights)


@pytest.fixture(scope="module")
def theirs(other_backend, weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp(other_backend)
    np.savez(folder / "in.npz", **weights)
    run_on(other_backend, "-m", "tests.layers.backend_worker", folder / "in.npz", folder / "out.npz")
    return load_from(other_backend, folder / "out.npz")


def check_no_errors(name, outputs):
    assert not [str(outputs[n]) for n in outputs if n.startswith(f"{name}/") and n.endswith("/error")]


def check_same(name, ours, theirs):
    check_no_errors(name, ours)
    check_no_errors(name, theirs)
    names = [n for n in ours if n.startswith(f"{name}/")]
    assert names
    for n in names:
        tolerance = (2e-2 if n.endswith("half") else 1e-5) * max(1, np.abs(ours[n]).max())
        np.testing.assert_allclose(theirs[n], ours[n], rtol=0, atol=tolerance, err_msg=n)


def test_rows_written(ours, theirs):
    check_same("write_rows", ours, theirs)


def test_gradients_are_there(ours, theirs):
    """They are compared with the outputs of each layer."""
    for outputs in (ours, theirs):
        check_no_errors("gradients", outputs)
        assert len([name for name in outputs if "/gradient/" in name]) > 8 * len(EVERY)


@each_layer
def test_same_outputs(case, ours, theirs):
    check_same(case.name, ours, theirs)


@each_layer
def test_contract(case, theirs):
    check_no_errors(case.name, theirs)
    bias = output_bias(build(case.make(), *cross_inputs()))
    for name, tolerance in (("masked", 0), ("biased", 0), ("with_scores", 0), ("half", 1e-3)):
        np.testing.assert_allclose(theirs[f"{case.name}/{name}"][1, 2], bias, rtol=tolerance, err_msg=name)
    if case.causal:
        np.testing.assert_allclose(theirs[f"{case.name}/steps"], theirs[f"{case.name}/at_once"], rtol=1e-5, atol=1e-5)

"""`keras.distribution` on JAX: two devices train as one does, by batches or by heads."""

import keras
import numpy as np
import pytest

from keras_headattn.models import layout_map
from tests.backends import load_from, run_on
from tests.backends.distribution_worker import ATTENTIONS


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("jax") / "out.npz"
    run_on("jax", "-m", "tests.backends.distribution_worker", path)
    return load_from("jax", path)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("kind", ["data", "model"])
def test_losses_are_those_of_one_device(attention, kind, found):
    losses = found[f"{attention}/one"]
    assert losses[2] < losses[0]
    np.testing.assert_allclose(found[f"{attention}/{kind}"], losses, rtol=2e-6)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_heads_are_split(attention, found):
    """Shapes on the first device, of kernels with two heads."""
    for kind, heads in (("one", 2), ("data", 2), ("model", 1)):
        assert tuple(found[f"{attention}/{kind}/query"]) == (8, heads, 4)
        assert tuple(found[f"{attention}/{kind}/attention_output"]) == (heads, 4, 8)
        assert tuple(found[f"{attention}/{kind}/outer"]) == (8 * heads, 8)


def test_wrong_axis():
    mesh = keras.distribution.DeviceMesh((1,), ("batch",), ["cpu:0"])
    with pytest.raises(ValueError, match="`axis` must be one of .*batch.* Received: axis='model'"):
        layout_map(mesh)

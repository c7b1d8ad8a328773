"""Files of a run that cannot be written to the end."""

import contextlib
import resource

import keras
import numpy as np
import pytest
import tensorflow as tf

from recipes.engine.callbacks import SaveEpochs, weights_of
from recipes.engine.run import Run
from recipes.engine.session import full_disk_reported
from tests.refusals import refused


@contextlib.contextmanager
def largest_file(size):
    """No file of this process becomes larger: an error as of a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture(scope="module")
def model():
    model = keras.Sequential([keras.Input((100,)), keras.layers.Dense(1000, kernel_initializer="random_normal")])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("name", ["epoch-001.weights.h5", "model.keras"])
def test_weights_are_written_in_full_or_not_at_all(name, model, tmp_path):
    run = Run(tmp_path, None)
    with largest_file(50_000), pytest.raises(OSError, match=name):
        run.save_model(model, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_the_error_names_the_newest_checkpoint(model, tmp_path):
    run = Run(tmp_path, None)
    run.checkpoints.mkdir()
    for epoch in (1, 2):
        (run.checkpoints / f"epoch-{epoch:05d}-batch-00000000.npz").touch()
    with (
        largest_file(50_000),
        pytest.raises(OSError, match=r"epoch 3 .*epoch-003.weights.h5'. The newest .*epoch-00002"),
    ):
        SaveEpochs(run, model).on_epoch_end(2, {"val_loss": 1.0})
    assert not weights_of(run, 3).exists()


def test_errors_of_tensorflow():
    with refused("disk", "a; No space left on device", OSError), full_disk_reported():
        raise tf.errors.ResourceExhaustedError(None, None, "a; No space left on device\nFailed to flush")
    with pytest.raises(tf.errors.ResourceExhaustedError), full_disk_reported():
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def test_weights_are_those_that_keras_writes(model, tmp_path):
    Run(tmp_path, None).save_model(model, tmp_path / "a.weights.h5")
    other = keras.models.clone_model(model)
    other.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])

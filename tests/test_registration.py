"""Keras finds every class of this library in a file as soon as the library is imported."""

import importlib
import inspect
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_headattn as ka
from keras_headattn import _registration

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_every_registered_class_has_a_stand_in():
    rooms = [importlib.import_module(f"keras_headattn.{room}") for room in ka.__all__]
    for room in rooms:
        for name in getattr(room, "__all__", ()):
            getattr(room, name)
    made = {name for name in keras.saving.get_custom_objects() if name.startswith("keras_headattn>")}
    known = {f"keras_headattn>{name}" for names in _registration.NAMES.values() for name in names}
    for room in _registration.ROOMS:
        known |= {f"keras_headattn>{name}" for name in importlib.import_module(f"keras_headattn.{room}").__all__}
    assert made <= known
    classes = [value for value in keras.saving.get_custom_objects().values() if inspect.isclass(value)]
    assert ka.layers.MultiHeadAttention in classes and ka.losses.LabelSmoothedCrossentropy in classes


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("imports", ["import keras_headattn, keras", "import keras, keras_headattn"])
def test_a_model_loads_after_the_import_alone(imports, tmp_path):
    x = keras.Input((3, 8))
    y = ka.layers.EncoderBlock(ka.layers.TalkingHeadsAttention(2, 4), intermediate_dim=8)(x)
    model = ka.training.Model(x, y)
    model.compile(ka.optimizers.Repulsive("adam", verbose=False), "mse")
    model.save(tmp_path / "model.keras")
    code = (
        f"{imports}, numpy\n"
        "model = keras.saving.load_model('model.keras')\n"
        "numpy.save('outputs.npy', model(numpy.ones((1, 3, 8))))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, stderr=subprocess.PIPE)
    np.testing.assert_allclose(np.load(tmp_path / "outputs.npy"), model(np.ones((1, 3, 8))), atol=1e-6)


def test_the_package_itself_imports_nothing():
    """Rooms and Keras are imported when they are used."""
    code = (
        "import sys, keras_headattn as ka\n"
        "assert ka.layers.ATTENTIONS and ka.models.SIZES\n"
        "sys.exit(sum(name in sys.modules for name in ('keras', 'tensorflow', 'numpy', 'jax', 'torch')))\n"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)

"""Keras finds every class of this library in a file as soon as the library is imported."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_headattn as ka
from tests.backends import run_on

ROOT = pathlib.Path(__file__).resolve().parents[1]
OBJECTS = {
    "layers": lambda: ka.layers.TalkingHeadsAttention(2, 4),
    "losses": lambda: ka.losses.LabelSmoothedCrossentropy(0.1),
    "metrics": lambda: ka.metrics.MatthewsCorrelationCoefficient(3),
    "models": lambda: ka.models.BiLSTMEncoder(5, 4, 2),
    "optimizers": lambda: ka.optimizers.InverseSquareRoot(0.1, 4),
    "positions": lambda: ka.positions.RotaryPositions(),
    "regularizers": lambda: ka.regularizers.Frobenius(),
    "text": lambda: ka.text.WordTokenizer(["a", "b"]),
}
# Prints, in a new process, the classes of the objects on standard input, and what other modules would register.
PROGRAM = """
import json, pkgutil, sys
import keras_headattn, keras
objects = json.load(sys.stdin)
found = {name: type(keras.saving.deserialize_keras_object(value)).__name__ for name, value in objects.items()}
known = set(keras.saving.get_custom_objects())
for module in pkgutil.walk_packages(keras_headattn.__path__, "keras_headattn."):
    __import__(module.name)
print(json.dumps([found, sorted(set(keras.saving.get_custom_objects()) - known)]))
"""


def fresh_process(code, folder=ROOT, **options):
    """Runs Python code in a process that has imported nothing of this library."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, **options
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_import_makes_every_class_known():
    objects = {name: make() for name, make in OBJECTS.items()}
    serialized = {name: keras.saving.serialize_keras_object(value) for name, value in objects.items()}
    found, others = json.loads(fresh_process(PROGRAM, input=json.dumps(serialized)))
    assert found == {name: type(value).__name__ for name, value in objects.items()}
    assert others == []


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_a_model_loads_after_the_import_alone(tmp_path):
    x = keras.Input((3, 8))
    y = ka.layers.EncoderBlock(ka.layers.TalkingHeadsAttention(2, 4), intermediate_dim=8)(x)
    model = ka.training.Model(x, y)
    model.compile(ka.optimizers.Repulsive("adam", verbose=False), "mse")
    model.save(tmp_path / "model.keras")
    code = (
        "import keras_headattn, keras, numpy\n"
        "model = keras.saving.load_model('model.keras')\n"
        "numpy.save('outputs.npy', model(numpy.ones((1, 3, 8))))\n"
    )
    fresh_process(code, tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "outputs.npy"), model(np.ones((1, 3, 8))), atol=1e-6)


def test_without_tensorflow():
    """On JAX the library imports no TensorFlow, until a module that needs it is asked for."""
    code = (
        "import sys, keras_headattn as ka\n"
        "assert ka.models.Transformer and 'tensorflow' not in sys.modules and not hasattr(ka, 'nosuch')\n"
        "assert ka.text.WordTokenizer and 'tensorflow' in sys.modules\n"
    )
    run_on("jax", "-c", code)

"""Processes with another backend of Keras than this one."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHERS = ("jax", "torch")
# PyTorch has an environment of its own, see the Makefile.
PYTHON = {"torch": os.environ.get("HEADATTN_TORCH", sys.executable)}


def skip_without(backend):
    """Skips the test where there is no such backend, or it is that of this process."""
    if PYTHON.get(backend, sys.executable) == sys.executable and importlib.util.find_spec(backend) is None:
        how = "make test-torch" if backend == "torch" else 'pip install -e ".[tests]"'
        pytest.skip(f"{backend} is not installed: {how}")
    if keras.backend.backend() == backend:
        pytest.skip(f"{backend} is the backend of this process")


def run_on(backend, *arguments, timeout=1500):
    """Runs `python *arguments` with that backend, on the CPU. Skips the test where it is not installed.

    JAX compiles each operation for each shape, which takes far longer than to run it: it does not optimize.
    """
    skip_without(backend)
    settings = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT), **settings}
    command = [PYTHON.get(backend, sys.executable), *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
    assert run.returncode == 0, run.stderr[-3000:]


def load_from(backend, path):
    """What a worker wrote on that backend: name to array."""
    with np.load(path) as out:
        found = dict(out)
    assert str(found.pop("backend")) == backend
    return found

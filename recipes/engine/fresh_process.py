"""A SavedModel in a fresh process, as a server starts."""

import json
import os
import subprocess
import sys

from keras_headattn.text import BytePairTokenizer, WordTokenizer

# A server has TensorFlow and the packages that the model needs.
PROGRAM = """
import importlib, json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
path, given, packages = json.load(sys.stdin)
for package in packages:
    importlib.import_module(package)
call = tf.saved_model.load(path).signatures["serving_default"]
%s
print(json.dumps(result))
"""


def show_page(folder, shows_heads=True):
    """Prints how to try the SavedModels in a folder in a browser."""
    print(f"Try it{', and see where its heads look' if shows_heads else ''}: python -m recipes.serve {folder}")


def packages_of(tokenizer):
    """Returns the packages that a SavedModel with this tokenizer needs besides TensorFlow."""
    return [] if type(tokenizer) in (WordTokenizer, BytePairTokenizer) else ["tensorflow_text"]


def smoke_test(path, code, given, *packages):
    """Runs a SavedModel in a fresh process; if that fails, raises an `OSError` with what the process wrote.

    Args:
        path: of the SavedModel.
        code: str, lines that make `result` of `given` by `call`, the model's signature. JSON can hold both.
        given: what the model is tried on.
        *packages: names of those to import besides TensorFlow.
    """
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM % code],
        input=json.dumps([str(path), given, packages]),
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},  # this process holds the GPUs' memory
    )
    if process.returncode:
        raise OSError(f"The SavedModel in {path} does not load by itself:\n{process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])

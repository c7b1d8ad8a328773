"""`python -m recipes.serve` as a user starts and stops it."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
import tensorflow as tf

from keras_headattn.serving._versions import save_signatures
from recipes.serve import main
from tests.recipes.commands import ROOT, run_here


@pytest.fixture
def folder(tmp_path):
    x = tf.TensorSpec((None,), tf.float32, name="x")
    save_signatures({"serving_default": (lambda x: {"y": 2 * x}, [x])}, tmp_path / "twice")
    return tmp_path / "twice"


def test_serving_to_sigterm(folder):
    command = [sys.executable, "-m", "recipes.serve", str(folder), f"again={folder}", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = []
        while not any("Ctrl-C" in line for line in lines):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        text = "".join(lines)
        url = re.search(r"The page: (http://127\.0\.0\.1:\d+)/\n", text)[1]
        assert "twice: version 1 is served: serving_default" in text and f"{url}/v1/models/again:predict" in text
        assert "production is TensorFlow Serving" in text
        with urllib.request.urlopen(f"{url}/v1/models/again:predict", b'{"instances": [2]}') as answer:
            assert json.load(answer) == {"predictions": [4.0]}
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[0]
        assert process.returncode == 0 and rest.endswith("Stopped.\n") and "Traceback" not in rest
    finally:
        process.kill()


def test_mistakes(folder, capsys):
    found = [
        run_here(main, capsys, *arguments)
        for arguments in [
            (folder / "none",),
            (folder / "1",),
            (folder, folder),
            (folder, "--label", "stable"),
            (folder, "--keep", "0"),
        ]
    ]
    for message, expected in zip(
        found,
        [
            "There is no folder of SavedModels",
            "Give the folder that has the versions",
            "Two models have the name twice",
            "--label takes names of versions, such as stable=1. Received: stable",
            "`keep` must be a positive integer",
        ],
        strict=True,
    ):
        assert message.startswith("error: ") and expected in message

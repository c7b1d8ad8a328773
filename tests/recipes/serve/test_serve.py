"""`python -m recipes.serve` as a user starts and stops it."""

import importlib
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
import tensorflow as tf

import recipes.serve
from keras_headattn.serving import save_signatures
from recipes.serve.__main__ import _find_models, main
from tests.recipes.commands import ROOT, run_here
from tests.refusals import refused


@pytest.fixture
def folder(tmp_path):
    x = tf.TensorSpec((None,), tf.float32, name="x")
    save_signatures({"serving_default": (lambda x: {"y": 2 * x}, [x])}, tmp_path / "twice")
    return tmp_path / "twice"


def test_serving_to_sigterm(folder):
    (folder.parent / "README.md").write_text("a file beside the models")
    command = [sys.executable, "-m", "recipes.serve", str(folder.parent), f"again={folder}", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = []
        while not any("Ctrl-C" in line for line in lines):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        text = "".join(lines)
        assert lines[0] == "Loading twice, again\n"  # before TensorFlow is
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


def test_folders_of_several_models(folder, tmp_path):
    (tmp_path / "other" / "3").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "README.md").write_text("a file beside the models")
    both = {"other": tmp_path / "other", "twice": folder}
    assert _find_models([str(tmp_path)]) == both
    assert _find_models([*map(str, sorted(tmp_path.iterdir()))]) == both | {"notes": tmp_path / "notes"}


def test_runs_are_no_models(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    write = (run / "config.json").write_text
    write('{"recipe": "translate", "export": "saved_models/{run}"}')
    for folder in (run, tmp_path):
        with refused("saved_models/run", folder, SystemExit):
            main([str(folder)])
    write('{"recipe": "translate", "export": null}')
    with refused(f"python -m recipes.translate export {run} --export", run, SystemExit):
        main([f"name={run}"])


def test_mistakes(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        check_mistakes(folder, capsys, other.getsockname()[1])


def check_mistakes(folder, capsys, used):
    found = [
        run_here(main, capsys, *arguments)
        for arguments in [
            (folder / "none",),
            (folder / "1" / "saved_model.pb",),
            (folder / "1",),
            (folder, folder),
            (f"a/b={folder}",),
            (folder, "--keep", "0"),
            (folder, "--port", "70000"),
            (folder, "--port", str(used)),
            (folder, "--origin", "example.com"),
        ]
    ]
    for message, expected in zip(
        found,
        [
            "There is no folder of SavedModels",
            "There is no folder of SavedModels",
            "Give the folder of all versions",
            "Two models have the name twice",
            "A model's name must fit a URL",
            "--keep must be positive. Received: 0",
            "A port must be from 0 to 65,535. Received: 70000",
            f"Give another --port or --host. Received: 127.0.0.1:{used} (Address already in use",
            "--origin must be like http://localhost:8501, without a path. Received: example.com",
        ],
        strict=True,
    ):
        assert message.startswith("error: ") and expected in message


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_missing_packages(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=rf"error: Install {package}: pip install {package} .*\[serving\]"):
        importlib.reload(recipes.serve)

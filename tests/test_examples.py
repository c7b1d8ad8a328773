"""The examples are short, use the public API alone, and do what their first lines say."""

import ast
import csv
import itertools
import json
import pathlib
import re
import runpy
import socket
import subprocess
import sys
import urllib.request

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_headattn as ka
from tests.interop.folders import VOCABULARY, write

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted((FOLDER / "notebooks").glob("*.ipynb"))
by_name = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs an example in this process; returns what it printed, and its variables."""
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        variables = runpy.run_path(str(FOLDER / name), run_name="__main__")
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out, variables

    return run


def library_names(tree):
    """All `ka.ROOM.NAME` of a script, as pairs of room and name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            room = node.value
            if isinstance(room.value, ast.Name) and room.value.id == "ka":
                yield room.attr, node.attr


@by_name
def test_an_example_is_short_and_uses_public_names_alone(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert len(text.splitlines()) <= 150
    assert f"python examples/{path.name}" in ast.get_docstring(tree)
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    packages = {"keras", "keras_headattn", "numpy", "sklearn"}
    assert {module.split(".")[0] for module in modules} <= packages | sys.stdlib_module_names
    assert not [module for module in modules if module.startswith("keras_headattn.")]
    attributes = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in attributes if name.startswith("_")]
    names = set(library_names(tree))
    assert names and not [(room, name) for room, name in names if name not in dir(getattr(ka, room))]


def test_the_list_has_every_example():
    listed = re.findall(r"^\| \[`(.+?)`\]\((.+?)\)", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == [
        (path.name, str(path.relative_to(FOLDER)))
        for path in sorted([*EXAMPLES, *NOTEBOOKS], key=lambda path: path.name)
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    keras.utils.clear_session()
    variables = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        code = "".join(cell["source"]).removeprefix("%matplotlib inline\n")
        if cell["cell_type"] == "code":
            assert cell["outputs"] or "print(" not in code, "Run the notebook before it is committed."
            names = set(library_names(ast.parse(code)))
            assert not [(room, name) for room, name in names if name not in dir(getattr(ka, room))]
            exec(compile(code, path.name, "exec"), variables)
    assert capsys.readouterr().err == ""
    if path.stem == "translate_and_serve":
        assert variables["prediction"]["translations"].startswith("heute singt eine Frau")
    else:
        assert variables["accuracy"] > 0.9 and variables["figure"].axes


def test_train_translator(run):
    small = "--num-layers 1 --hidden-dim 64 --learning-rate 0.005 --warmup-steps 50 --tokens-per-batch 1024".split()
    printed, variables = run("train_translator.py", *small, "--epochs", 10)
    right = re.findall(r"translation: (.+)\n  reference:   \1\n", printed)
    assert len(right) >= 3, printed
    model, inputs = variables["model"], variables["validation"][0][0]
    loaded = keras.saving.load_model("runs/translator/model.keras")
    np.testing.assert_allclose(loaded(inputs), model(inputs), atol=1e-5)

    sides = zip(*variables["pairs"], strict=True)
    for name, sentences in zip(("text.en", "text.de"), sides, strict=True):
        pathlib.Path(name).write_text("\n".join(sentences), encoding="utf-8")
    files = ["--source", "text.en", "--target", "text.de", "--vocabulary-size", 100, "--folder", "runs/files"]
    printed, variables = run("train_translator.py", *small, *files, "--epochs", 1, "--attention", "multi_head")
    assert variables["text"].source.vocabulary_size == 100
    assert printed.count("translation:") == 5 and pathlib.Path("runs/files/model.keras").exists()


def test_fine_tune_bert(run):
    checkpoint = write(pathlib.Path("bert"), "bert", max_position_embeddings=10)
    words = ["the", "film", "book", "song", "is", "was", "very", "good", "lovely", "bad", "awful"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    vocabulary += [f"[unused{i}]" for i in range(VOCABULARY - len(vocabulary))]
    (checkpoint / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    labels = {"good": "positive", "lovely": "positive", "bad": "negative", "awful": "negative"}
    texts = itertools.product(["film", "book", "song"], ["is", "was"], ["", "very "], labels)
    with open("reviews.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "opinion"])
        writer.writerows([f"the {noun} {verb} {very}{word}", labels[word]] for noun, verb, very, word in texts)

    columns = ["--text", "review", "--label", "opinion", "--max-length", 10, "--batch-size", 8]
    settings = ["--learning-rate", 0.005, "--epochs", 10, "--attention", "talking_heads"]
    printed, variables = run("fine_tune_bert.py", "bert", "reviews.csv", *columns, *settings)
    assert "classes: ['negative', 'positive']" in printed and "tensors copied" in printed
    assert float(re.search(r"accuracy: (\S+)", printed)[1]) >= 0.8, printed
    ids = variables["tokenizer"](variables["test"].texts)
    loaded = keras.saving.load_model("runs/bert/model.keras")
    np.testing.assert_allclose(loaded(ids), variables["model"](ids), atol=1e-5)
    served = tf.saved_model.load("runs/bert/serving/1").signatures["serving_default"]
    found = served(text=tf.constant(variables["test"].texts))["classes"][:, 0].numpy().tolist()
    assert [name.decode() for name in found] == [each.label for each in variables["classify"](variables["test"].texts)]


def test_replace_attention(run):
    printed, variables = run("replace_attention.py", "--num-layers", 1, "--epochs", 3)
    assert variables["difference"] < 1e-4
    kinds = [type(layer) for layer in variables["ours"].layers if layer.name.startswith("attention_0")]
    assert kinds == [ka.layers.TalkingHeadsAttention]
    rows = re.findall(r"^(stock|talking heads) +([\d,]+) +[\d.]+ +([\d.]+)% +[\d.]+$", printed, re.MULTILINE)
    assert [name for name, *_ in rows] == ["stock", "talking heads"]
    assert int(rows[1][1].replace(",", "")) - int(rows[0][1].replace(",", "")) == 2 * 4 * 4
    assert all(float(accuracy) > 70 for *_, accuracy in rows), printed


def test_serve(run, monkeypatch):
    pages = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def wait(process, timeout=None, wait=subprocess.Popen.wait):
        monkeypatch.setattr(subprocess.Popen, "wait", wait)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60) as answer:
            pages.append(answer.status)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    printed, _ = run("serve.py", "--folder", "saved_models/demo", "--port", port, "--keep-serving")
    assert "version 1 is AVAILABLE" in printed and pages == [200]
    assert re.findall(r": (positive|negative) \(", printed) == ["positive", "negative", "positive"], printed
    assert printed.count("looks most at '") == 3
    assert f'-v "{pathlib.Path("saved_models/demo").resolve()}:/models/demo" -e MODEL_NAME=demo' in printed


def test_look_at_heads(run):
    printed, variables = run("look_at_heads.py", "--examples", 1024, "--epochs", 3, "--attention", "talking_heads")
    assert "  decoder_0/cross_attention: queries (32, 4, 11, 16), logits" in printed
    shares = variables["shares"]
    assert shares.shape == (4,) and 0 <= shares.min() and shares.max() <= 1
    length, weights = variables["lengths"][0, 0], variables["weights"][0]
    counted = [
        np.mean([head[step].argmax() == length - 1 - step for step in range(length)])  # of one example
        for head in weights
    ]
    np.testing.assert_allclose(variables["is_right"][0].sum(axis=-1) / length, counted)
    assert len(re.findall(r"^  reverse/\S+attention: \d+\.\d\d$", printed, re.MULTILINE)) == 3
    assert pathlib.Path("runs/heads/maps.png").read_bytes().startswith(b"\x89PNG")
    shown = [image.get_array() for axes in variables["figure"].axes for image in axes.images]
    rows, columns = map(len, variables["examples"][0]["tokens"])
    for head in weights:
        assert any(image.shape == (rows, columns) and np.allclose(image, head[:rows, :columns]) for image in shown)
    page = pathlib.Path("runs/heads/maps.html").read_text(encoding="utf-8")
    assert all(example["name"] in page for example in variables["examples"])

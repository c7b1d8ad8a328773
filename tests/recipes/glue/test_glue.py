"""The recipe of GLUE from end to end, as a user runs it; training in a process of its own."""

import functools
import json

import pytest

from recipes.compare import main as compare
from recipes.glue.__main__ import main
from tests.processes import run_python
from tests.recipes.commands import quick_run, run_here


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """On pairs."""
    arguments = ["--task", "paraphrase", "--attention", "evolving", "--attention-arguments", "alpha=0.1", "beta=0.1"]
    return quick_run("glue", tmp_path_factory, *arguments, "--epochs", 1, "--max-examples", 640)


def test_the_console_is_quiet(quick):
    assert quick[1].stderr == ""


def test_a_run_leaves_measures_and_a_model(quick):
    folder, process = quick
    history = json.loads((folder / "run" / "history.json").read_text())
    assert len(history) == 1 and {"val_score", "val_accuracy", "val_loss"} <= set(history[0])
    scores = json.loads((folder / "run" / "results" / "test" / "scores.json").read_text())
    assert scores["score"] == pytest.approx(100 * scores["f1"]) and scores["examples"] == 400
    assert "of the masked words were found" in process.stdout and process.stdout.count(", labelled ") == 5
    header, *rows = (folder / "run" / "results" / "test" / "predictions.tsv").read_text().splitlines()
    assert header.split("\t") == ["label", "predicted", "0", "1", "text", "second_text"] and len(rows) == 400


def test_the_exported_model_needs_no_library(quick):
    code = f"""
import sys
sys.modules["keras_headattn"] = None
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load({str(quick[0] / "exported" / "1")!r})
texts = dict(text=tf.constant(["five euros", "one cent"]), second_text=tf.constant(["5.00 euros", "2.00 euros"]))
found = model.signatures["serving_default"](**texts)
assert found["classes"].shape == found["scores"].shape == (2, 2)
assert set(found["classes"].numpy()[0]) == {{b"0", b"1"}}
maps = model.signatures["attention"](**texts)
assert maps["weights"].shape[1:3] == (2, 2) and maps["pieces"].numpy()[0, 0] == b"[CLS]"
"""
    process = run_python("-c", code)
    assert process.returncode == 0, process.stderr
    assert (quick[0] / "exported" / "1" / "assets.extra" / "tf_serving_warmup_requests").exists()


def test_the_same_command_has_nothing_left_to_train(quick, recipe):
    arguments = ["--attention", "evolving", "--attention-arguments", "alpha=0.1", "beta=0.1", "--epochs", 1]
    same = ["--quick", "--task", "paraphrase", *arguments, "--max-examples", 640, "--run", quick[0] / "run"]
    assert "no epoch left" in recipe(*same, "--export", "none")
    assert "seed: the folder has 0, you gave 4" in recipe(*same, "--seed", 4)
    assert "falls until the last of --epochs. Received: epochs: the folder has 1" in recipe(*same, "--epochs", 2)


def test_evaluating_and_classifying_others(quick, recipe, tmp_path):
    (tmp_path / "mine.csv").write_text("text,second,label\ntwo euros,2.00 euros,1\ntwo cents,0.20 euros,0\n")
    recipe("evaluate", quick[0] / "run", "--test", tmp_path / "mine.csv", "--second-column", "second")
    assert json.loads((quick[0] / "run" / "results" / "mine" / "scores.json").read_text())["examples"] == 2
    (tmp_path / "lines.txt").write_text("two euros\t2.00 euros\none cent\t0.01 euros\n")
    lines = recipe("classify", quick[0] / "run", tmp_path / "lines.txt").splitlines()
    assert len(lines) == 2 and all(line.split()[0] in "01" for line in lines)
    (tmp_path / "lines.txt").write_text("two euros\n")
    assert "two texts with a tab" in recipe("classify", quick[0] / "run", tmp_path / "lines.txt")


def test_it_is_compared_as_other_runs(quick, capsys):
    printed = run_here(compare, capsys, "scores", quick[0] / "run")
    assert "| score |" in printed and "| mcc |" in printed
    assert "must have a pooling" in run_here(compare, capsys, "heatmap", quick[0] / "run", "--text", "a")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--config", "bert_base_cola"], "Give --train or --glue"),
        (["--glue", "{tmp}", "--task", "cola", "--checkpoint", "{tmp}"], "{tmp}"),
        (["--built-in", "--size", "none", "--run", "{tmp}/run"], "Give --checkpoint, or --size"),
        (["--glue", "{tmp}", "--task", "cola", "--size", "bert_tiny", "--run", "{tmp}/run"], "a file train.tsv"),
        (["--attention", "evolving", "--attention-arguments", "gamma=1", "--run", "{tmp}/run"], "gamma"),
        (["submit", "{tmp}/nothing"], "no run"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, message, recipe, tmp_path):
    reported = recipe(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    assert message.replace("{tmp}", str(tmp_path)) in reported
    assert reported.startswith("error: ") and "\n" not in reported


def test_words_of_pairs_are_explained(quick, recipe, tmp_path):
    (tmp_path / "lines.txt").write_text("two euros\t2.00 euros\none cent\t0.01 euros\n")
    methods = ["--methods", "cls", "received", "gradient", "lime", "--samples", 20, "--output", tmp_path / "a.html"]
    printed = recipe("explain", quick[0] / "run", "--file", tmp_path / "lines.txt", *methods)
    assert printed.count("| run: ") == 4
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [len(row["words"]) for row in rows] == [4, 4]
    assert all(len(scores) == 4 for scores in rows[0]["scores"]["run"].values())

"""The recipe of tags from end to end, as a user runs it; training in a process of its own."""

import functools
import json

import pytest

from recipes.compare import main as compare
from recipes.tag.__main__ import main
from recipes.tag.conll import read_conll, tag_scores
from tests.processes import run_python
from tests.recipes.commands import quick_run, run_here


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    arguments = ["--attention", "evolving", "--attention-arguments", "alpha=0.1", "beta=0.1"]
    return quick_run("tag", tmp_path_factory, *arguments, "--epochs", 1, "--max-examples", 800)


def test_a_run_leaves_scores_and_predictions_that_conlleval_reads(quick):
    folder, process = quick
    assert process.stderr == ""
    history = json.loads((folder / "run" / "history.json").read_text())
    assert {"val_score", "val_accuracy", "val_loss"} <= set(history[0])
    results = folder / "run" / "results" / "test"
    scores = json.loads((results / "scores.json").read_text())
    assert scores["examples"] == 200 and scores["score"] == pytest.approx(100 * scores["f1"])
    true, found = (read_conll([results / "predictions.conll"], tag_column=column).tags for column in (2, 3))
    again = tag_scores(true, found)
    assert len(true) == 200 and again["f1"] == pytest.approx(scores["f1"]) and "f1.PER" in again
    assert process.stdout.count("    -> ") == 5 and "recipes.tag predict" in process.stdout


def test_the_exported_model_needs_no_library(quick):
    code = f"""
import sys
sys.modules["keras_headattn"] = None
import tensorflow as tf, tensorflow_text
call = tf.saved_model.load({str(quick[0] / "exported" / "1")!r}).signatures["serving_default"]
found = call(text=tf.constant(["Ada Belson was born in Norville."] * 2))
assert set(found) == {{"entities", "kinds", "starts", "ends", "scores"}}
"""
    process = run_python("-c", code)
    assert process.returncode == 0, process.stderr


def test_others_are_evaluated_and_predicted(quick, recipe, tmp_path):
    (tmp_path / "mine.conll").write_text("Ada B-PER\nslept O\n\nIt O\nrained O\n")
    recipe("evaluate", quick[0] / "run", "--test", tmp_path / "mine.conll")
    assert json.loads((quick[0] / "run" / "results" / "mine" / "scores.json").read_text())["examples"] == 2
    (tmp_path / "lines.txt").write_text("Belson works for Kenia in Norville.\n\n🙂 Zoë\n")
    rows = [json.loads(line) for line in recipe("predict", quick[0] / "run", tmp_path / "lines.txt").splitlines()]
    assert len(rows) == 3 and rows[1] == {"text": "", "entities": []}
    for row in rows:
        assert all(row["text"][part["start"] : part["end"]] == part["text"] for part in row["entities"])
    assert rows[0]["entities"] and rows[2]["text"] == "🙂 Zoë"


def test_its_encoder_is_a_checkpoint(quick, recipe, tmp_path, capsys):
    (tmp_path / "a.conll").write_text("Ada B-PER\nslept O\n\nBob B-PER\nate O\n\n" * 10)
    given = ["--train", tmp_path / "a.conll", "--checkpoint", quick[0] / "run", "--epochs", 1, "--quiet"]
    printed = recipe(*given, "--run", tmp_path / "run", "--export", "none", "--max-length", 16)
    assert printed.startswith("dev: score ")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["attention"] == "evolving"
    assert "| f1.PER |" in run_here(compare, capsys, "scores", quick[0] / "run")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--built-in", "--size", "none", "--run", "{tmp}/run"], "Give --checkpoint, or --size"),
        (["--built-in", "--model-arguments", "head_dim=3"], "no such argument. Received: head_dim"),
        (["predict", "{tmp}/nothing"], "no run"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, message, recipe, tmp_path):
    reported = recipe(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    assert message in reported and reported.startswith("error: ") and "\n" not in reported

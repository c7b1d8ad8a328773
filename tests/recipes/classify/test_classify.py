"""The recipe of sentence classification from end to end, as a user runs it; training in a process of its own."""

import functools
import json

import pytest

from recipes.classify.__main__ import main
from tests.processes import run_python
from tests.recipes.commands import quick_run, run_here


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return quick_run("classify", tmp_path_factory)


def test_the_console_is_quiet(quick):
    assert quick[1].stderr == ""


def test_a_run_leaves_measures_and_a_model(quick):
    folder, process = quick
    history = json.loads((folder / "run" / "history.json").read_text())
    assert len(history) == 2 and history[1]["loss"] < history[0]["loss"] and history[0]["texts_per_second"] > 0
    results = folder / "run" / "results" / "test"
    scores = json.loads((results / "scores.json").read_text())
    assert scores["accuracy"] > 0.3 and scores["examples"] == 600 and scores["dist"] > 0  # one in twelve by chance
    assert len((folder / "run" / "labels.txt").read_text().splitlines()) == 12
    assert len((results / "confusion.txt").read_text().splitlines()) == 13
    assert len((results / "predictions.tsv").read_text().splitlines()) == 601
    assert list((folder / "run" / "tensorboard").rglob("events*"))
    assert process.stdout.count(", labelled ") == 5


def test_the_exported_model_needs_no_library(quick):
    code = f"""
import sys
sys.modules["keras_headattn"] = None
import tensorflow as tf, tensorflow_text
classify = tf.saved_model.load({str(quick[0] / "exported" / "1")!r}).signatures["serving_default"]
found = classify(text=tf.constant(["neunhunderteins", "nine hundred and one"]))
assert found["classes"].shape == found["scores"].shape == (2, 12)
"""
    process = run_python("-c", code)
    assert process.returncode == 0, process.stderr


def test_the_same_command_has_nothing_left_to_train(quick, recipe):
    before = (quick[0] / "run" / "history.json").read_text()
    printed = recipe("--quick", "--run", quick[0] / "run", "--export", "none")
    assert "no epoch left" in printed and (quick[0] / "run" / "history.json").read_text() == before
    assert "seed: the folder has 0, you gave 4" in recipe("--quick", "--run", quick[0] / "run", "--seed", 4)


def test_evaluating_another_test_set(quick, recipe, tmp_path):
    (tmp_path / "mine.csv").write_text("number,language\nsieben,German\nseven,English\n")
    arguments = ["--test", tmp_path / "mine.csv", "--text-column", "number", "--label-column", "language"]
    recipe("evaluate", quick[0] / "run", *arguments)
    assert json.loads((quick[0] / "run" / "results" / "mine" / "scores.json").read_text())["examples"] == 2
    (tmp_path / "mine.csv").write_text("number,language\nsju,Icelandic\n")
    assert "none of Czech, Danish" in recipe("evaluate", quick[0] / "run", *arguments)


def test_classifying_a_file(quick, recipe, tmp_path):
    (tmp_path / "lines.txt").write_text("siebenhundertzwei\n\nseven hundred\n")
    lines = recipe("classify", quick[0] / "run", tmp_path / "lines.txt", "--top", 2).splitlines()
    assert len(lines) == 3
    (first, one), (second, other) = (text.split() for text in lines[0].split("\t"))
    assert first != second and float(one) >= float(other)


def test_lines_that_are_cut_are_reported(quick, capsys, tmp_path):
    """By their numbers in the whole file, though it is read in portions."""
    (tmp_path / "lines.txt").write_text(
        "".join(f"{'one ' * (300 if line in (6, 280) else 2)}\n" for line in range(1, 300))
    )
    capsys.readouterr()
    main(["classify", str(quick[0] / "run"), str(tmp_path / "lines.txt")])
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 299
    assert err == "2 of 299 lines have more than 200 tokens and were cut: lines 6, 280\n"


def test_exporting_again_needs_no_data(quick, recipe):
    recipe("export", quick[0] / "run", "--export", quick[0] / "again")
    assert (quick[0] / "again" / "1" / "saved_model.pb").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--config", "nonsense"], "nonsense"),
        (["--config", "digits"], "age, number_words"),
        (["--config", "yelp", "--run", "{tmp}/run"], "Give --train"),
        (["--train", "{tmp}/none.csv", "--run", "{tmp}/run"], "{tmp}/none.csv"),
        (["--train", "{tmp}/bad.csv", "--run", "{tmp}/run"], "{tmp}/bad.csv, line 3 must have 2 columns"),
        (["--embeddings", "none.txt", "--tokens", "words", "--run", "{tmp}/run"], "none.txt"),
        (["evaluate", "{tmp}/nothing"], "no run"),
        (["classify", "{tmp}/nothing", "missing.txt"], "missing.txt"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, message, recipe, tmp_path):
    (tmp_path / "bad.csv").write_text("text,label\na,b\nc\n")
    reported = recipe(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    message = message.replace("{tmp}", str(tmp_path))
    assert message in reported and reported.startswith("error: ") and "\n" not in reported

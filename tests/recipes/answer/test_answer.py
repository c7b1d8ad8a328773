"""The recipe of questions from end to end, as a user runs it; training in a process of its own."""

import functools
import json

import pytest

from recipes.answer.__main__ import main
from recipes.answer.demo import number_questions
from recipes.answer.squad import Question, Questions, score_answers, write_squad
from tests.processes import run_python
from tests.recipes.commands import quick_run, run_here


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    arguments = ["--attention", "evolving", "--attention-arguments", "alpha=0.1", "beta=0.1", "--max-examples", 120]
    return quick_run("answer", tmp_path_factory, *arguments, "--export-arguments", "top=2")


def test_the_console_is_quiet(quick):
    assert quick[1].stderr == ""


def test_a_run_leaves_scores_answers_and_a_threshold(quick):
    folder, process = quick
    assert "120 questions" in process.stdout and process.stdout.count(", labelled ") == 5
    results = folder / "run" / "results" / "test"
    scores, answers, odds, best = (
        json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("scores", "predictions", "null_odds", "nbest_predictions")
    )
    threshold = json.loads((folder / "run" / "threshold.json").read_text())["threshold"]
    test = number_questions()["test"].sample(120)
    assert {row.id for row in test.rows} == set(answers) == set(odds) == set(best) and scores["examples"] == 120
    for row in test.rows:
        [found] = best[row.id]
        assert row.context[found["start"] : found["end"]] == found["text"] and found["text"]
        assert answers[row.id] == ("" if odds[row.id] > threshold else found["text"])
    raw = {name: rows[0]["text"] for name, rows in best.items()}
    expected = score_answers(raw, test, odds, threshold)
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


def test_the_exported_model_needs_no_library(quick):
    code = f"""
import sys
sys.modules["keras_headattn"] = None
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load({str(quick[0] / "exported" / "1")!r})
context = "Ann has two apples. " * 9
found = model.signatures["serving_default"](question=tf.constant(["How many?"]), context=tf.constant([context]))
[answers], [starts], [ends] = (found[name].numpy() for name in ("answers", "starts", "ends"))
assert len(answers) == 2 and all(context[a:b] == text.decode() for text, a, b in zip(answers, starts, ends))
assert found["has_answer"].shape == found["no_answer_score"].shape == (1,)
"""
    process = run_python("-c", code)
    assert process.returncode == 0, process.stderr
    assert (quick[0] / "exported" / "1" / "assets.extra" / "tf_serving_warmup_requests").exists()


def test_the_same_command_has_nothing_left_to_train(quick, recipe):
    same = ["--quick", "--attention", "evolving", "--attention-arguments", "alpha=0.1", "beta=0.1"]
    same += ["--max-examples", 120, "--run", quick[0] / "run", "--export", "none"]
    assert "no epoch left" in recipe(*same)
    assert "stride: the folder has 10, you gave 7" in recipe(*same, "--stride", 7)


def test_questions_of_others(quick, recipe, tmp_path):
    """Of files in SQuAD's layout, with answers and without, and of lines."""
    context = "Ann has two apples. Bob has three coins."
    rows = [
        Question("first", "How many apples does Ann have?", context, (("two", 8),)),
        Question("second", "How many coins does Bob have?", context, (("three", 28),)),
    ]
    write_squad(Questions(rows), tmp_path / "mine.json")
    recipe("evaluate", quick[0] / "run", "--test", tmp_path / "mine.json")
    scores = json.loads((quick[0] / "run" / "results" / "mine" / "scores.json").read_text())
    assert scores["examples"] == 2 and "NoAns_f1" not in scores
    (tmp_path / "v1.json").write_bytes((tmp_path / "mine.json").read_bytes())
    same = [
        "--validation",
        tmp_path / "mine.json",
        tmp_path / "v1.json",
        "--run",
        tmp_path / "run",
        "--size",
        "bert_tiny",
    ]
    assert "need ids of their own. Received: 'first'" in recipe("--train", tmp_path / "mine.json", *same)
    output = tmp_path / "answers"
    recipe("predict", quick[0] / "run", tmp_path / "mine.json", "--top", 3, "--output", output)
    best = json.loads((output / "nbest_predictions.json").read_text())
    assert [len(best[name]) for name in ("first", "second")] == [3, 3] and not (output / "scores.json").exists()
    (tmp_path / "lines.tsv").write_text(f"How many apples?\t{context}\n\nHow many coins?\t{context}\n")
    lines = recipe("predict", quick[0] / "run", tmp_path / "lines.tsv").splitlines()
    assert len(lines) == 3 and lines[1] == ""
    for line in (lines[0], lines[2]):
        if line != "no answer":
            text, start, end, score = line.split("\t")
            assert context[int(start) : int(end)] == text and 0 < float(score) < 1
    (tmp_path / "lines.tsv").write_text("How many apples?\n")
    assert "two texts with a tab" in recipe("predict", quick[0] / "run", tmp_path / "lines.tsv")


def test_training_on_files(quick, recipe, tmp_path):
    """A share of the contexts for validation, a checkpoint of another run, and no questions without answers."""
    task = number_questions(90, 3, 3)
    rows = [row for row in task["train"].rows if row.answers]
    write_squad(Questions(rows), tmp_path / "train.json")
    given = ["--train", tmp_path / "train.json", "--checkpoint", quick[0] / "run", "--epochs", 1, "--quiet"]
    sizes = ["--max-length", 48, "--max-question-length", 12, "--stride", 16, "--run", tmp_path / "run"]
    printed = recipe(*given, *sizes, "--export", "none")
    assert printed.startswith("dev: exact ") and "NoAns" not in printed and "thresh" not in printed
    assert json.loads((tmp_path / "run" / "threshold.json").read_text())["threshold"] is None
    assert json.loads((tmp_path / "run" / "config.json").read_text())["attention"] == "evolving"
    answers = json.loads((tmp_path / "run" / "results" / "dev" / "predictions.json").read_text())
    assert len(answers) == round(0.1 * len(rows)) and all(answers.values())
    recipe("evaluate", tmp_path / "run", "--max-answer-length", 3)
    assert (tmp_path / "run" / "results" / "dev,max_answer_length=3" / "scores.json").exists()


def test_made_questions_have_their_answers():
    task = number_questions(60, 30, 30)
    for questions in task.values():
        for row in questions.rows:
            assert all(row.context[start : start + len(text)] == text for text, start in row.answers)
            person = row.question.split()[-2]
            assert bool(row.answers) == (person in row.context.split())
    amounts = [{row.answers[0][0] for row in task[name].rows if row.answers} for name in ("train", "test")]
    assert not amounts[0] & amounts[1]

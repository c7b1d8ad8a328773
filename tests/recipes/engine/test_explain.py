"""Explaining runs that only look trained: the page, the picture, the scores, and what is printed."""

import functools
import json

import numpy as np
import pytest

from recipes.classify.__main__ import main
from tests.recipes.commands import drawn, run_here, run_process
from tests.recipes.test_compare import make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    words = "not so bad a film".split()
    rows = [f"{' '.join(np.roll(words, number))},{number % 3}" for number in range(60)]
    (folder / "data.csv").write_text("\n".join(["review,stars", *rows]) + "\n")
    make_run(folder / "plain", folder / "data.csv", pooling_heads=2)
    make_run(folder / "other", folder / "data.csv", pooling_heads=2, encoder="transformer", num_heads=1, seed=1)
    return folder


@pytest.fixture
def explain(capsys):
    return functools.partial(run_here, main, capsys, "explain")


METHODS = "pooling gradient integrated_gradients lime leave_one_out random".split()


def test_two_runs_side_by_side(runs, explain, tmp_path, figures):
    long = "not so bad a film , & <b> it is long"  # of which 8 words are read
    (tmp_path / "texts.txt").write_text(f"a bad film\n\n{long}\nfilm\nbad\n")
    options = "--file", tmp_path / "texts.txt", "--methods", *METHODS, "--samples", 20, "--examples", 4
    printed = explain(runs / "plain", runs / "other", *options)
    assert "The first 4 texts" in printed and "plain does not read the ends of 1 of 4 texts" in printed
    assert printed.count("| plain: ") == printed.count("| other: ") == len(METHODS)
    page = runs / "plain" / "explained" / "texts.html"
    assert str(page) in printed and "&lt;b&gt;" in page.read_text() and "other: " in page.read_text()
    words = [text.get_text() for axes in figures[0].axes for text in axes.texts]
    assert page.with_suffix(".png").exists() and {"bad", "film"} <= {*words} and all(drawn(figures[0]))
    rows = [json.loads(line) for line in page.with_suffix(".jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["a bad film", "", long, "film"]
    for row in rows:
        for by_method in row["scores"].values():
            assert list(by_method) == METHODS
            assert all(len(scores) == len(row["words"]) and not any(scores[8:]) for scores in by_method.values())
        assert all(answer.split()[0] in "012" for answer in row["answers"].values())
    assert rows[0]["scores"]["plain"]["lime"] != rows[0]["scores"]["other"]["lime"]


def test_the_console_is_quiet(runs, tmp_path):
    (tmp_path / "texts.txt").write_text("a bad film\n")
    process = run_process("classify", "explain", runs / "plain", "--file", tmp_path / "texts.txt", "--samples", 5)
    assert process.stderr == "" and "| plain: lime |" in process.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--methods", "cls"], "The model has 0 attention layers"),
        (["--samples", "0"], "--samples must be at least 1. Received: samples=0"),
        (["--output", "a.png"], "must end in .html. Received: output=a.png"),
        (["--file", "nothing.txt"], "nothing.txt"),
    ],
)
def test_mistakes(runs, explain, tmp_path, arguments, message):
    (tmp_path / "texts.txt").write_text("a film\n")
    assert message in explain(runs / "plain", "--file", tmp_path / "texts.txt", *arguments)


def test_no_texts(runs, explain, tmp_path):
    (tmp_path / "texts.txt").write_text("")
    assert "at least one text" in explain(runs / "plain", "--file", tmp_path / "texts.txt")

"""The recipe of time series from end to end, as a user runs it; training in a process of its own."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from recipes.series.__main__ import main
from recipes.series.batches import pad
from recipes.series.demo import make_demo
from tests.recipes.commands import quick_run, run_here


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


def write(path, part):
    lines = ["@timeStamps false", "@classLabel true", "@data"]
    for series, target in zip(part.series, part.targets, strict=True):
        lines.append(":".join(",".join(map(str, channel)) for channel in series.T.tolist()) + f":{target}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return quick_run("series", tmp_path_factory)


def test_a_run_leaves_scores_and_models(quick):
    folder, process = quick
    assert process.stderr == ""
    history = json.loads((folder / "run" / "history.json").read_text())
    assert len(history) == 4 and history[0]["series_per_second"] > 0
    results = folder / "run" / "results" / "test"
    scores = json.loads((results / "scores.json").read_text())
    assert set(scores) == {"rmse", "mae", "r2", "examples"} and scores["examples"] == 400
    rows = [line.split("\t") for line in (results / "predictions.tsv").read_text().splitlines()[1:]]
    errors = np.subtract(*np.array(rows, float).T)
    assert scores["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)
    assert (results / "predictions.png").stat().st_size > 1000
    assert process.stdout.count(", target ") == 5


def test_predictions_of_files(quick, recipe, tmp_path):
    part = make_demo("regression")["test"]
    path = write(tmp_path / "new.ts", part)
    found = recipe("predict", quick[0] / "run", path).split()
    rows = (quick[0] / "run" / "results" / "test" / "predictions.tsv").read_text().splitlines()[1:]
    np.testing.assert_allclose(np.array(found, float), [float(row.split("\t")[1]) for row in rows], atol=1e-4)
    (tmp_path / "narrow.ts").write_text("@classLabel false\n@data\n1,2,3\n")
    steps = [f"{number},{value},{mark}\n" for number, each in enumerate(part.series[:3]) for value, mark in each]
    (tmp_path / "steps.csv").write_text("patient,value,mark\n" + "".join(steps))
    again = recipe("predict", quick[0] / "run", tmp_path / "steps.csv", "--id-column", "patient").split()
    np.testing.assert_allclose(np.array(again, float), np.array(found[:3], float), atol=1e-4)
    assert "channels of the training set, 2. Received: 1" in recipe("predict", quick[0] / "run", tmp_path / "narrow.ts")
    assert "rmse" in recipe("evaluate", quick[0] / "run", "--test", path)


def test_classes_of_files_without_attention(recipe, tmp_path, capsys):
    parts = make_demo("classification")
    files = {name: write(tmp_path / f"{name}.ts", part) for name, part in parts.items()}
    printed = recipe(
        "--quick", "--epochs", 1, "--task", "classification", "--attention", "none", "--train", files["train"],
        "--test", files["test"], "--run", tmp_path / "run", "--export", tmp_path / "exported", "--samples", 0,
        "--max-length", 40,
    )  # fmt: skip
    assert "test: accuracy 0." in printed
    assert (tmp_path / "run" / "results" / "test" / "confusion.png").exists()
    capsys.readouterr()
    main(["predict", str(tmp_path / "run"), str(files["test"])])
    printed, warned = capsys.readouterr()
    lengths = [len(series) for series in parts["test"].series]
    assert f"{sum(length > 40 for length in lengths)} of 400 series have more than 40 steps" in warned
    call = tf.saved_model.load(tmp_path / "exported" / "1").signatures["serving_default"]
    found = call(series=tf.constant(pad(parts["test"].series, 400, max(lengths), 2)))
    assert [row[0].decode() for row in found["classes"].numpy()] == printed.split()
    assert all({*row} == {b"same", b"other"} for row in found["classes"].numpy().tolist())
    np.testing.assert_array_equal(found["scores"][:, 0], tf.reduce_max(found["scores"], axis=1))
    assert found["is_cut"].numpy().tolist() == [length > 40 for length in lengths]


def test_other_encodings(recipe, tmp_path):
    rows = [f"Größe;{n};{n}" for n in range(9)]
    (tmp_path / "train.csv").write_text("\n".join(["Zähler;s;target", *rows]), encoding="latin-1")
    found = recipe("--train", tmp_path / "train.csv", "--encoding", "latin-1", "--dry-run")
    assert "must be a finite number" in found and "'Größe'" in found


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--train", "{tmp}/none.ts"], "There is no such file. Received: --train"),
        (["--validation", "1.5"], "a share between 0 and 1. Received: 1.5"),
        (["--test", "a.ts"], "--test needs --train"),
        (["--attention", "none", "--attention-arguments", "alpha=0.1"], "--attention-arguments need --attention"),
        (["--model-arguments", "depth=3"], "DCTransformer"),
    ],
)
def test_wrong_options(recipe, tmp_path, arguments, message):
    assert message in recipe(*[each.format(tmp=tmp_path) for each in arguments])

"""The recipe of docs/own_recipe.md, from training to tagging, and one outside of `recipes`."""

import dataclasses
import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest

from recipes.engine.config import option, settings
from recipes.engine.session import Session
from recipes.engine.tables import read_scores
from tests.recipes import own
from tests.recipes.commands import ROOT, run_here, train
from tests.refusals import refused

TAGS = {"a": "DET", "the": "DET", "cat": "NOUN", "dog": "NOUN", "sleeps": "VERB", "runs": "VERB", "well": "ADV"}


@pytest.fixture
def recipe(monkeypatch):
    code = (ROOT / "docs" / "parts.py").read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 160
    module = types.ModuleType("recipes.parts")
    monkeypatch.setitem(sys.modules, "recipes.parts", module)
    exec(compile(code, "docs/parts.py", "exec"), module.__dict__)
    return module.RECIPE


def write(path, sentences, rng):
    words = list(TAGS)
    lines = [rng.choice(words, size=rng.integers(2, 7)) for _ in range(sentences)]
    path.write_text("".join(" ".join(f"{word}/{TAGS[word]}" for word in line) + "\n" for line in lines))
    return path


def test_a_recipe_of_ones_own(recipe, tmp_path, capsys):
    rng = np.random.default_rng(0)
    train, validation, test = (
        write(tmp_path / f"{name}.txt", n, rng) for name, n in (("train", 200), ("val", 20), ("test", 20))
    )
    files = ["--train", train, "--validation", validation, "--test", test]
    size = ["--hidden-dim", 16, "--num-layers", 1, "--tokens-per-batch", 128, "--learning-rate", 0.01, "--epochs", 3]
    where = ["--run", tmp_path / "run", "--export", tmp_path / "exported", "--attention", "talking_heads"]
    printed = run_here(recipe.main, capsys, *files, *size, *where)
    assert "talking_heads attention" in printed and "test: accuracy 1.0000" in printed
    assert (tmp_path / "exported" / "1" / "saved_model.pb").exists()
    (tmp_path / "lines.txt").write_text("the dog sleeps well\n")
    assert run_here(recipe.main, capsys, "tag", tmp_path / "run", tmp_path / "lines.txt") == (
        "the/DET dog/NOUN sleeps/VERB well/ADV\n"
    )
    assert "accuracy 1.0000" in run_here(recipe.main, capsys, "evaluate", tmp_path / "run", "--test", test)
    others = write(tmp_path / "others.txt", 20, rng)
    run_here(recipe.main, capsys, "evaluate", tmp_path / "run", "--test", others)
    run = recipe.run_of(tmp_path / "run")
    assert set(run.scores()) == {"test", "others"}
    assert {name for name, _ in read_scores(run.folder)} == {"test", "training"}  # the table's are the run's own
    printed = run_here(recipe.main, capsys, *files, *size[:-1], 4, *where)
    assert "Results of the earlier weights are removed" in printed and set(run.scores()) == {"test"}
    other = [*files, *size, *where, "--seed", 3]
    assert "seed: the folder has 0, you gave 3" in run_here(recipe.main, capsys, *other)
    assert "no such file" in run_here(recipe.main, capsys, "--train", "none.txt", "--validation", test).lower()


@pytest.mark.parametrize(
    "train, validation, error",
    [
        ("a/X b/Y", "a/X a/Z", "--validation has tags that --train lacks. Received: Z"),
        ("a/X\n\na/X b", "a/X", "train.txt, line 3 must have words such as cat/NOUN. Received: b"),
        ("a/X", " ", "The files have no sentences. Received: "),
        ("a/X", None, "--train needs --validation. Received: train="),
    ],
)
def test_its_errors_name_the_file_or_option(train, validation, error, recipe, tmp_path, capsys):
    arguments = ["--run", tmp_path / "run", "--export", "none"]
    for name, text in (("train", train), ("validation", validation)):
        if text is not None:
            (tmp_path / f"{name}.txt").write_text(text)
            arguments += [f"--{name}", tmp_path / f"{name}.txt"]
    assert error in run_here(recipe.main, capsys, *arguments)
    assert not (tmp_path / "run").exists()


def test_a_recipe_elsewhere(tmp_path, capsys, monkeypatch):
    arguments = ["--epochs", 5, "--learning-rate", 1e-9, "--run", tmp_path / "run", "--export", tmp_path / "exported"]
    with monkeypatch.context() as patch:
        patch.setattr(own, "score", lambda *given: None)
        patch.setattr(own, "write", lambda *given: None)
        assert "`write` must write a SavedModel into each folder" in run_here(own.RECIPE.main, capsys, *arguments)
        printed = capsys.readouterr().out
        assert "No better val_right for 1 epochs" in printed and "No scores were written for test." in printed
    (tmp_path / "run" / "finished.json").unlink()
    printed = run_here(own.RECIPE.main, capsys, *arguments)
    assert (tmp_path / "exported" / "1" / "saved_model.pb").exists() and "No scores" not in printed
    card = (tmp_path / "exported" / "1" / "README.md").read_text()
    assert "\nThey are made by the code of the recipe.\n" in card
    run = own.RECIPE.run_of(tmp_path / "run")
    assert len(run.history()) == 2 and run.scores() == {"test": {"right": pytest.approx(0.5, abs=0.5)}}


@settings(select=option("val_best", "which epochs are better"))
class Misnamed(own.OwnConfig):
    title = "data and model"


class WithoutTrainer(Session):
    def fit(self, *data, trainer, **arguments):
        super().fit(*data, **arguments)


class WithScores(Session):
    def fit(self, *data, **arguments):
        super().fit(*data, scores=lambda model: [], **arguments)


@pytest.mark.parametrize(
    "config, of, name, received",
    [
        (own.OwnConfig, WithoutTrainer, "column_trainer", "trainer=None for SentenceClassifier, which has no `inputs`"),
        (Misnamed, Session, "val_loss, val_right", "select='val_best'"),
        (Misnamed, WithScores, "val_loss, val_right", "select='val_best'"),
    ],
)
def test_errors_of_its_author(config, of, name, received, tmp_path):
    recipe = dataclasses.replace(own.RECIPE, settings=config)
    with refused(name, received):
        train(recipe, config(run=str(tmp_path / "run"), export=None), of=of)
    run = recipe.run_of(tmp_path / "run") if of is WithScores else None
    assert (tmp_path / "run").exists() == bool(run) and not (run and run.is_trained())


def test_seeds_start_it_as_it_was_started(tmp_path):
    command = [sys.executable, "tests/recipes/own.py", "--seeds", "1", "--epochs", "1", "--run", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert list(json.loads((tmp_path / "seeds.json").read_text())["test"]["right"]["values"]) == ["1"]

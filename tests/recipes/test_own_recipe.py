"""The recipe of docs/own_recipe.md, from training to tagging."""

import sys
import types

import numpy as np
import pytest

from tests.recipes.commands import ROOT, run_here

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
    other = [*files, *size, *where, "--seed", 3]
    assert "seed=0 (now 3)" in run_here(recipe.main, capsys, *other)
    assert "no such file" in run_here(recipe.main, capsys, "--train", "none.txt").lower()

"""The command `prune`, from a finished run to one with fewer heads that is scored, trained further and exported."""

import functools

import keras
import pytest

from recipes.classify.__main__ import RECIPE
from tests.recipes.commands import run_here
from tests.recipes.test_going_on import command, files, write

HEADS = ["--attention", "talking_heads", "--num-heads", 4]


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, RECIPE.main, capsys)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prune")
    write(folder / "a.csv", 20)
    RECIPE.main([*map(str, (*command(folder), *HEADS))])
    return folder


def heads(run):
    """The numbers of heads of the attention of a run's model."""
    weights = keras.saving.load_model(run / "model.keras").weights
    return {weight.shape[1] for weight in weights if weight.path.endswith("query/kernel")}


def test_a_pruned_run_is_scored_trained_further_and_exported(finished, recipe):
    before, output = files(finished / "run"), finished / "half"
    (finished / ".half.0123abcd").mkdir()  # of a killed process
    printed = recipe("prune", finished / "run", output)
    assert f"Next: python -m recipes.classify evaluate {output}" in printed
    assert files(finished / "run") == before and "--epochs 1" in printed
    assert not list(finished.glob(".half*"))
    assert heads(finished / "run") == {4} and heads(output) == {2}
    assert {path.name for path in output.iterdir()} == {
        "config.json",
        "data.json",
        "labels.txt",
        "model.keras",
        "pruned.keras",
        "vocabulary.txt",
    }
    assert "accuracy" in recipe("evaluate", output)
    pruned = files(output)
    printed = recipe("--config", output / "config.json", "--export", finished / "half_exported")
    assert "SavedModel: " in printed and (finished / "half_exported" / "1").exists()
    trained = files(output)
    assert trained["pruned.keras"] == pruned["pruned.keras"] and trained["model.keras"] != pruned["model.keras"]
    assert heads(output) == {2} and len(RECIPE.run_of(output).history()) == 1


def test_a_command_that_fails_leaves_nothing(finished, recipe, monkeypatch):
    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    before = sorted(finished.iterdir())
    monkeypatch.setattr("recipes.engine.run.Run.save_model", fail)
    ended = recipe("prune", finished / "run", finished / "failed", "--by", "ablation", "--keep", 0.25)
    assert ended == "130"
    assert sorted(finished.iterdir()) == before


def test_attention_that_cannot_lose_heads_is_refused_before_data_are_read(finished, recipe, monkeypatch, tmp_path):
    def read(config):
        raise AssertionError

    model = keras.saving.load_model(finished / "run" / "model.keras")
    monkeypatch.setattr("recipes.engine.run.Run.load_model", lambda run: model)
    monkeypatch.setattr("keras_headattn.layers.TalkingHeadsAttention.head_arguments", ())
    monkeypatch.setattr("recipes.classify.train.load_corpora", read)
    output = tmp_path / "folder" / "pruned"
    assert "cannot lose heads" in recipe("prune", finished / "run", output)
    assert not output.parent.exists()

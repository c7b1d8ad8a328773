"""Model cards of exports that are not SavedModels, and what is in the folders already. The card of a trained run is in
test_loggers_in_training.py."""

import json
import types

import pytest

from recipes.engine.model_card import export
from recipes.engine.run import Run
from recipes.pretrain.__main__ import RECIPE


@pytest.fixture
def task(tmp_path):
    """A task whose `export` writes a checkpoint to the next version, and whose run has a record."""
    config = RECIPE.settings(
        train=(str(tmp_path / "secret" / "a|b.txt"),), attention="talking_heads", average=2, average_of="best"
    )
    run = Run(tmp_path / "run", RECIPE)
    (tmp_path / "run" / "results" / "held out").mkdir(parents=True)
    history = [{"val_loss": value} for value in (3.0, 2.0, 4.0, 1.0)]
    (run.folder / "history.json").write_text(json.dumps(history))
    (run.folder / "data.json").write_text(json.dumps({"training": {"examples": 12345, "sha256": "abc"}}))
    scores = {"bleu": {"value": 30.5, "signature": "nrefs:1|case:mixed"}, "comet": None, "examples": 7}
    (run.results / "held out" / "scores.json").write_text(json.dumps(scores))

    def write(model):
        version = tmp_path / "out" / str(1 + len([*(tmp_path / "out").glob("*")]))
        (version / "masked_lm").mkdir(parents=True)
        (version.parent / ".new.ab").mkdir(exist_ok=True)
        if model.own_card:
            (version / "README.md").write_text("own")

    return types.SimpleNamespace(
        config=config, run=run, export_folders=lambda: [tmp_path / "out"], export=write, describe=lambda: "small"
    )


def model(own_card=False):
    return types.SimpleNamespace(count_params=lambda: 1234, own_card=own_card)


def test_a_card_says_what_the_record_says(task, tmp_path):
    export(task, model())
    card = (tmp_path / "out" / "1" / "README.md").read_text()
    assert "1,234 parameters, small. `recipes.pretrain` of " in card
    assert "trained it for 4 epochs. Its weights are those of the mean of epochs 2, 4." in card
    assert "Checkpoints: `masked_lm`." in card
    assert "`--train`: a|b.txt." in card and "secret" not in card
    assert "| training | 12,345 | abc |" in card
    assert r"| held out | bleu | 30.5000 | nrefs:1\|case:mixed |" in card
    assert "| held out | comet | none |  |" in card and "| held out | examples | 7 |  |" in card
    assert "| `attention` | talking_heads |" in card


def test_files_that_are_there_stay(task, tmp_path):
    (tmp_path / "out" / "1").mkdir(parents=True)
    (tmp_path / "out" / "README.md").write_text("of all versions")
    export(task, model(own_card=True))
    found = {path.relative_to(tmp_path / "out").as_posix(): path.read_text() for path in tmp_path.rglob("README.md")}
    assert found == {"README.md": "of all versions", "3/README.md": "own"}

"""Exports that are no SavedModels: their model cards, and what an interruption leaves. The card of a trained run is in
test_loggers_in_training.py."""

import json
import pathlib
import types

import pytest

from recipes.engine import exporting
from recipes.engine.exporting import export
from recipes.engine.run import Run
from recipes.pretrain.__main__ import RECIPE


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A run that has a record, its settings, and a function that writes a checkpoint to the next version."""
    monkeypatch.setattr(RECIPE.settings, "EXPORTED", ("", "_ids"))
    config = RECIPE.settings(
        train=(str(tmp_path / "secret" / "a|b.txt"),),
        attention="talking_heads",
        average=2,
        average_of="best",
        export=str(tmp_path / "out"),
    )
    run = Run(tmp_path / "run", RECIPE)
    (tmp_path / "run" / "results" / "held out").mkdir(parents=True)
    history = [{"val_loss": value} for value in (3.0, 2.0, 4.0, 1.0)]
    (run.folder / "history.json").write_text(json.dumps(history))
    (run.folder / "data.json").write_text(json.dumps({"training": {"examples": 12345, "sha256": "abc"}}))
    scores = {"bleu": {"value": 30.5, "signature": "nrefs:1|case:mixed"}, "comet": None, "examples": 7}
    (run.results / "held out" / "scores.json").write_text(json.dumps(scores))

    def write(model, *folders):
        for folder in folders:
            version = pathlib.Path(folder, "1")
            (version / "masked_lm").mkdir(parents=True)
            (version / "masked_lm" / "weights").write_text(model.own_card or "")
            if model.own_card:
                (version / "README.md").write_text(model.own_card)

    return run, config, write


def export_model(finished, model, notes=()):
    run, config, write = finished
    export(run, config, model, write, notes=notes)


def model(own_card=None):
    return types.SimpleNamespace(count_params=lambda: 1234, own_card=own_card)


def test_a_card_says_what_the_record_says(finished, tmp_path):
    export_model(finished, model())
    card = (tmp_path / "out" / "1" / "README.md").read_text()
    assert "1,234 parameters, electra, small, talking_heads attention. `recipes.pretrain` of " in card
    assert "trained it for 4 epochs. Its weights are those of the mean of epochs 2, 4." in card
    assert "Checkpoints: `masked_lm`." in card
    assert "`--train`: a|b.txt." in card and "secret" not in card
    assert "| training | 12,345 | abc |" in card
    assert r"| held out | bleu | 30.5000 | nrefs:1\|case:mixed |" in card
    assert "| held out | comet | none |  |" in card and "| held out | examples | 7 |  |" in card
    assert "| `attention` | talking_heads |" in card


def test_files_that_are_there_stay(finished, tmp_path):
    (tmp_path / "out" / "1").mkdir(parents=True)
    (tmp_path / "out" / "README.md").write_text("of all versions")
    export_model(finished, model("own"))
    found = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("README.md")}
    assert found == {"out/README.md": "of all versions", "out/2/README.md": "own", "out_ids/1/README.md": "own"}


def versions(folder):
    return {path.relative_to(folder).as_posix() for path in folder.glob("out*/*")}


def fail(*arguments, **given):
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["card", "write_version", "second write_version", "print"])
def test_an_interrupted_export_leaves_complete_versions_and_keeps_their_numbers(finished, tmp_path, monkeypatch, where):
    real, calls = exporting.write_version, []

    def second(*given):
        calls.append(given)
        return real(*given) if len(calls) == 1 else fail()

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        name = where.removeprefix("second ")
        patched.setattr(exporting, name, second if name != where else fail, raising=False)
        export_model(finished, model())
    assert versions(tmp_path) <= {"out/1", "out_ids/1"}
    for version in versions(tmp_path):
        assert (tmp_path / version / "README.md").exists()
    (tmp_path / "out" / ".new.12345678" / "half").mkdir(parents=True)
    is_shown = where == "print"  # the first call had ended
    export_model(finished, model("again"), {"export": {"quiet": True}})
    assert versions(tmp_path) == {"out/1", "out_ids/1"} | ({"out/2", "out_ids/2"} if is_shown else set())
    assert list(tmp_path.glob("out/.new.*")) == [] and finished[0].finished() == {"export": {"quiet": True}}

"""A command that is given again: it goes on with its run, or finds nothing to do, or refuses data that have changed."""

import functools
import json

import pytest

from recipes.classify.__main__ import main
from tests.recipes.commands import run_here

SIZE = (
    "--encoder transformer --model-arguments embedding_dim=8 hidden_dim=8 mlp_dim=8 --pooling-heads 2 --pooling-dim 8 "
    "--samples 0"
)
WORDS = {"good": ("fine", "lovely", "great"), "bad": ("dull", "awful", "poor")}


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


def write(path, rows, names=("good", "bad")):
    names = dict(zip(WORDS, names, strict=True))
    lines = [f"a {words[row % 3]} film {row},{names[label]}\n" for row in range(rows) for label, words in WORDS.items()]
    path.write_text("text,label\n" + "".join(lines))


def command(folder):
    return [
        "--train",
        folder / "a.csv",
        "--epochs",
        1,
        *SIZE.split(),
        "--run",
        folder / "run",
        "--export",
        folder / "out",
    ]


def files(folder):
    """The content of all files of a run but those of TensorBoard and the lock, by name."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "tensorboard"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.name != ".lock"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("going_on")
    write(folder / "a.csv", 20)
    main([*map(str, command(folder))])
    return folder


def test_nothing_is_exported_again(finished, recipe):
    before = files(finished)
    printed = recipe(*command(finished))
    assert "nothing is left to do. To export it again: python -m recipes.classify export" in printed
    assert files(finished) == before and [path.name for path in (finished / "out").iterdir()] == ["1"]


def test_more_epochs_need_a_checkpoint(finished, recipe):
    """A run whose checkpoints were removed does not begin anew."""
    before = files(finished / "run")
    (finished / "run" / "checkpoints").rename(finished / "away")
    try:
        message = recipe(*command(finished), "--epochs", 2)
        assert "no checkpoint to go on from" in message and "another --run, or at most --epochs 1. Received" in message
        assert "nothing is left to do" in recipe(*command(finished))
    finally:
        (finished / "away").rename(finished / "run" / "checkpoints")
    assert files(finished / "run") == before


@pytest.mark.parametrize(
    "rows, names, found",
    [
        (20, ("A", "B"), "training data of --train {}: as many examples, 32, which are not the same"),
        (30, ("good", "bad"), "training data of --train {}: 48 examples in place of 32"),
    ],
)
def test_data_that_changed_are_refused(rows, names, found, finished, recipe):
    before, data = files(finished / "run"), (finished / "a.csv").read_text()
    write(finished / "a.csv", rows, names)
    try:
        for arguments in (command(finished), [*command(finished), "--epochs", 3], ["evaluate", finished / "run"]):
            assert found.format(finished / "a.csv") in recipe(*arguments)
    finally:
        (finished / "a.csv").write_text(data)
    assert files(finished / "run") == before


def test_a_failed_command_leaves_no_settings(finished, recipe, monkeypatch):
    def fail(*args):
        raise ValueError("no batches")

    before = files(finished / "run")
    monkeypatch.setattr("recipes.classify.train.make_batches", fail)
    assert recipe(*command(finished), "--epochs", 3) == "error: no batches"
    assert files(finished / "run") == before


def test_another_folder_gets_the_model(finished, recipe):
    before = (finished / "run" / "model.keras").read_bytes()
    assert "SavedModel: " in recipe(*command(finished), "--export", finished / "other")
    assert [path.name for path in (finished / "other").iterdir()] == ["1"]
    assert (finished / "run" / "model.keras").read_bytes() == before


def test_more_epochs_are_exported(finished, recipe):
    assert "SavedModel: " in recipe(*command(finished), "--epochs", 2)
    assert sorted(path.name for path in (finished / "out").iterdir()) == ["1", "2"]
    assert json.loads((finished / "run" / "config.json").read_text())["epochs"] == 2

"""A run of a few texts, logged while it trains, and the model card of its export."""

import os
import re
import types

import pytest

from recipes.classify.__main__ import RECIPE
from recipes.engine import loggers
from recipes.engine.run import Run
from tests.recipes.commands import run_here

SIZES = ["--encoder", "transformer", "--attention", "talking_heads", "--num-heads", 2, "--pooling-heads", 2]
SIZES += ["--pooling-dim", 4, "--model-arguments", "num_layers=1", "embedding_dim=8", "hidden_dim=8", "mlp_dim=8"]


def train(folder, capsys, *arguments):
    """Trains in a folder that has the texts; returns what was printed."""
    rows = [f"a {word} film,{label}" for word, label in (("good", "yes"), ("bad", "no"), ("fine", "yes"))] * 8
    for name in ("train", "validation", "test"):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    files = [part for name in ("train", "validation", "test") for part in (f"--{name}", folder / f"{name}.csv")]
    where = ["--run", folder / "run", "--export", folder / "exported", "--samples", 2]
    printed = run_here(RECIPE.main, capsys, *files, *SIZES, *where, *arguments)
    assert not printed.startswith("error"), printed
    return printed


@pytest.fixture
def calls(monkeypatch):
    """What a logger is asked to do, as a list that fills."""
    found = []

    def make(run, quiet):
        return types.SimpleNamespace(
            start=lambda known, settings: found.append(("start", known, settings["attention"])) or "id",
            log=lambda epoch, values: found.append(("log", epoch, sorted(values))),
            summarize=lambda values, epoch: found.append(("scores", epoch, values["test/test/accuracy"])),
            stop=lambda failed: found.append(("stop", failed)),
        )

    monkeypatch.setitem(loggers.LOGGERS, "wandb", make)
    monkeypatch.setattr("recipes.engine.recipe.check_loggers", lambda names: None)
    return found


def test_a_logged_run_and_its_model_card(calls, tmp_path, capsys):
    train(tmp_path, capsys, "--epochs", 1)
    assert calls == []
    assert "mlflow" not in train(tmp_path, capsys, "--epochs", 2, "--loggers", "wandb")
    run = Run(tmp_path / "run", RECIPE)
    names = sorted(run.history()[0])
    accuracy = run.scores()["test"]["accuracy"]
    assert calls == [
        ("start", None, "talking_heads"), ("log", 1, names), ("log", 2, names), ("scores", 2, accuracy), ("stop", False)
    ]  # fmt: skip
    assert "nothing is left to do" in train(tmp_path, capsys, "--epochs", 2, "--loggers", "wandb")
    del calls[:]
    train(tmp_path, capsys, "--epochs", 3, "--loggers", "wandb")
    assert [call[:2] for call in calls] == [("start", "id"), ("log", 3), ("scores", 3), ("stop", False)]
    check_card(tmp_path, accuracy)
    (tmp_path / "exported" / "1" / "README.md").write_text("mine")
    run_here(RECIPE.main, capsys, "export", tmp_path / "run")
    assert (tmp_path / "exported" / "1" / "README.md").read_text() == "mine"
    assert (tmp_path / "exported" / "4" / "README.md").read_text().startswith("---\nlibrary_name: keras\n")


def check_card(folder, accuracy):
    """Reads the second version's card as a user does: its facts, and that its code runs."""
    card = (folder / "exported" / "2" / "README.md").read_text(encoding="utf-8")
    begin, *parts = re.split("^## ", card, flags=re.MULTILINE)
    parts = dict(part.split("\n", 1) for part in parts)
    assert "- talking_heads\n---\n\n# exported, version 2\n" in begin
    assert (
        re.search(r"^\d{3,} parameters|^\d,\d{3} parameters", begin, re.MULTILINE)
        and "trained it for 2 epochs" in begin
    )
    assert "`--train`: train.csv.\n" in parts["Data"] and "| training | 24 | " in parts["Data"]
    assert f"| test | accuracy | {accuracy:.4f} |" in parts["Scores"]
    assert (
        "| `attention` | talking_heads |" in parts["Settings"]
        and "`model_arguments.mlp_dim` | 8 |" in parts["Settings"]
    )
    assert str(folder) not in card  # others have other folders
    (code,) = re.findall("^```python\n(.*?)^```", parts["Use"], re.MULTILINE | re.DOTALL)
    before, found = os.getcwd(), {}
    try:
        os.chdir(folder)
        exec(code, found)
    finally:
        os.chdir(before)
    assert set(found["outputs"]) == {"classes", "scores", "is_cut"}
    for name, tensor in found["outputs"].items():
        assert f"`{name}` (None{', 2' if name != 'is_cut' else ','}) {tensor.dtype.name}" in parts["Use"]


@pytest.mark.filterwarnings("default")  # theirs
@pytest.mark.parametrize("service", ["wandb", "mlflow"])
def test_the_real_packages_offline(service, tmp_path, capsys, monkeypatch):
    package = pytest.importorskip(service, reason=f"{service} is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    train(tmp_path, capsys, "--epochs", 1, "--loggers", service)
    train(tmp_path, capsys, "--epochs", 2, "--loggers", service)
    ids = loggers.read_json(tmp_path / "run" / loggers.IDS)
    if service == "wandb":
        assert len([*(tmp_path / "run" / "wandb").glob(f"offline-run-*-{ids['wandb']}")]) == 2
        return
    client = package.MlflowClient()
    (experiment,) = client.search_experiments(filter_string="name = 'classify'")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_id == ids["mlflow"] and run.data.params["attention"] == "talking_heads"
    losses = [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, "val_loss")]
    assert losses == [(n, logs["val_loss"]) for n, logs in enumerate(Run(tmp_path / "run", RECIPE).history(), 1)]
    assert "test/test/accuracy" in run.data.metrics

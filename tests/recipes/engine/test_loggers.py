"""Loggers of runs, with fakes of the services' packages. test_loggers_in_training.py has the real ones."""

import json
import sys
import types

import pytest

from recipes.classify.__main__ import RECIPE
from recipes.engine.loggers import IDS, RunLoggers
from recipes.engine.run import Run
from tests.recipes.commands import run_here
from tests.refusals import refused


class Service:
    """The calls of both packages that the loggers make, noted in `calls`, and the runs that were begun."""

    def __init__(self):
        self.calls, self.fails = [], False

    def note(self, *call):
        if self.fails:
            raise ConnectionError("no network")
        self.calls.append(call)

    def of(self, name):
        return [call[1:] for call in self.calls if call[0] == name]


@pytest.fixture
def service(monkeypatch):
    found = Service()

    def init(**given):
        found.note("start", given["id"], given["config"])
        return types.SimpleNamespace(
            id=given["id"],
            define_metric=lambda *names, **named: None,
            log=lambda values: found.note("log", values.pop("epoch"), values),
            summary=types.SimpleNamespace(update=lambda values: found.note("scores", values)),
            finish=lambda exit_code: found.note("stop", exit_code),
        )

    def start_run(run_id, run_name):
        found.note("start", run_id, run_name)
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_id or "new"))

    wandb = dict(init=init, Settings=lambda **given: given)
    mlflow = dict(
        start_run=start_run,
        set_experiment=lambda name: found.note("experiment", name),
        log_params=lambda params: found.note("parameters", params),
        log_metrics=lambda values, step: found.note("log", step, values),
        end_run=lambda status: found.note("stop", status),
    )
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(**wandb))
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(**mlflow))
    for name in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    return found


def loggers_of(folder, *names):
    return RunLoggers(names, Run(folder, RECIPE))


def ids(folder):
    return json.loads((folder / IDS).read_text())


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_an_interrupted_run_goes_on(service, tmp_path, name):
    loggers = loggers_of(tmp_path, name)
    with pytest.raises(KeyboardInterrupt), loggers.closing():
        loggers.open({"seed": 3})
        loggers.log_epoch(0, {"loss": 2.0})
        raise KeyboardInterrupt
    known = ids(tmp_path)[name]
    loggers = loggers_of(tmp_path, name)
    with loggers.closing():
        loggers.open({"seed": 4})
        loggers.log_epoch(1, {"loss": 1.0})
    assert [call[0] for call in service.of("start")] == [None if name == "mlflow" else known, known]
    assert ids(tmp_path)[name] == known
    assert service.of("log") == [(1, {"loss": 2.0}), (2, {"loss": 1.0})]
    assert service.of("stop") == ([(1,), (0,)] if name == "wandb" else [("FAILED",), ("FINISHED",)])
    if name == "mlflow":  # whose parameters cannot change
        assert service.of("parameters") == [({"seed": 3},)] and service.of("experiment") == [("classify",)] * 2


def test_scores_of_test_sets(service, tmp_path):
    (tmp_path / "history.json").write_text('[{"loss": 2.0}, {"loss": 1.0}]')
    loggers = loggers_of(tmp_path, "wandb", "mlflow")
    with loggers.closing():
        loggers.open({})
        loggers.log_scores({"a": {"accuracy": 0.5, "auc": None}, "b,beam_size=4": {"accuracy": 1.0}})
    assert service.of("scores") == [({"test/a/accuracy": 0.5, "test/b,beam_size=4/accuracy": 1.0},)]
    # A run that begins at the service late is given the epochs that are done.
    epochs = [(1, {"loss": 2.0}), (2, {"loss": 1.0})]
    assert service.of("log") == [*epochs, *epochs, (2, {"test/a/accuracy": 0.5, "test/b_beam_size_4/accuracy": 1.0})]


def test_training_goes_on_without_a_network(service, tmp_path, capsys):
    loggers = loggers_of(tmp_path, "mlflow")
    with loggers.closing():
        loggers.open({})
        for epoch in range(4):
            service.fails = epoch % 2 == 1
            loggers.log_epoch(epoch, {"loss": 3.0})
        assert "mlflow did not take epoch 2: no network" in capsys.readouterr().out
        assert [epoch for epoch, _ in service.of("log")] == [1, 2, 3]  # epoch 2 with epoch 3
    assert "mlflow could not be closed: no network" in capsys.readouterr().out


def test_a_service_that_refuses_the_run_is_an_error(service, tmp_path):
    service.fails = True
    with refused("--loggers wandb: no network", "loggers=wandb"):
        loggers_of(tmp_path, "wandb").open({})
    assert not (tmp_path / IDS).exists()


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_missing_packages_are_reported_before_data_are_read(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    told = run_here(RECIPE.main, capsys, "--train", tmp_path / "none.csv", "--loggers", name)
    assert told.startswith(f"error: Install {name}: pip install {name} (or,") and told.endswith('".[loggers]")')


def test_loggers_are_none_by_default(service, tmp_path):
    loggers = loggers_of(tmp_path)
    with loggers.closing():
        loggers.open({})
        loggers.log_epoch(0, {"loss": 1.0})
    assert service.calls == [] and list(tmp_path.iterdir()) == []

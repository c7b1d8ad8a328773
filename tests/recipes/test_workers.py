"""The recipe in two processes that train together, against two replicas of one process."""

import json
import os

import numpy as np
import pytest

from recipes.engine.run import Run
from recipes.translate.__main__ import RECIPE
from tests.processes import CONTEXT, free_addresses, wait

SIZE = "--quick --config numbers --max-sentences 300 --validation-sentences 9 --beam-size 1 --export none"


def train(folder, log, tf_config, arguments):
    file = os.open(log, os.O_CREAT | os.O_WRONLY, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if tf_config:
        os.environ["TF_CONFIG"] = json.dumps(tf_config)
    from recipes.translate.__main__ import main

    main([*SIZE.split(), "--run", str(folder), *arguments])


def start(folder, log, tf_config, *arguments):
    """Starts the recipe in a process of its own."""
    process = CONTEXT.Process(target=train, args=(folder, log, tf_config, arguments))
    process.start()
    return process


def clusters():
    """TF_CONFIG of two workers on this machine."""
    addresses = free_addresses(2)
    return [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}} for index in range(2)]


def end(folder):
    """What a finished run leaves: model and optimizer, the history without times, the translations.

    Biases of attention keys are left out: their true gradient is 0, and Adam makes steps of what rounding leaves of it.
    """
    history = json.loads((folder / "history.json").read_text())
    for epoch in history:
        assert epoch.pop("tokens_per_second") > 0 and epoch.pop("training_seconds") > 0
    with np.load(sorted((folder / "checkpoints").glob("epoch-*.npz"))[-1]) as arrays:
        variables = {name: arrays[name] for name in arrays.files if name.startswith("optimizer")}
    weights = Run(folder, RECIPE).load_model().weights
    variables |= {weight.path: weight.numpy() for weight in weights if not weight.path.endswith("key/bias")}
    return variables, history, (folder / "results" / "test" / "hypotheses.txt").read_text().splitlines()


def files(folder):
    """Paths of a run's files, but for the other worker's checkpoints; those of TensorBoard without process and time."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path).partition(".tfevents")[0] for path in paths if "worker-1" not in path.parts)


def test_two_workers_end_as_two_replicas(tmp_path):
    run, expected = tmp_path / "workers", tmp_path / "replicas"
    logs = [tmp_path / name for name in ("chief.log", "worker.log", "replicas.log")]
    processes = [
        start(run, log, config, "--strategy", "multi_worker") for log, config in zip(logs[:2], clusters(), strict=True)
    ]
    processes.append(start(expected, logs[2], None, "--replicas", "2"))
    assert wait(processes) == [0, 0, 0], [log.read_text() for log in logs]
    (variables, history, translations), (other_variables, other_history, other_translations) = end(run), end(expected)
    assert variables.keys() == other_variables.keys() and len(history) == 2
    for name, value in other_variables.items():
        np.testing.assert_allclose(variables[name], value, rtol=1e-5, atol=2e-6, err_msg=name)
    for epoch, other in zip(history, other_history, strict=True):
        assert epoch == pytest.approx(other, rel=1e-4)
    same = [one == other for one, other in zip(translations, other_translations, strict=True)]
    assert len(same) == 300 and sum(same) > 290  # rounding may tip a word
    # Only the chief writes and prints.
    assert files(run) == files(expected)
    assert {path.suffix for path in (run / "checkpoints" / "worker-1").iterdir()} == {".npz"}
    assert "2 replica(s)" in logs[0].read_text() and logs[1].read_text() == ""

"""Processes that train together do what one does, and go on after one was killed."""

import json
import multiprocessing.connection
import pathlib
import signal
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.training import make_strategy
from keras_headattn.training._distribution import workers
from tests.processes import CONTEXT, free_addresses, wait

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import worker  # noqa: E402  (the processes must find it by the same name)


@pytest.fixture
def start(tmp_path):
    """Runs workers to their end; how they ended, and the seconds from the first to the last."""

    def run(task, number, interrupted=None, **options):
        cluster = {"worker": free_addresses(number)}
        group = []
        for index in range(number):
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            arguments = options | {"interruption": (interrupted or {}).get(index)}
            output = str(tmp_path / f"{task}-{index}")
            group.append(CONTEXT.Process(target=worker.main, args=(task, config, output), kwargs=arguments))
        for process in group:
            process.start()
        multiprocessing.connection.wait([process.sentinel for process in group], timeout=600)
        first = time.monotonic()
        return wait(group), time.monotonic() - first

    return run


def results(path):
    with np.load(path) as file:
        return dict(file)


def test_three_workers_train_as_one_process(start, tmp_path):
    """Of a batch of 8 rows they have 3, 3 and 2; of the last one, of 5, they have 2, 2 and 1."""
    assert start("train", 3)[0] == [0, 0, 0]
    expected, _ = worker.train(make_strategy(1))
    for index in range(3):
        found = results(tmp_path / f"train-{index}.npz")
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=2e-6, err_msg=name)
    assert [path.name for path in tmp_path.glob("*.keras")] == ["train-0.keras"]


def checkpoints(folder):
    return sorted(path.name for path in folder.glob("epoch-*.npz"))


def test_two_workers_killed_and_terminated(start, tmp_path):
    """They end as two replicas of one process do that nothing interrupts, bit for bit."""
    folder = tmp_path / "checkpoints"
    codes, seconds = start("resume", 2, folder=folder, interrupted={1: (signal.SIGKILL, 4)})
    assert codes == [138, -signal.SIGKILL]
    assert seconds < 60 + 60  # a minute to notice it, and to end on a busy machine
    message = (tmp_path / "resume-0.txt").read_text()
    assert "Another worker has ended or cannot be reached. Restart all 2 workers" in message

    assert start("resume", 2, folder=folder, interrupted={0: (signal.SIGTERM, 2)})[0] == [143, 143]
    assert checkpoints(folder) == checkpoints(folder / "worker-1")

    assert start("resume", 2, folder=folder)[0] == [0, 0]
    expected = worker.resume(make_strategy(2), tmp_path / "uninterrupted")
    for index in range(2):
        found = results(tmp_path / f"resume-{index}.npz")
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_alone(monkeypatch, capsys, index):
    task = {"type": "worker", "index": index}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": free_addresses(2)}, "task": task}))
    with pytest.raises(SystemExit) as ended:
        make_strategy(kind="multi_worker", timeout=0.5)
    assert ended.value.code == 138
    assert "Not all workers came within 0.5 seconds. Restart all of them. Received: {" in capsys.readouterr().err


@pytest.mark.parametrize("lost_at", [None, 1, 2])
def test_leave_together(monkeypatch, lost_at):
    """Without the others at the first meeting a worker fails; at the second they may have left."""
    calls = []

    def meet(values):
        calls.append(values)
        if len(calls) == lost_at:
            raise tf.errors.UnavailableError(None, None, "Socket closed")
        return tf.zeros((2, 1))

    monkeypatch.setattr(workers, "num_workers", lambda strategy: 2)
    monkeypatch.setattr(workers, "_gatherer", lambda strategy: meet)
    if lost_at == 1:
        with pytest.raises(SystemExit, match="138"):
            workers.leave_together(None)
    else:
        workers.leave_together(None)
    assert len(calls) == (lost_at or 2)

"""Runs in processes of their own that are killed, interrupted, terminated, or find the disk full."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks.interruptions import Outcome, compare, finish, full_disk, kills, stop, uninterrupted
from tests.training.script import train

ROOT = pathlib.Path(__file__).parents[2]
LIMIT = 300  # seconds, on a busy machine


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return uninterrupted("Resume", tmp_path_factory.mktemp("runs") / "uninterrupted")


def test_killed_at_random_steps(expected, tmp_path):
    assert kills("Resume", tmp_path / "run", expected, times=3) == Outcome(0, True)


def test_terminated(expected, tmp_path):
    assert stop("Resume", tmp_path, 5, signal.SIGTERM) == 128 + signal.SIGTERM
    finish("Resume", tmp_path)
    assert compare(tmp_path, expected) == Outcome(0, True)


def test_a_full_disk(expected, tmp_path):
    assert full_disk("Resume", tmp_path / "run", expected) == Outcome(0, True)
    assert "cannot be written" in (tmp_path / "run" / "log.txt").read_text()


def wait_for(is_there):
    deadline = time.monotonic() + LIMIT
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def interrupt(folder, event, seconds, times=1):
    """Interrupts the script at an event, again when it has answered; the exit code of the shell, and the output."""
    shell = ["sh", "-c", '"$@"; exit $?', "sh"]
    command = [*shell, sys.executable, "-m", "tests.training.script", str(folder), event, str(seconds)]
    reached, log = folder / "reached", folder / "log.txt"
    reached.unlink(missing_ok=True)
    with open(log, "wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
        wait_for(lambda: reached.exists() and reached.read_text() or process.poll() is not None)
        for number in range(times):
            os.kill(int(reached.read_text()), signal.SIGINT)
            if number + 1 < times:
                wait_for(lambda: "Press Ctrl-C again" in log.read_text())
        return process.wait(LIMIT), log.read_text()


def test_ctrl_c_in_a_script(tmp_path):
    """Twice at once, then at a step, then within validation. Weights and history are those of an uninterrupted run."""
    code, output = interrupt(tmp_path, "on_train_batch_end", 10 * LIMIT, times=2)
    assert code == 130 and output.count("Press Ctrl-C again") == 1
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["epoch-00000-batch-00000000.npz"]

    code, output = interrupt(tmp_path, "on_train_batch_begin", 0.5)
    assert code == 130 and "Saving, then training ends. Press Ctrl-C again to end at once" in output, output
    assert (tmp_path / "checkpoints" / "epoch-00000-batch-00000003.npz").exists()

    code, output = interrupt(tmp_path, "on_test_batch_end", 10 * LIMIT)
    assert code == 130 and f"The state is saved in {tmp_path / 'checkpoints'}." in output, output
    assert (tmp_path / "checkpoints" / "epoch-00000-batch-00000006.npz").exists()

    (tmp_path / "whole").mkdir()
    found, expected = train(tmp_path), train(tmp_path / "whole")
    for ours, theirs in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found[2] == expected[2]

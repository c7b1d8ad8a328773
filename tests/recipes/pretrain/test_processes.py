"""Work in several processes, which end with the one that began them."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from recipes.pretrain.processes import in_processes
from tests.refusals import refused

SCRIPT = """
import os, pathlib, sys, time
sys.path[:0] = {path!r}
from recipes.pretrain.processes import in_processes

def work(folder):
    pathlib.Path(folder, str(os.getpid())).touch()
    time.sleep(1000)

if __name__ == "__main__":
    list(in_processes(work, [sys.argv[1]] * 2, 2))
"""


def is_alive(pid):
    status = pathlib.Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_they_end_with_the_first_one(tmp_path, number):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(path=sys.path))
    (tmp_path / "pids").mkdir()
    process = subprocess.Popen([sys.executable, script, tmp_path / "pids"])
    deadline = time.monotonic() + 60
    while len(pids := os.listdir(tmp_path / "pids")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait() == -number and len(pids) == 2
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


def test_few_items_are_held(tmp_path):
    drawn = []

    def items():
        for item in range(8):
            drawn.append(item)
            yield -item

    for number, found in enumerate(in_processes(abs, items(), 2)):
        assert found == number and len(drawn) <= number + 4


def test_errors_are_those_of_the_work():
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_processes(int, ["1", "a"], 2))


def test_a_process_that_is_killed():
    with refused("process", "2 processes", OSError):
        list(in_processes(_end, range(2), 2))


def _end(item):
    os.kill(os.getpid(), signal.SIGKILL)

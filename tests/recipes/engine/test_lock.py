import errno
import fcntl
import subprocess
import sys

import pytest

from recipes.engine.run import locked

HOLD = """
import sys, time
from recipes.engine.run import locked
with locked(sys.argv[1], "taken"):
    print("held", flush=True)
    time.sleep(1000)
"""


def test_one_process_at_a_time_until_it_is_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "run"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="taken already"), locked(tmp_path / "run", "taken already"):
            pass
    finally:
        process.kill()
        process.communicate()
    with locked(tmp_path / "run", "taken still"):
        pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_file_systems_without_locks(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path, "taken"):
        pass


def test_a_new_folder_that_stays_empty_is_removed(tmp_path):
    for name, is_new in (("new", True), ("old", False)):
        with locked(tmp_path / name, "taken", is_new):
            pass
    with locked(tmp_path / "used", "taken", is_new=True):
        (tmp_path / "used" / "config.json").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "used"]


def test_a_folder_that_was_removed_while_it_was_waited_for(tmp_path, monkeypatch):
    flock, calls = fcntl.flock, []

    def removed(file, operation):
        calls.append(operation)
        if len(calls) == 1:
            (tmp_path / "run" / ".lock").unlink()
            (tmp_path / "run").rmdir()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", removed)
    with locked(tmp_path / "run", "taken"):
        assert (tmp_path / "run" / ".lock").exists()
    assert len(calls) == 2

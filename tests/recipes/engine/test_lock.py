import errno
import fcntl
import subprocess
import sys

import pytest

from recipes.engine.lock import locked

HOLD = """
import sys, time
from recipes.engine.lock import locked
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

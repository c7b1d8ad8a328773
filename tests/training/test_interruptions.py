"""Runs in processes of their own that are killed, terminated, or find the disk full."""

import signal

import pytest

from benchmarks.interruptions import Outcome, compare, finish, full_disk, kills, stop, uninterrupted


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

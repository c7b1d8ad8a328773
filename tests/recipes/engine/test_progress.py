import types

import pytest

from keras_headattn import _terminal as terminal_module
from recipes.engine import progress


@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def terminal(monkeypatch):
    stdout = types.SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(terminal_module, "sys", types.SimpleNamespace(stdout=stdout, modules={}))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_log_has_a_line_a_minute(clock, capsys):
    report = progress.progress_bar("Translating test", 3000)
    for done in range(0, 3001, 10):
        clock.now = done / 10
        report(done)
    assert capsys.readouterr().out.splitlines() == [
        "Translating test",
        "Translating test: 600 of 3,000, about 4 min left",
        "Translating test: 1,200 of 3,000, about 3 min left",
        "Translating test: 1,800 of 3,000, about 2 min left",
        "Translating test: 2,400 of 3,000, about 60 s left",
        "Translating test: 3,000 in 5 min",
    ]


def test_a_terminal_has_a_bar(terminal, capsys):
    report = progress.progress_bar("Translating test", 20)
    report(10)
    report(20)
    out = capsys.readouterr().out
    assert "\r" in out and "20/20" in out


def test_quiet(terminal, capsys):
    progress.progress_bar("Translating test", 20, quiet=True)(20)
    assert capsys.readouterr().out == ""

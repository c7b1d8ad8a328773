import io
import sys
import types

import pytest

from recipes.engine.command import Command, portions, report_cut, run_command


def run(function, arguments=(), **options):
    """What the process ends with."""
    commands = {"train": Command(function, "trains", **options), "evaluate": Command(function, "scores")}
    with pytest.raises(SystemExit) as end:
        run_command("mine", "A recipe.", commands, arguments)
    return end.value.code


@pytest.mark.parametrize("arguments, again", [([], True), (["train"], True), (["evaluate"], False)])
def test_the_end_after_ctrl_c(arguments, again, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    assert run(interrupted, arguments, continues=True) == 130
    assert capsys.readouterr().err == "\nInterrupted." + " Run the same command to continue." * again + "\n"


@pytest.mark.parametrize("error", [ValueError, OSError, ImportError])
def test_mistakes_are_reported_in_one_line(error):
    def fail(options):
        raise error("Received: nothing")

    assert run(fail) == "error: Received: nothing"


def test_a_file_may_follow_options():
    def add(parser):
        parser.add_argument("folder")
        parser.add_argument("file", nargs="?")
        parser.add_argument("--scores", action="store_true")

    def show(options):
        raise ValueError(f"{options.folder} {options.file} {options.scores}")

    assert run(show, ["train", "runs/mine", "--scores", "lines.txt"], add=add) == "error: runs/mine lines.txt True"


def test_help_lists_the_commands(capsys):
    commands = {"train": Command(print, "trains"), "score": Command(print, "scores")}
    run_command("mine", "A recipe.", commands, ["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A recipe." and "  score        scores" in lines


def test_segments_are_lines(tmp_path, monkeypatch):
    """Of a file and of standard input."""
    text = b'<?xml version="1.0"?>\n<seg id="1">a</seg>\n<seg id="2">b &amp; c</seg>\n'
    (tmp_path / "a.xml").write_bytes(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert list(portions("-")) == list(portions(tmp_path / "a.xml")) == [["a", "b & c"]]


def test_lines_come_in_portions(tmp_path, monkeypatch):
    (tmp_path / "lines.txt").write_text("a\n\nb\n")
    assert list(portions(tmp_path / "lines.txt", 2)) == [["a", ""], ["b"]]
    typed = types.SimpleNamespace(buffer=io.BytesIO(b"a\nb"), isatty=lambda: True)
    monkeypatch.setattr(sys, "stdin", typed)
    assert list(portions("-")) == [["a"], ["b"]]


def test_lines_that_were_cut_are_named(capsys):
    report_cut([], 9, 64)
    report_cut([6, 280], 299, 64)
    report_cut(list(range(1, 12)), 12, 64)
    two, many = capsys.readouterr().err.splitlines()
    assert two == "2 of 299 lines have more than 64 tokens and were cut: lines 6, 280"
    assert many.endswith("lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...")

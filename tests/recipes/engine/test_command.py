import argparse

import pytest

from recipes.engine.command import run_command, starts_afresh


def parser():
    parser = argparse.ArgumentParser()
    train = parser.add_subparsers(dest="command").add_parser("train")
    train.add_argument("--quick", action="store_true")
    train.add_argument("--run", default=argparse.SUPPRESS)
    return parser


@pytest.mark.parametrize(
    "arguments, goes_on",
    [([], True), (["--quick"], False), (["--quick", "--run", "mine"], True), (["--run", "x"], True)],
)
def test_whether_the_same_command_goes_on_after_an_interruption(arguments, goes_on):
    def interrupted(options):
        assert starts_afresh(options) is not goes_on
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        run_command(parser(), {"train": interrupted}, arguments)
    assert end.value.code == "\nInterrupted." + " The same command goes on." * goes_on


@pytest.mark.parametrize("error", [ValueError, OSError, ImportError])
def test_mistakes_are_reported_in_one_line(error):
    def fail(options):
        raise error("Received: nothing")

    with pytest.raises(SystemExit) as end:
        run_command(parser(), {"train": fail}, [])
    assert end.value.code == "error: Received: nothing"

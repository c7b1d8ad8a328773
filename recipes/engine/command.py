"""Command line of recipes: one sub-command at a time, errors in one line."""

import argparse
import contextlib
import dataclasses
import importlib.util
import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable

from keras_headattn._files import decode_lines
from keras_headattn._sentences import read_sentences, sentences_of
from recipes.engine.config import suggestion


@dataclasses.dataclass(frozen=True)
class Command:
    """Sub-command.

    Args:
        run: function of the options.
        help: str, a line.
        add: function that adds its arguments to an `argparse.ArgumentParser`.
        continues: True if the same command goes on after an interruption.
        filters: True if its output may be cut short, as by `| head`.
    """

    run: Callable
    help: str
    add: Callable = lambda parser: None
    continues: bool = False
    filters: bool = False


def run_command(name, doc, commands, arguments=None):
    """Runs one of the commands of the module `recipes.NAME`; the first if none is named. `doc` is what `--help` prints
    first.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    default = next(iter(commands))
    if arguments[:1] in (["-h"], ["--help"]):
        lines = [f"  {command_name:<12} {command.help}" for command_name, command in commands.items()]
        print(doc.strip(), f"\nCommands, each with its own --help; without one, {default}:", *lines, sep="\n")
        return
    is_named = bool(arguments) and not arguments[0].startswith("-")
    if is_named and arguments[0] not in commands:
        near = suggestion(arguments[0], commands)
        sys.exit(f"error: The commands are {', '.join(commands)}. Received: {arguments[0]}{near}")
    chosen = arguments.pop(0) if is_named else default
    command = commands[chosen]
    parser = Parser(prog=f"python {' '.join(program(name))} {chosen}", description=command.help)
    command.add(parser)
    with one_line_errors(again=command.continues, filters=command.filters):
        command.run(parser.parse_intermixed_args(arguments))


def program(name):
    """Returns the arguments of Python that start a recipe: `-m recipes.NAME`, or the module or script that runs."""
    main = sys.modules["__main__"]
    if getattr(getattr(main, "RECIPE", None), "name", None) == name and not importlib.util.find_spec(f"recipes.{name}"):
        return ["-m", main.__spec__.name.removesuffix(".__main__")] if main.__spec__ else [sys.argv[0]]
    return ["-m", f"recipes.{name}"]


class Parser(argparse.ArgumentParser):
    """Parser that takes no abbreviated options, and suggests the option that a wrong one may stand for."""

    sources = ()  # names of the settings that name the data

    def __init__(self, **arguments):
        super().__init__(allow_abbrev=False, add_help=False, **arguments)
        self._help = self.add_argument("-h", "--help", action=_Help, nargs=0, help="show this help")
        self._last_shown = None

    def shorten_help(self, last):
        """Lets `--help` show options up to the group `last`, and the epilog; `--help all` shows all."""
        self._last_shown, self._help.nargs, self._help.const, self._help.metavar = last, "?", "", "all"

    def format_shown(self):
        """Returns the help that `--help` shows."""
        if self._last_shown is None:
            return self.format_help()
        parts = self.format_help().split("\n\n")
        (last,) = [index for index, part in enumerate(parts) if part.startswith(f"{self._last_shown}:")]
        return "\n\n".join([*parts[: last + 1], f"All options: {self.prog} --help all", parts[-1]])

    def error(self, message):
        begin, separator, unknown = message.partition("unrecognized arguments: ")
        if separator:
            names = [name for name in self._option_string_actions if name.startswith("--")]
            unknown = unknown.split()[0].partition("=")[0]
            *most, last = (f"--{name.replace('_', '-')}" for name in self.sources or ("",))
            data = f"{', '.join(most)} or {last}"
            is_data = self.sources and unknown in ("--train", "--data", "--input")
            message += f" (data are named by {data})" if is_data else suggestion(unknown, names)
        super().error(message)


class _Help(argparse.Action):
    """Prints the help, of the most used options or with `all` of all, and ends."""

    def __call__(self, parser, namespace, values, option_string=None):
        if values and values != "all":
            parser.error(f"--help takes nothing or all. Received: {values}")
        print(parser.format_help() if values else parser.format_shown(), end="")
        parser.exit()


def make_parser(name, doc):
    """Returns the parser of `python -m recipes.NAME`, whose help begins with `doc` as it stands."""
    raw = argparse.RawDescriptionHelpFormatter
    return Parser(prog=f"python -m recipes.{name}", description=doc, formatter_class=raw)


@contextlib.contextmanager
def one_line_errors(again=False, filters=False):
    """Ends the process with one line where a user's mistake raises an error, and with 130 after Ctrl-C.

    Warnings, too, are one line, without the place in the program.

    `again`: the same command goes on after an interruption. `filters`: the output may be cut short, as by `| head`.
    """
    format_warning, warnings.formatwarning = warnings.formatwarning, _format_warning
    try:
        yield
    except BrokenPipeError:  # the reader has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not filters:
            sys.exit(1)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("\nInterrupted." + (" Run the same command to continue." if again else ""), file=sys.stderr)
        sys.exit(130)
    finally:
        warnings.formatwarning = format_warning


def _format_warning(message, *_):
    """Returns the line of a warning, with the option for what it says of arguments of attention."""
    return re.sub(r"Give the attention `(\S+)`", r"Give --attention-arguments \1", f"warning: {message}\n")


def sentences_in(file):
    """Yields the sentences of a file, or of standard input, `"-"`, as `read_sentences` does."""
    if file != "-":
        return read_sentences(file)
    return sentences_of(decode_lines(sys.stdin.buffer, "standard input", strip=False), "standard input")


def place_in(file, line_number):
    """Names the place of a line in errors."""
    return f"{'standard input' if file == '-' else file}, line {line_number}"


def portions(file, size=256):
    """Yields lists of `size` lines of a file or of standard input, `"-"`, where a terminal gives one line at a time.

    A long file or a pipe shows its first results soon. Of XML the `<seg>` elements are lines.
    """
    lines = sentences_in(file)
    size = 1 if file == "-" and sys.stdin.isatty() else size
    while portion := list(itertools.islice(lines, size)):
        yield portion


def fill_in_samples(options, kinds):
    """Gives --samples and --seed their defaults; one that no chosen kind of scores uses is an error."""
    for name, default, users in (("samples", 100, {"lime"}), ("seed", 0, {"lime", "random"})):
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif users.isdisjoint(kinds):
            raise ValueError(
                f"--{name} is only for {' and '.join(sorted(users))}. Received: {name}={getattr(options, name)} for "
                f"{', '.join(kinds)}"
            )


def report_cut(cut, done, longest):
    """Writes to standard error which of `done` lines, by number, have more than `longest` tokens."""
    if cut:
        shown = ", ".join(map(str, cut[:10])) + (", ..." if len(cut) > 10 else "")
        print(
            f"{len(cut)} of {done} lines have more than {longest} tokens and were cut: lines {shown}", file=sys.stderr
        )

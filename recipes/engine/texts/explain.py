"""Command that explains what runs predict for the texts of a file, before TensorFlow is imported."""

import itertools
import pathlib

from recipes.engine.command import Command, fill_in_samples, sentences_in
from recipes.engine.finished import by_title, explained
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import check_readable
from recipes.engine.texts.explaining import explain
from recipes.engine.texts.runs import runs_of
from recipes.engine.texts.settings import METHODS

HELP = (
    "methods: pooling, cls and received are attention (of the pooling; of the last block, what the first token looks "
)
HELP += f"at, and what a word receives); others are {', '.join(METHODS[3:])} [gradient lime]"


def explain_command():
    """Returns the `Command` that scores the words of texts in a file for finished runs."""
    return Command(_explain, "which words decide what runs say of the texts in a file: a page, a picture, scores", _add)


def _add(parser):
    parser.add_argument("folders", nargs="+", metavar="folder", help="folders of finished runs, side by side")
    parser.add_argument(
        "--file", required=True, help="a text a line, two with a tab between where the runs are on pairs; .gz or - too"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["gradient", "lime"], help=HELP)
    parser.add_argument("--samples", type=int, help="of each text, for lime [100]")
    parser.add_argument("--examples", type=int, default=100, help="the first lines of the file, so many [100]")
    parser.add_argument("--seed", type=int, help="of lime and random [0]")
    parser.add_argument("--output", help="the page; .png and .jsonl beside it [RUN/explained/FILE.html]")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _explain(options):
    check_readable(options.file)
    fill_in_samples(options, options.methods)
    for name in ("samples", "examples"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} must be at least 1. Received: {name}={getattr(options, name)}")
    if options.output and not options.output.endswith(".html"):
        raise ValueError(f"--output is a page and must end in .html. Received: output={options.output}")
    runs = {title: next(iter(seeds.values())) for title, seeds in by_title(options.folders, runs_of).items()}
    lines, more = _lines(options.file, options.examples)
    if not any(lines):
        raise ValueError(f"--file must have at least one text. Received: {options.file}, which is empty")
    if more:
        print(f"The first {len(lines):,} texts; --examples takes more.")
    quiet_tensorflow()

    output = options.output or explained(next(iter(runs.values())).folder, options.file, ".html")
    explain(runs, lines, pathlib.Path(output), options)


def _lines(file, count):
    """Returns the first lines of a file, and True if there are more."""
    found = list(itertools.islice(sentences_in(file), count + 1))
    return found[:count], len(found) > count

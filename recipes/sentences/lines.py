"""The command that classifies the lines of a file, before TensorFlow is imported."""

import functools

from recipes.engine.command import Command, portions, report_cut
from recipes.engine.recipe import check_readable


def classify_command(recipe):
    """The `Command` that prints what a finished run makes of each line of a file or of standard input.

    Args:
        recipe: function of no arguments that returns the `Recipe`, whose task is a `TextTask`.
    """
    return Command(
        functools.partial(_classify, recipe),
        "the likeliest labels, or the number, of each line of a file or standard input",
        functools.partial(_add, recipe),
        filters=True,
    )


def _add(recipe, parser):
    recipe().add_run(parser)
    parser.add_argument(
        "file", nargs="?", default="-", help="a text a line, two with a tab between where the run is on pairs; .gz too"
    )
    parser.add_argument("--top", type=int, default=1, help="how many labels of each [1]")


def _classify(recipe, options):
    check_readable(options.file)
    if options.top < 1:
        raise ValueError(f"--top must be at least 1. Received: top={options.top}")
    task = recipe().finished(options.folder)
    predictor = task.predictor(task.run.load_model())
    done, cut, longest = 0, [], task.config.max_length
    for texts in portions(options.file):
        sides = [list(side) for side in zip(*map(as_pair, texts), strict=True)] if task.is_pair else [texts]
        for row in predictor(*sides):
            order = row.argsort()[::-1][: options.top]
            names = task.targets.names
            print("\t".join(f"{names[i]} {row[i]:.3f}" if names else f"{row[i]:.4f}" for i in order), flush=True)
        cut += [line for line, length in enumerate(task.lengths(*sides), done + 1) if length > longest]
        done += len(texts)
    report_cut(cut, done, longest)


def as_pair(line):
    """The two texts of a line."""
    first, tab, second = line.partition("\t")
    if not tab:
        raise ValueError(f"A pair is two texts with a tab between. Received: {line[:60]!r}")
    return first, second

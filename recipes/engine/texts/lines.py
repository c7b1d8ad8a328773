"""Command that classifies the lines of a file, before TensorFlow is imported."""

import functools

from recipes.engine.command import Command, place_in, portions, report_cut
from recipes.engine.recipe import check_readable


def classify_command(recipe):
    """Returns the `Command` that prints a finished run's predictions for the lines of a file or standard input.

    `recipe` is a function of no arguments that returns the `Recipe`, which has a `predictor`.
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
    run, config = recipe().open(options.folder)
    predictor = recipe().predictor(run, config, run.load_model())
    names = predictor.targets.names
    if options.top > 1 and not names:
        raise ValueError(f"--top needs labels; the run predicts numbers. Received: top={options.top}")
    done, cut, longest = 0, [], config.max_length
    for texts in portions(options.file):
        found, sides = sides_of(texts, config.is_pair, options.file, done)
        rows = dict(zip(found, predictor(*sides), strict=True)) if found else {}
        for line in range(done + 1, done + len(texts) + 1):
            row = rows.get(line)
            order = [] if row is None else row.argsort()[::-1][: options.top]
            print("\t".join(f"{names[i]} {row[i]:.3f}" if names else f"{row[i]:.4f}" for i in order), flush=True)
        if found:
            cut += [line for line, length in zip(found, predictor.lengths(*sides), strict=True) if length > longest]
        done += len(texts)
    report_cut(cut, done, longest)


def sides_of(lines, is_pair, file, done=0):
    """Splits lines, but for empty ones, into their one or, of pairs, two texts.

    Returns the numbers of the lines, from 1, after `done` others, and a list of one or two lists of texts. A pair
    without a tab is an error that names `file` and line.
    """
    texts = {number: line for number, line in enumerate(lines, done + 1) if line}
    if not is_pair:
        return list(texts), [list(texts.values())]
    for number, line in texts.items():
        if "\t" not in line:
            raise ValueError(
                f"{place_in(file, number)} must be a pair: two texts with a tab between. Received: {line[:60]!r}"
            )
    pairs = [line.split("\t", 1) for line in texts.values()]
    return list(texts), [[first for first, _ in pairs], [second for _, second in pairs]]

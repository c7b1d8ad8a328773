"""Predictions for texts: of a run's model, of runs side by side, and the command for lines of a file."""

import functools
import importlib
import pathlib

from keras_headattn._files import read_json
from keras_headattn.serving import Classifier
from recipes.engine.command import Command, place_in, portions, report_cut
from recipes.engine.finished import folders_of_seeds
from recipes.engine.recipe import check_readable

RECIPES = ("classify", "glue")


class TextPredictor(Classifier):
    """`Classifier` that returns the outputs of the model when called; `targets` are what is predicted."""

    def __init__(self, model, tokenizer, targets, max_length):
        super().__init__(model, tokenizer, targets.names or ["number"], max_length, activation=targets.activation)
        self.targets = targets

    def __call__(self, texts, second_texts=None, progress=None):
        return self.probabilities(texts, second_texts, progress)

    def measures(self, texts, second_texts=None):
        """Returns measures of the model itself: none."""
        return {}

    def lengths(self, texts, second_texts=None):
        """Returns the number of tokens of each text; of a pair that of the longer side, or of both together."""
        if self.joins_pairs:
            ids = self._uncut_tokenizer.encode(texts, second_texts)
            return map(len, ids["token_ids"] if isinstance(ids, dict) else ids)
        sides = [texts] if second_texts is None else [texts, second_texts]
        return (max(map(len, ids)) for ids in zip(*map(self.tokenizer.encode, sides), strict=True))

    @functools.cached_property
    def _uncut_tokenizer(self):
        return without_limit(self.tokenizer)


def without_limit(tokenizer):
    """Returns a tokenizer like another one that cuts texts, which cuts none."""
    return type(tokenizer).from_config({**tokenizer.get_config(), "max_length": None})


def recipe_name(folder):
    """Returns the name of the recipe of a run, or `None`."""
    path = pathlib.Path(folder, "config.json")
    values = read_json(path) if path.exists() else None
    return values.get("recipe") if isinstance(values, dict) else None


def recipe_of(folder):
    """Returns the `Recipe` of a run of classification; another one is a `ValueError`."""
    name = recipe_name(folder)
    if name not in RECIPES:
        raise ValueError(f"The runs must be of {' or '.join(RECIPES)}. Received: {folder}, of {name}")
    return importlib.import_module(f"recipes.{name}.__main__").RECIPE


def runs_of(folder):
    """Returns the finished runs of a folder by seed: of one run itself, or of a folder made by `--seeds`."""
    runs = [recipe_of(path).run_of(path) for path in folders_of_seeds(folder)]
    finished = {run.read_config().seed: run for run in runs if any(run.results.glob("*/scores.json"))}
    if not finished:
        raise ValueError(
            f"There is no finished run in the folder. Train one first, or several by --seeds. Received: {folder}"
        )
    return dict(sorted(finished.items()))


def load_predictor(run, model=None):
    """Returns the predictor of a finished run, as of `texts.predicting`; `model` is in place of its own."""
    return run.recipe.predictor(run, run.read_config(), model or run.load_model())


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
        numbers, sides = sides_of(texts, config.is_pair, options.file, done)
        rows = dict(zip(numbers, predictor(*sides), strict=True)) if numbers else {}
        for line in range(done + 1, done + len(texts) + 1):
            row = rows.get(line)
            order = [] if row is None else row.argsort()[::-1][: options.top]
            print("\t".join(f"{names[i]} {row[i]:.3f}" if names else f"{row[i]:.4f}" for i in order), flush=True)
        if numbers:
            cut += [line for line, length in zip(numbers, predictor.lengths(*sides), strict=True) if length > longest]
        done += len(texts)
    report_cut(cut, done, longest)


def sides_of(lines, is_pair, file, done=0):
    """Splits lines, but for empty ones, into their one or, of pairs, two texts.

    Returns the numbers of the lines, from 1, after `done` others, and a list of one or two lists of texts. A pair
    without a tab is an error that names `file` and line.
    """
    texts = {line_number: line for line_number, line in enumerate(lines, done + 1) if line}
    if not is_pair:
        return list(texts), [list(texts.values())]
    for line_number, line in texts.items():
        if "\t" not in line:
            raise ValueError(
                f"{place_in(file, line_number)} must be a pair: two texts with a tab between. Received: {line[:60]!r}"
            )
    pairs = [line.split("\t", 1) for line in texts.values()]
    return list(texts), [[first for first, _ in pairs], [second for _, second in pairs]]

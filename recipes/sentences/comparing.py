"""Finished runs of classification side by side: what they scored and predicted."""

import importlib
import json
import pathlib

import numpy as np

from keras_headattn._files import read_lines
from recipes.engine.finished import folders_of_seeds
from recipes.engine.tables import mean_text, table

RECIPES = ("classify", "glue")


def recipe_of(folder):
    """The `Recipe` of a run of classification.

    Raises:
        ValueError: if it is a run of another recipe.
    """
    path = pathlib.Path(folder, "config.json")
    name = json.loads(path.read_text(encoding="utf-8")).get("recipe") if path.exists() else None
    if name not in RECIPES:
        raise ValueError(f"The runs must be of {' or '.join(RECIPES)}. Received: {folder}, of {name}")
    return importlib.import_module(f"recipes.{name}").RECIPE


def runs_of(folder):
    """The runs of a folder by seed: of one run itself, of a folder made by `--seeds` all that have finished.

    Raises:
        ValueError: if there is none, or it is a run of another recipe.
    """
    runs = [recipe_of(path).run_of(path) for path in folders_of_seeds(folder)]
    found = {run.config().seed: run for run in runs if any(run.results.glob("*/scores.json"))}
    if not found:
        raise ValueError(f"There is no finished run in {folder}. Train one first, or several by --seeds.")
    return dict(sorted(found.items()))


def read_scores(runs, test):
    """Measures of each seed on a test set: dictionary from seed to measure to value or `None`."""
    return {seed: json.loads(_result(run, test, "scores.json")) for seed, run in runs.items()}


def read_predictions(runs, test):
    """Labels `(N,)` and probabilities `(N, C)` on a test set, of all seeds one below the other."""
    labels, probabilities = [], []
    for run in runs.values():
        if run.config().predicts != "class":
            raise ValueError(f"{run.folder} predicts no classes. Received: {run.config().predicts}")
        names = list(read_lines(run.folder / "labels.txt"))
        header, *lines = _result(run, test, "predictions.tsv").splitlines()
        rows = [line.split("\t") for line in lines]
        labels += [names.index(row[0]) for row in rows]
        probabilities += [[float(value) for value in row[2 : 2 + len(names)]] for row in rows]
    return np.array(labels), np.array(probabilities)


def _result(run, test, name):
    path = run.results / test / name
    if not path.exists():
        tests = ", ".join(sorted(path.name for path in run.results.iterdir()))
        raise ValueError(f"The run in {run.folder} has results on: {tests}. Received: --set {test}")
    return path.read_text(encoding="utf-8")


def common_test(runs):
    """Name of the test set that stands for all where none is named: the first one that all runs have.

    Raises:
        ValueError: if there is none.
    """
    common = set.intersection(*({path.parent.name for path in run.results.glob("*/scores.json")} for run in runs))
    if not common:
        raise ValueError("The runs have no test set in common. Name one by the command `evaluate` on each.")
    return sorted(common)[0]


def paired_test(values, others):
    """Two-sided p value of a paired t-test: whether the same seeds score differently on average.

    Args:
        values, others: dictionaries from seed to value.

    Returns:
        float; `None` if fewer than two seeds are common, or all differ by the same.

    >>> round(paired_test({1: 0.5, 2: 0.6, 3: 0.7}, {1: 0.6, 2: 0.7, 3: 0.9}), 3)
    0.057
    """
    from scipy import stats

    differences = [values[seed] - others[seed] for seed in values if seed in others]
    if len(differences) < 2 or np.ptp(differences) < 1e-12:
        return None
    return float(stats.ttest_1samp(differences, 0).pvalue)


def markdown(scores, measures=None):
    """Table of means, standard deviations and p values.

    Args:
        scores: dictionary from title to what `read_scores` returns. Others are compared with the first.
        measures: list of measures. Defaults to all.

    Returns:
        str.

    >>> print(markdown({"plain": {0: {"f1": 0.5}}, "svgd": {0: {"f1": 0.7}}}))
    | | plain | svgd | p |
    |---|---:|---:|---:|
    | f1 | 0.5000 | 0.7000 | – |
    <BLANKLINE>
    """
    first, *others = scores
    known = [measure for measure in next(iter(scores[first].values())) if measure != "examples"]
    if measures and (unknown := set(measures) - set(known)):
        raise ValueError(f"The measures are {', '.join(known)}. Received: {', '.join(sorted(unknown))}")
    rows = []
    for measure in measures or known:
        columns = {title: _values(seeds, measure) for title, seeds in scores.items()}
        rows.append([measure, mean_text(columns[first].values())])
        for other in others:
            p = paired_test(columns[first], columns[other])
            rows[-1] += [mean_text(columns[other].values()), "–" if p is None else f"{p:.2g}"]
    return "\n".join(table([first, *(part for other in others for part in (other, "p"))], rows)) + "\n"


def _values(seeds, measure):
    return {seed: found[measure] for seed, found in seeds.items() if found.get(measure) is not None}

"""Finished runs of classification side by side, and their predictions."""

import importlib
import pathlib

import numpy as np

from keras_headattn._files import read_json, read_lines
from recipes.engine.finished import folders_of_seeds

RECIPES = ("classify", "glue")


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
    found = {run.read_config().seed: run for run in runs if any(run.results.glob("*/scores.json"))}
    if not found:
        raise ValueError(
            f"There is no finished run in the folder. Train one first, or several by --seeds. Received: {folder}"
        )
    return dict(sorted(found.items()))


def load_predictor(run, model=None):
    """Returns the predictor of a finished run, as of `texts.predicting`; `model` is in place of its own."""
    return run.recipe.predictor(run, run.read_config(), model or run.load_model())


def read_predictions(runs, test):
    """Labels `(N,)` and probabilities `(N, C)` on a test set, of all seeds one below the other."""
    labels, probabilities = [], []
    for run in runs.values():
        if run.read_config().predicts != "class":
            raise ValueError(f"{run.folder} predicts no classes. Received: {run.read_config().predicts}")
        names = list(read_lines(run.folder / "labels.txt"))
        header, *lines = read_lines(run.results / test / "predictions.tsv")
        rows = [line.split("\t") for line in lines]
        labels += [names.index(row[0]) for row in rows]
        probabilities += [[float(value) for value in row[2 : 2 + len(names)]] for row in rows]
    return np.array(labels), np.array(probabilities)

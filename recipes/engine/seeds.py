"""The same settings with several seeds, and the mean and deviation of their scores."""

import json
import pathlib
import statistics

from keras_headattn._files import write_atomically
from recipes.engine.report import markdown_table, mean_text
from recipes.engine.run import Run
from recipes.engine.subruns import is_finished, train_all


def plan(config, seeds):
    """Returns the settings of one run for each seed, in folders of their own, without export."""
    return [
        config.changed(dict(seed=seed, run=f"{config.run}/seed={seed}", export=None)) for seed in dict.fromkeys(seeds)
    ]


def train_seeds(recipe, config, seeds, afresh=False):
    """Trains what has not finished in the folder `config.run`, and writes the table after each run."""
    configs = plan(config, seeds)
    print(f"Table: {config.run}/seeds.md, .json")
    train_all(
        recipe,
        configs,
        lambda config: f"seed {config.seed}",
        lambda: write_table(read_scores(recipe, configs), config.run),
        afresh=afresh,
    )


def read_scores(recipe, configs):
    """Reads the scores of the finished runs: dictionary from seed to test set to measure to value or `None`."""
    return {config.seed: Run(config.run, recipe).scores() for config in configs if is_finished(recipe, config)}


def summary(scores):
    """Returns the mean and deviation of each measure on each test set, of what `read_scores` returns.

    Dictionary from test set to measure to `mean`, `deviation` (of a sample; `None` of one value) and `values`, by seed.
    Both are of the seeds that have a value.

    >>> summary({1: {"test": {"accuracy": 0.5}}, 2: {"test": {"accuracy": 0.7}}})["test"]["accuracy"]["mean"]
    0.6
    """
    by_test = {}
    for seed, tests in scores.items():
        for test, measures in tests.items():
            for measure, value in measures.items():
                by_test.setdefault(test, {}).setdefault(measure, {})[seed] = value
    return {
        test: {measure: _mean_and_deviation(values) for measure, values in measures.items() if measure != "examples"}
        for test, measures in by_test.items()
    }


def _mean_and_deviation(values):
    real = [value for value in values.values() if value is not None]
    return {
        "mean": statistics.fmean(real) if real else None,
        "deviation": statistics.stdev(real) if len(real) > 1 else None,
        "values": values,
    }


def markdown(scores):
    """Writes the table as Markdown; takes what `summary` does."""
    columns = ["mean", *(f"seed {seed}" for seed in scores)]
    lines = [f"Seeds: {', '.join(map(str, scores))}. Mean ± standard deviation (of a sample), then each seed."]
    for test, measures in summary(scores).items():
        rows = []
        for measure, stats in measures.items():
            values = [stats["values"].get(seed) for seed in scores]
            rows.append([measure, mean_text(values), *(mean_text([value]) for value in values)])
        lines += ["", f"**{test}**", "", *markdown_table(columns, rows)]
    return "\n".join(lines) + "\n"


def write_table(scores, folder):
    """Writes `seeds.md` and `seeds.json` to the folder, and returns the first's text; takes what `summary` does."""
    folder, text = pathlib.Path(folder), markdown(scores)
    write_atomically(folder / "seeds.md", text.encode("utf-8"))
    write_atomically(folder / "seeds.json", (json.dumps(summary(scores), indent=1) + "\n").encode("utf-8"))
    return text

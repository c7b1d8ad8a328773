"""Scores of finished runs of any recipe, side by side."""

import pathlib

import numpy as np

from keras_headattn._files import read_json
from recipes.engine.finished import folders_of_seeds
from recipes.engine.run import Run
from recipes.engine.seeds import summary
from recipes.engine.tables import mean_text, table


def scores_by_seed(folder):
    """Returns the scores of the finished runs in a folder: one run, or those of several seeds.

    In a folder of such folders, `seed=1/seed=1` and so on, each has the means of its runs: say, of the fine-tunings of
    one of several pre-trainings.

    Returns:
        Dictionary from seed to test set to measure to value or `None`, sorted by seed.

    Raises:
        ValueError: if there is no finished run.
    """
    found = {}
    for path in folders_of_seeds(folder):
        if scores := Run(path, recipe=None).scores():
            found[_seed(path / "config.json")] = scores
    if not found:
        found = {int(path.name.removeprefix("seed=")): _means(path) for path in pathlib.Path(folder).glob("seed=*/")}
    if not found:
        raise ValueError(
            f"There is no finished run in the folder. Train one first, or several by --seeds. Received: {folder}"
        )
    return dict(sorted(found.items()))


def _seed(path):
    settings = read_json(path)
    if not isinstance(settings, dict) or not isinstance(settings.get("seed"), int):
        raise ValueError(f"The settings of a run must have a seed. Received: {path}")
    return settings["seed"]


def _means(folder):
    return {
        test: {measure: values["mean"] for measure, values in measures.items()}
        for test, measures in summary(scores_by_seed(folder)).items()
    }


def common_test(scores):
    """The first test set that all runs have; an error if there is none. Takes scores by title, as `scores_by_seed`
    returns them.

    >>> common_test({"plain": {0: {"new": {}, "test": {}}}, "svgd": {0: {"test": {}}}})
    'test'
    """
    common = set.intersection(*(set(tests) for seeds in scores.values() for tests in seeds.values()))
    if not common:
        raise ValueError(
            "The runs must have a test set in common. Score one by the command `evaluate` of each. "
            f"Received: {', '.join(scores)}"
        )
    return sorted(common)[0]


def on_test(scores, test):
    """The scores on one test set: from title to seed to measure to value. Takes scores by title, as `scores_by_seed`
    returns them.
    """
    for title, seeds in scores.items():
        for seed, tests in seeds.items():
            if test not in tests:
                raise ValueError(
                    f"{title}, seed {seed}, has results on: {', '.join(sorted(tests))}. Received: --set {test}"
                )
    return {title: {seed: tests[test] for seed, tests in seeds.items()} for title, seeds in scores.items()}


def paired_test(values, others):
    """Two-sided p value of a paired t-test of two dictionaries from seed to value.

    `None` if fewer than two seeds are common, or all differ by the same.

    >>> round(paired_test({1: 0.5, 2: 0.6, 3: 0.7}, {1: 0.6, 2: 0.7, 3: 0.9}), 3)
    0.057
    """
    from scipy import stats

    differences = [values[seed] - others[seed] for seed in values if seed in others]
    if len(differences) < 2 or np.ptp(differences) < 1e-12:
        return None
    return float(stats.ttest_1samp(differences, 0).pvalue)


def markdown(scores, measures=None):
    """Table of means, standard deviations and p values of what `on_test` returns; the others are compared with the
    first.

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

"""The same settings with several seeds, and the mean and deviation of what they score."""

import json
import pathlib
import statistics

from recipes.engine import subruns
from recipes.engine.config import override


def plan(config, seeds):
    """The settings of one run a seed, in folders of their own, which are not exported: list of `ClassifyConfig`."""
    return [
        override(config, dict(seed=seed, run=f"{config.run}/seed={seed}", export=None)) for seed in dict.fromkeys(seeds)
    ]


def train_seeds(config, seeds):
    """Trains what has not finished, one after the other, and writes the table after each.

    Args:
        config: `ClassifyConfig`, whose `run` is the folder of all.
        seeds: ints.

    Returns:
        Dictionary from seed to why its run failed, of those that did.

    Raises:
        ValueError: if a run in the folder has other settings.
    """
    from recipes.sentences.run import Run

    configs = plan(config, seeds)
    for each in configs:
        Run(each.run).check(each)
    queue = [each for each in configs if (subruns.outcome(each) or {"error": "not begun"})["error"]]
    print(f"{len(configs) - len(queue)} of {len(configs)} seeds have finished. Table: {config.run}/seeds.md, .json")
    show = subruns.show_epochs(queue) if queue else None
    failed = {}
    while queue:
        print(f"seed {queue[0].seed}: {queue[0].run}/log.txt", flush=True)
        subruns.finish("recipes.classify", queue[0], show)
        ended = queue.pop(0)
        if error := subruns.outcome(ended)["error"]:
            failed[ended.seed] = error
        show()
        print(f"\nseed {ended.seed}: {error or 'finished'}", flush=True)
        write_table(read_scores(configs), config.run)
    found = read_scores(configs)
    write_table(found, config.run)
    print("\n" + markdown(found))
    return failed


def read_scores(configs):
    """Scores of the runs that have finished: dictionary from seed to test set to measure to value or `None`."""
    found = {}
    for config in configs:
        ended = subruns.outcome(config)
        if ended and not ended["error"]:
            paths = sorted(pathlib.Path(config.run).glob("results/*/scores.json"))
            found[config.seed] = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    return found


def summary(scores):
    """Mean and deviation of each measure on each test set.

    Args:
        scores: what `read_scores` returns.

    Returns:
        Dictionary from test set to measure to a dictionary of `mean`, `deviation` (of a sample; `None` of one value)
        and `values`, by seed. Both are of the seeds that have a value.

    >>> summary({1: {"test": {"accuracy": 0.5}}, 2: {"test": {"accuracy": 0.7}}})["test"]["accuracy"]["mean"]
    0.6
    """
    found = {}
    for seed, tests in scores.items():
        for test, measures in tests.items():
            for measure, value in measures.items():
                found.setdefault(test, {}).setdefault(measure, {})[seed] = value
    return {
        test: {measure: _mean_and_deviation(values) for measure, values in measures.items() if measure != "examples"}
        for test, measures in found.items()
    }


def _mean_and_deviation(values):
    real = [value for value in values.values() if value is not None]
    return {
        "mean": statistics.fmean(real) if real else None,
        "deviation": statistics.stdev(real) if len(real) > 1 else None,
        "values": values,
    }


def markdown(scores):
    """The table as Markdown: str. Takes what `summary` does."""
    lines = [f"Seeds: {', '.join(map(str, scores))}. Mean ± standard deviation (of a sample), then each seed."]
    for test, measures in summary(scores).items():
        columns = [f"seed {seed}" for seed in scores]
        lines += [
            "",
            f"**{test}**",
            "",
            "| | mean | " + " | ".join(columns) + " |",
            "|---|" + "---:|" * (1 + len(columns)),
        ]
        for measure, found in measures.items():
            text = _number(found["mean"])
            if found["deviation"] is not None:
                text += f" ± {_number(found['deviation'])}"
            values = [_number(found["values"].get(seed)) for seed in scores]
            lines.append(f"| {measure} | {text} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def write_table(scores, folder):
    """Writes `seeds.md` and `seeds.json` to the folder. Takes what `summary` does."""
    from keras_headattn._files import write_atomically

    folder = pathlib.Path(folder)
    write_atomically(folder / "seeds.md", markdown(scores).encode("utf-8"))
    write_atomically(folder / "seeds.json", (json.dumps(summary(scores), indent=1) + "\n").encode("utf-8"))


def _number(value):
    return "–" if value is None else f"{value:.4f}"

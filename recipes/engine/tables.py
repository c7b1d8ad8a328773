"""Tables of runs: paired tests, and a paper's tables with its own figures beside."""

import csv
import dataclasses
import io
import math
import pathlib
import statistics

import numpy as np
from scipy import stats

from keras_headattn._files import read_json
from recipes.engine.report import markdown_table, mean_text

RELATIVE_TIME = "training", "relative time"


def paired_test(values, others):
    """Two-sided p value of a paired t-test of two dictionaries from seed to value.

    `None` if fewer than two seeds are common, or all differ by the same.

    >>> round(paired_test({1: 0.5, 2: 0.6, 3: 0.7}, {1: 0.6, 2: 0.7, 3: 0.9}), 3)
    0.057
    """
    differences = [values[seed] - others[seed] for seed in values if seed in others]
    if len(differences) < 2 or np.ptp(differences) < 1e-12:
        return None
    return float(stats.ttest_1samp(differences, 0).pvalue)


def corrected(values):
    """Returns p values corrected for their number (Holm 1979).

    >>> [round(p, 3) for p in corrected([0.04, 0.01, 0.03])]
    [0.06, 0.03, 0.06]
    """
    order, adjusted, least = sorted(range(len(values)), key=values.__getitem__), list(values), 0.0
    for rank, index in enumerate(order):
        least = adjusted[index] = min(1.0, max(least, (len(values) - rank) * values[index]))
    return adjusted


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of runs of one recipe, as a paper has them.

    Args:
        title: str, the paper, its table, and what it shows.
        rows: dictionary of name to the settings of its runs; `"config"` is the name of those they change, in which
            `{column}` stands for the name of the column.
        columns: dictionary of name, or number, to further settings: each row is trained with each. `"column"` among
            them stands for the name in `config`, and `"after"` is the column whose runs are the checkpoints of these.
            Default: one column without a name.
        over: str, what a column that is a number counts. Default "".
        config: str, name of the settings that rows change. Default `None`: those of the recipe.
        measures: pairs of a data set and a metric, in the order shown. The data set "test" stands for all test sets:
            the mean, if none has that name. Default `()`: all.
        headlines: dictionary of column to its pair of a data set and a metric, for one table of all columns and their
            means. Default `{}`: a table for each measure.
        means: dictionary of the name of a mean to its columns. Default `{}`: that of all.
        of_model: measures of a row's first run, beside the means. Default `()`.
        published: the paper's figures: dictionary of (data set, metric) to row to column to value, without columns to
            row to value; see `figures`.
        scatter: two measures, drawn against each other. Default `()`: bars, or curves over numbers.
        compared: a measure whose differences from the first row are shown, each with its 95 % interval and a p value
            that is corrected for the number of rows; see `differences`. Default `()`: none, and p of a paired t-test.
        name: str, set by the sweep.
    """

    title: str
    rows: dict
    columns: dict = dataclasses.field(default_factory=lambda: {"": {}})
    over: str = ""
    config: str | None = None
    measures: tuple = ()
    headlines: dict = dataclasses.field(default_factory=dict)
    means: dict = dataclasses.field(default_factory=dict)
    of_model: tuple = ()
    published: dict = dataclasses.field(default_factory=dict)
    scatter: tuple = ()
    compared: tuple = ()
    name: str = "sweep"

    def run_name(self, cell):
        """Returns what people call a run: `interacting, 4 heads, seed 0`."""
        return ", ".join([cell.row, *[f"{cell.column} {self.over}".strip()] * (cell.column != ""), f"seed {cell.seed}"])

    def folder(self, cell):
        """Returns the name of the folder of a run: `interacting,heads=4,seed=0`."""
        column = f"{self.over}={cell.column}" if self.over else str(cell.column)
        name, row = cell.row, self.rows[cell.row]
        if self.over and "attention" in row:
            arguments = row.get("attention_arguments", {})
            name = ",".join([row["attention"], *(f"{key}={value}" for key, value in arguments.items())])
        parts = [name, *[column] * bool(column), f"seed={cell.seed}"]
        return ",".join(part.replace("/", "-").replace(" ", "_") for part in parts)


def figures(measures, rows):
    """Returns `Table.published` of rows of figures in the order of the measures; `None` where a paper has none.

    >>> figures([("test", "BLEU"), ("training", "parameters")], {"base": (27.3, None), "big": (28.4, 213e6)})
    {('test', 'BLEU'): {'base': 27.3, 'big': 28.4}, ('training', 'parameters'): {'big': 213000000.0}}
    """
    return {
        measure: {row: values[index] for row, values in rows.items() if values[index] is not None}
        for index, measure in enumerate(measures)
    }


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run, which may have finished, failed, or be still to come.

    Args:
        row: str, the name of its row.
        column: the name of its column, or a number.
        seed: int; runs that differ only in it share a place in the table.
        scores: dictionary from (data set, metric) to `(value, signature)`; empty: not finished.
        error: why it failed, or `None`.
    """

    row: str
    column: str | int
    seed: int
    scores: dict = dataclasses.field(default_factory=dict)
    error: str | None = None

    def score(self, measure):
        """Returns the value and the signature of a measure, or `None`."""
        if measure[0] != "test" or measure in self.scores:
            return self.scores.get(measure)
        scores = [score for name, score in self.scores.items() if name[0] != "training" and name[1] == measure[1]]
        return (statistics.fmean(value for value, _ in scores), scores[0][1]) if scores else None


def read_scores(folder):
    """Reads the `Cell.scores` of a finished run.

    Results on its own test sets, and of the training the best validation loss, minutes an epoch and speed (medians),
    parameters and FLOPs.
    """
    scores, folder = {}, pathlib.Path(folder)
    finished = read_json(folder / "finished.json") if (folder / "finished.json").exists() else {}
    paths = sorted(folder.glob("results/*/scores.json"))
    for path in [path for path in paths if path.parent.name in finished.get("tests", path.parent.name)]:
        for metric, score in read_json(path).items():
            value, signature = (score["value"], score["signature"]) if isinstance(score, dict) else (score, "")
            if value is not None and metric != "examples":
                scores[path.parent.name, metric] = value, signature
    history = read_json(folder / "history.json")
    of_training = {
        "validation loss": [min(logs["val_loss"] for logs in history)],
        "minutes an epoch": [logs["training_seconds"] / 60 for logs in history if "training_seconds" in logs],
        "target tokens per second": [logs["tokens_per_second"] for logs in history if "tokens_per_second" in logs],
        "parameters": [finished.get("parameters")],
        "FLOPs": [finished.get("flops")],
    }
    for name, values in of_training.items():
        if values and values[0] is not None:
            scores["training", name] = statistics.median(values), ""
    return scores


def with_relative_time(cells, table):
    """Returns the cells with the measure `RELATIVE_TIME`: an epoch's time over that of the first row with this seed."""
    minutes, first = ("training", "minutes an epoch"), next(iter(table.rows))
    of_first = {(cell.column, cell.seed): cell.score(minutes) for cell in cells if cell.row == first}
    result = []
    for cell in cells:
        score, base = cell.score(minutes), of_first.get((cell.column, cell.seed))
        relative = {RELATIVE_TIME: (score[0] / base[0], "")} if score and base else {}
        result.append(dataclasses.replace(cell, scores=cell.scores | relative))
    return result


def as_csv(cells):
    """Returns a line for each score of each run."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["row", "column", "seed", "data", "metric", "value", "signature"])
    for cell in cells:
        for quantity, score in cell.scores.items():
            writer.writerow([cell.row, cell.column, cell.seed, *quantity, *score])
    return file.getvalue()


def read_csv(path):
    """Returns the scores in a file that `as_csv` made: dictionary of row, column (str) and seed to `Cell.scores`."""
    scores = {}
    with open(path, encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            of_run = scores.setdefault((line["row"], line["column"], int(line["seed"])), {})
            value = line["value"]
            of_run[line["data"], line["metric"]] = int(value) if value.isdecimal() else float(value), line["signature"]
    return scores


def markdown(cells, table):
    """Returns tables of all metrics on all data sets, and the reasons of failures."""
    finished = sum(bool(cell.scores) for cell in cells)
    seeds = len({cell.seed for cell in cells})
    about = f" Columns: number of {table.over}." if table.over else ""
    lines = [table.title, "", f"{finished} of {len(cells)} runs have finished.{about}"]
    if seeds > 1:
        lines += [f"Mean ± standard deviation of {seeds} seeds; p of a paired t-test against the first row."]
    failed = [cell for cell in cells if cell.error]
    for title, places in _layout(cells, table):
        lines += ["", *[title, ""] * bool(title)]
        rows = []
        for row in table.rows:
            rows.append([row, *(_text(cells, table, row, *place, failed) for place in places.values())])
            published = [published_value(table, row, *place) for place in places.values()]
            if any(value is not None for value in published):
                rows.append([f"{row}, published", *(mean_text([value], _format(value)) for value in published)])
        lines += markdown_table(list(map(str, places)), rows)
    if table.compared and seeds > 1:
        lines += _differences(cells, table)
    if failed:
        lines += ["", "Failed:", ""]
        lines += [f"{number}. {table.run_name(cell)}: {cell.error}" for number, cell in enumerate(failed, 1)]
    return "\n".join(lines) + "\n"


def _differences(cells, table):
    """Returns the lines of a table of the differences from the first row, over seeds that both have."""
    first, *others = table.rows
    columns, entries = [], {row: [] for row in others}
    for column in table.columns:
        columns += [f"{column} difference".strip(), "95 % interval", "p"]
        found = differences(cells, table, column)
        for row, texts in entries.items():
            if row in found:
                mean, low, high, p = found[row]
                of_chance = ["–"] * 2 if math.isnan(p) else [f"{low:+.4f} to {high:+.4f}", f"{p:.2g}"]
                texts += [f"{mean:+.4f}", *of_chance]
            else:
                texts += ["–"] * 3
    title = (
        f"**{', '.join(table.compared)}: difference from {first}**, paired by seed; intervals are from the deviation "
        "that rows have in common, p values are Holm's"
    )
    return ["", title, "", *markdown_table(columns, [[row, *texts] for row, texts in entries.items()])]


def paired_differences(cells, table, column):
    """Returns each row's differences from the first in `table.compared`, over seeds that both have."""
    first, *others = table.rows
    of_first = values_of(cells, table, first, column, table.compared)
    of_others = {row: values_of(cells, table, row, column, table.compared) for row in others}
    return {
        row: [values[seed] - of_first[seed] for seed in values if seed in of_first] for row, values in of_others.items()
    }


def differences(cells, table, column):
    """Returns the means of `paired_differences`, with intervals from the deviation that rows have in common.

    A dictionary of row to (mean, low and high end of its 95 % interval, p value corrected for the number of rows),
    which are NaN for a row with one seed; empty while no row has two. Few seeds say little about one row's deviation,
    so it is that of all rows, as in an analysis of variance by row and seed. Rows that vary far more have their own.
    """
    pairs = {row: values for row, values in paired_differences(cells, table, column).items() if values}
    tested = {row: values for row, values in pairs.items() if len(values) > 1}
    unlike = _unlike_the_rest({row: statistics.variance(values) for row, values in tested.items()}, tested)
    runs = {row: values_of(cells, table, row, column, table.compared) for row in table.rows if row not in unlike}
    of_run, freedom = _unexplained(runs)
    if freedom < 1 or of_run < 1e-24:
        return {}
    spreads = dict.fromkeys(tested, (2 * of_run, freedom))
    spreads |= {row: (statistics.variance(tested[row]), len(tested[row]) - 1) for row in unlike}
    result = {row: (statistics.fmean(values), *[math.nan] * 3) for row, values in pairs.items()}
    errors = {row: math.sqrt(variance / len(tested[row])) for row, (variance, _) in spreads.items()}
    p_values = [2 * stats.t.sf(abs(result[row][0]) / errors[row], spreads[row][1]) for row in tested]
    for row, p in zip(tested, corrected(p_values), strict=True):
        mean, half = result[row][0], errors[row] * stats.t.ppf(0.975, spreads[row][1])
        result[row] = mean, float(mean - half), float(mean + half), float(p)
    return result


def _unlike_the_rest(variances, values):
    """Returns the rows whose variance is above that of the others by an F test, corrected for their number."""
    unlike, left = [], dict(variances)
    while len(left) > 2:
        row = max(left, key=left.__getitem__)
        variance = left.pop(row)
        freedom = sum(len(values[name]) - 1 for name in left)
        rest = sum((len(values[name]) - 1) * left[name] for name in left) / freedom
        p = stats.f.sf(variance / max(rest, 1e-24), len(values[row]) - 1, freedom)
        if p * (len(left) + 1) > 0.05:
            break
        unlike.append(row)
    return unlike


def _unexplained(runs):
    """Returns the variance of runs that their row and seed leave unexplained, and its degrees of freedom."""
    places = [(row, seed) for row, of_row in runs.items() for seed in of_row]
    seeds = {seed for _, seed in places}
    lines = [[*(name == row for name in runs), *(other == seed for other in seeds)] for row, seed in places]
    design, values = np.array(lines, float), [runs[row][seed] for row, seed in places]
    found, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    freedom = len(values) - rank
    return float(np.sum((values - design @ found) ** 2)) / max(freedom, 1), freedom


def _layout(cells, table):
    """Yields the title of each table, and what its columns show: dictionary of a name to (column, measure)."""
    quantities = quantities_of(cells, table)
    if table.headlines:
        places = {column: (column, measure) for column, measure in table.headlines.items() if column in table.columns}
        means = {name: columns for name, columns in table.means.items() if {*columns} <= {*places}}
        means = (means or {"mean": places}) if len(places) > 1 else {}
        first = next(iter(places))
        places |= {name: (tuple(columns), None) for name, columns in means.items()}
        yield "", places | {measure[1]: (first, measure) for measure in table.of_model}
    elif list(table.columns) == [""] and table.measures:
        yield "", {f"{data}, {metric}": ("", (data, metric)) for data, metric in quantities}
    elif list(table.columns) == [""]:
        for data in dict.fromkeys(data for data, _ in quantities):
            yield f"**{data}**", {metric: ("", (name, metric)) for name, metric in quantities if name == data}
    else:
        for (data, metric), signature in quantities.items():
            title = f"**{data}, {metric}**" + (f" `{signature}`" if signature else "")
            yield title, {column: (column, (data, metric)) for column in table.columns}


def values_of(cells, table, row, column, measure):
    """Returns the values of a place by seed; of a tuple of columns the means of their headlines."""
    if not isinstance(column, tuple):
        by_seed = {cell.seed: cell for cell in cells if (cell.row, cell.column) == (row, column)}
        return {seed: score[0] for seed, cell in by_seed.items() if (score := cell.score(measure))}
    parts = [values_of(cells, table, row, name, table.headlines[name]) for name in column]
    return {seed: statistics.fmean(part[seed] for part in parts) for seed in set.intersection(*map(set, parts))}


def _text(cells, table, row, column, measure, failed):
    is_mean = isinstance(column, tuple)
    here = [cell for cell in cells if cell.row == row and (cell.column in column if is_mean else cell.column == column)]
    values = values_of(cells, table, row, column, measure)
    if not values:
        numbers = [f"[{1 + failed.index(cell)}]" for cell in here if cell in failed]
        return "failed " + " ".join(numbers) if numbers and not is_mean else "–"
    text = mean_text(values.values(), _format(statistics.fmean(values.values())))
    seeds = len({cell.seed for cell in here})
    first = next(iter(table.rows))
    p = (
        None
        if row == first or measure == table.compared
        else paired_test(values_of(cells, table, first, column, measure), values)
    )
    text += "" if p is None else f" (p {p:.2g})"
    return text if len(values) == seeds else f"{text} ({len(values)} of {seeds} seeds)"


def published_value(table, row, column, measure):
    """Returns the paper's figure, or `None`; of a tuple of columns the mean, where all of them have one."""
    if not isinstance(column, tuple):
        published = table.published.get(measure, {}).get(row)
        return published.get(column) if isinstance(published, dict) else published
    values = [published_value(table, row, name, table.headlines[name]) for name in column]
    return None if None in values else statistics.fmean(values)


def quantities_of(cells, table):
    """Returns the measures shown, training last, with their signatures: those of the table, or all that any run has."""
    if table.measures:
        scores = {measure: [cell.score(measure) for cell in cells] for measure in table.measures}
    else:
        scores = {}
        for cell in cells:
            for quantity, score in cell.scores.items():
                scores.setdefault(quantity, []).append(score)
        scores = dict(sorted(scores.items(), key=lambda item: item[0][0] == "training"))
    return {
        measure: " or ".join(dict.fromkeys(score[1] for score in pairs if score)) for measure, pairs in scores.items()
    }


def _format(mean):
    """Returns the format of values of this mean: shares have four decimals."""
    decimals = 4 if abs(mean or 0) < 1 else 2 if abs(mean) < 1000 else 0
    return f"{{:,.{decimals}f}}".format

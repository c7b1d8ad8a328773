"""Scores of many runs as Markdown tables and as plots against the number of heads."""

import dataclasses
import io
import pathlib
import statistics

from headattn_io.files import read_json, write_atomically


def table(columns, rows):
    """Returns the lines of a Markdown table; each row is a name and the entries of the columns.

    >>> print(*table(["loss"], [["plain", "0.5"]]), sep="\\n")
    | | loss |
    |---|---:|
    | plain | 0.5 |
    """
    return [
        f"| | {' | '.join(columns)} |",
        "|---|" + "---:|" * len(columns),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def mean_text(values, number="{:.4f}".format):
    """Returns the mean and, of several, standard deviation of the values that are not `None`; a dash of none.

    >>> mean_text([0.5, None, 0.7]), mean_text([])
    ('0.6000 ± 0.1414', '–')
    """
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    text = number(statistics.fmean(values))
    return f"{text} ± {number(statistics.stdev(values))}" if len(values) > 1 else text


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run, which may have finished, failed, or be still to come.

    Args:
        attention: str, the row it is in.
        heads: int, the column.
        seed: int; runs that differ only in it share a place in the table.
        scores: dictionary from (data set, metric) to `(value, signature)`; empty: not finished.
        error: why it failed, or `None`.
    """

    attention: str
    heads: int
    seed: int
    scores: dict = dataclasses.field(default_factory=dict)
    error: str | None = None

    @property
    def name(self):
        return f"{self.attention}, {self.heads} heads, seed {self.seed}"


def read_scores(folder):
    """Reads the `Cell.scores` of a finished run: results, best validation loss, and speed (median epoch)."""
    scores = {}
    for path in sorted(pathlib.Path(folder).glob("results/*/scores.json")):
        for metric, score in read_json(path).items():
            scores[path.parent.name, metric] = score["value"], score["signature"]
    history = read_json(pathlib.Path(folder) / "history.json")
    scores["training", "validation loss"] = min(logs["val_loss"] for logs in history), ""
    if speeds := [logs["tokens_per_second"] for logs in history if "tokens_per_second" in logs]:
        scores["training", "target tokens per second"] = statistics.median(speeds), ""
    return scores


def write_tables(cells, figures, folder):
    """Writes `sweep.md` and `sweep.png` to the folder.

    `figures` are a paper's own, to stand beside: dictionary from (data set, metric) to attention to number of heads to
    value.
    """
    write_atomically(pathlib.Path(folder) / "sweep.md", markdown(cells, figures).encode("utf-8"))
    write_atomically(pathlib.Path(folder) / "sweep.png", plot(cells, figures))


def markdown(cells, figures):
    """Tables of all metrics on all data sets, and the reasons of failures; takes what `write_tables` does."""
    finished = sum(bool(cell.scores) for cell in cells)
    seeds = len({cell.seed for cell in cells})
    lines = [f"{finished} of {len(cells)} runs have finished. Columns: number of heads."]
    if seeds > 1:
        lines[0] += f" Mean ± standard deviation of {seeds} seeds."
    failed = [cell for cell in cells if cell.error]
    heads = _column_names(cells)
    for (data, metric), signature in _quantities(cells).items():
        lines += ["", f"**{data}, {metric}**" + (f" `{signature}`" if signature else ""), ""]
        published, rows = figures.get((data, metric), {}), []
        for attention in _row_names(cells):
            texts = [_text(_at(cells, attention, number), (data, metric), failed) for number in heads]
            rows.append([attention, *texts])
            if attention in published:
                texts = [mean_text([published[attention].get(number)], _number) for number in heads]
                rows.append([f"{attention}, published", *texts])
        lines += table(list(map(str, heads)), rows)
    if failed:
        lines += ["", "Failed:", ""]
        lines += [f"{number}. {cell.name}: {cell.error}" for number, cell in enumerate(failed, 1)]
    return "\n".join(lines) + "\n"


def plot(cells, figures):
    """Curves of the same over the number of heads, one an attention, with the deviation of seeds: bytes of a PNG."""
    from keras_headattn.utils import new_figure

    quantities = list(_quantities(cells)) or [("training", "validation loss")]
    rows = {data: [metric for name, metric in quantities if name == data] for data, _ in quantities}
    columns = max(map(len, rows.values()))
    seeds = len({cell.seed for cell in cells})
    title = "Scores by the number of heads" + (f", mean ± deviation of {seeds} seeds" if seeds > 1 else "")
    figure = new_figure(max(7.5, 3.8 * columns), 3 * len(rows) + 0.6, title)
    for line, (data, metrics) in zip(figure.subplots(len(rows), columns, squeeze=False), rows.items(), strict=True):
        for axes in line[len(metrics) :]:
            axes.set_axis_off()
        for axes, metric in zip(line, metrics, strict=False):
            _curves(axes, cells, (data, metric), figures.get((data, metric), {}))
        line[0].set_title(data, loc="left", fontsize=10)
    legends = [zip(*reversed(axes.get_legend_handles_labels()), strict=True) for axes in figure.axes]
    legend = {label: handle for pairs in legends for label, handle in pairs}
    names = [label for name in _row_names(cells) for label in (name, f"{name}, published") if label in legend]
    if names:
        figure.legend([legend[name] for name in names], names, loc="outside lower center", ncols=4)
    file = io.BytesIO()
    figure.savefig(file, dpi=110, format="png")
    return file.getvalue()


def _curves(axes, cells, quantity, published):
    from keras_headattn.utils import not_below_zero

    heads = _column_names(cells)
    for number, attention in enumerate(_row_names(cells)):
        style = dict(color=f"C{number}", marker="osD^vP*X"[number % 8], markersize=5)
        points = [(n, values) for n in heads if (values := _values(_at(cells, attention, n), quantity))]
        means = [statistics.fmean(values) for _, values in points]
        deviations = [_deviation(values) for _, values in points]
        axes.errorbar([n for n, _ in points], means, deviations, capsize=3, label=attention, **style)
        if rows := {n: value for n, value in published.get(attention, {}).items() if n in heads}:
            style |= dict(linestyle="--", markerfacecolor="none", alpha=0.6)
            axes.plot(rows.keys(), rows.values(), label=f"{attention}, published", **style)
    axes.set(xlabel="heads", ylabel=quantity[1])
    axes.set_xscale("log", base=2)
    axes.set_xticks(heads, list(map(str, heads)))
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    not_below_zero(axes, _values(cells, quantity))


def _row_names(cells):
    return list(dict.fromkeys(cell.attention for cell in cells))


def _column_names(cells):
    return sorted({cell.heads for cell in cells})


def _quantities(cells):
    """All (data set, metric) that any run has, training last, with their signatures."""
    found = {quantity: score[1] for cell in cells for quantity, score in cell.scores.items()}
    return dict(sorted(found.items(), key=lambda item: item[0][0] == "training"))


def _at(cells, attention, heads):
    return [cell for cell in cells if (cell.attention, cell.heads) == (attention, heads)]


def _values(cells, quantity):
    return [cell.scores[quantity][0] for cell in cells if quantity in cell.scores]


def _deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _text(cells, quantity, failed):
    values = _values(cells, quantity)
    if not values:
        numbers = [f"[{1 + failed.index(cell)}]" for cell in cells if cell in failed]
        return "failed " + " ".join(numbers) if numbers else "–"
    text = mean_text(values, _number)
    return text if len(values) == len(cells) else f"{text} ({len(values)} of {len(cells)} seeds)"


def _number(value):
    return f"{value:.2f}" if value < 1000 else f"{value:,.0f}"

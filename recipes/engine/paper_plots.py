"""Files of papers' tables, and their plots: curves over numbers, bars, or one measure against another."""

import io
import pathlib
import statistics

import numpy as np

from keras_headattn._files import write_atomically
from keras_headattn.utils import new_figure, not_below_zero
from recipes.engine.paper_tables import as_csv, markdown, published_value, quantities_of, values_of

NOTHING = {("training", "validation loss"): ""}  # what is drawn before a run has finished


def write_tables(cells, table, folder):
    """Writes `sweep.md`, `sweep.csv` and `sweep.png` to the folder."""
    folder = pathlib.Path(folder)
    write_atomically(folder / "sweep.md", markdown(cells, table).encode("utf-8"))
    write_atomically(folder / "sweep.csv", as_csv(cells).encode("utf-8"))
    write_atomically(folder / "sweep.png", plot(cells, table))


def plot(cells, table):
    """Draws the table: bytes of a PNG."""
    file = io.BytesIO()
    draw(cells, table).savefig(file, dpi=110, format="png")
    return file.getvalue()


def draw(cells, table):
    """Returns the figure of a table, with the deviation of seeds."""
    seeds = len({cell.seed for cell in cells})
    title = table.title + (f"; mean ± deviation of {seeds} seeds" if seeds > 1 else "")
    if table.scatter:
        figure = new_figure(7, 5, title)
        _scatter(figure.subplots(), cells, table)
    else:
        figure = _panels(cells, table, title)
    legends = [zip(*reversed(axes.get_legend_handles_labels()), strict=True) for axes in figure.axes]
    legend = {label: handle for pairs in legends for label, handle in pairs}
    shown = {label: legend[label] for name in table.rows for label in (name, f"{name}, published") if label in legend}
    if not table.over:  # the papers' figures look alike in all rows
        published = [shown.pop(label) for label in [*shown] if label.endswith(", published")]
        shown |= {"published": published[0]} if published else {}
    if shown:
        widest = 0.6 + 0.09 * max(map(len, shown))  # inches
        columns = max(1, int(figure.get_figwidth() / widest))
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns)
    return figure


def _panels(cells, table, title):
    """Returns a figure with a row of panels for each data set."""
    quantities = list(quantities_of(cells, table) or NOTHING)
    if table.headlines:
        quantities = [None]
    rows = {}
    for quantity in quantities:
        rows.setdefault(quantity and quantity[0], []).append(quantity)
    columns = max(map(len, rows.values()))
    width = 1.0 + 0.28 * len(table.rows) * len(table.columns)
    figure = new_figure(max(7.5, max(3.8, 0 if table.over else width) * columns), 3 * len(rows) + 0.6, title)
    for line, (data, measures) in zip(figure.subplots(len(rows), columns, squeeze=False), rows.items(), strict=True):
        for axes in line[len(measures) :]:
            axes.set_axis_off()
        for axes, measure in zip(line, measures, strict=False):
            (_curves if table.over else _bars)(axes, cells, table, measure)
        line[0].set_title(data or "", loc="left", fontsize=10)
    return figure


def _style(number):
    return dict(color=f"C{number}", marker="osD^vP*X"[number % 8], markersize=5)


def _curves(axes, cells, table, measure):
    for number, row in enumerate(table.rows):
        found = {column: [*values_of(cells, table, row, column, measure).values()] for column in table.columns}
        found = dict(sorted((column, values) for column, values in found.items() if values))
        means, deviations = [statistics.fmean(each) for each in found.values()], [*map(_deviation, found.values())]
        axes.errorbar([*found], means, deviations, capsize=3, label=row, **_style(number))
        published = {column: published_value(table, row, column, measure) for column in table.columns}
        if points := {column: value for column, value in published.items() if value is not None}:
            style = _style(number) | dict(linestyle="--", markerfacecolor="none", alpha=0.6)
            axes.plot(points.keys(), points.values(), label=f"{row}, published", **style)
    axes.set(xlabel=table.over, ylabel=measure[1])
    if min(table.columns) >= 1:  # numbers of heads
        axes.set_xscale("log", base=2)
    axes.set_xticks([*table.columns], list(map(str, table.columns)))
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    not_below_zero(axes, [score[0] for cell in cells if (score := cell.score(measure))])


def _bars(axes, cells, table, measure):
    """Draws a group of bars for each column; the paper's figures are lines across them."""
    width = 0.8 / len(table.rows)
    for number, row in enumerate(table.rows):
        for place, column in enumerate(table.columns):
            own = measure or table.headlines[column]
            x = place + (number - (len(table.rows) - 1) / 2) * width
            if values := [*values_of(cells, table, row, column, own).values()]:
                label = row if place == 0 else None
                mean = statistics.fmean(values)
                axes.bar(x, mean, 0.9 * width, yerr=_deviation(values), capsize=3, color=f"C{number}", label=label)
            value = published_value(table, row, column, own)
            if value is not None:
                ends = x - 0.45 * width, x + 0.45 * width
                axes.plot(ends, (value, value), color="black", linestyle=":", label=f"{row}, published")
    axes.set_xticks(range(len(table.columns)), list(map(str, table.columns)))
    axes.set(ylabel=measure[1] if measure else "score")
    axes.grid(axis="y", alpha=0.3)


def _scatter(axes, cells, table):
    """Draws the second measure against the first, a point for each row."""
    for number, row in enumerate(table.rows):
        for column in table.columns:
            x, y = ([*values_of(cells, table, row, column, measure).values()] for measure in table.scatter)
            if x and y:
                axes.errorbar(np.mean(x), np.mean(y), _deviation(y), capsize=3, label=row, **_style(number))
            x, y = (published_value(table, row, column, measure) for measure in table.scatter)
            if x is not None and y is not None:
                style = _style(number) | dict(markerfacecolor="none", linestyle="none")
                axes.plot([x], [y], label=f"{row}, published", **style)
    axes.set(xlabel=table.scatter[0][1], ylabel=table.scatter[1][1])
    axes.grid(alpha=0.3)


def _deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0

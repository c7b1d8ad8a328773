"""Pictures of tables of runs: bars, curves over numbers, points, and differences with their intervals."""

import statistics

import numpy as np

from keras_headattn.utils import new_figure, not_below_zero
from recipes.engine.tables import (
    RELATIVE_TIME,
    differences,
    paired_differences,
    published_value,
    quantities_of,
    values_of,
)

NOTHING = {("training", "validation loss"): ""}  # what is drawn before a run has finished


def draw(cells, table):
    """Returns the figure of a table, with the deviation of seeds."""
    seeds = len({cell.seed for cell in cells})
    title = table.title + (f"; mean ± deviation of {seeds} seeds" if seeds > 1 else "")
    if table.compared and seeds > 1:
        return _forest(cells, table)
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


def _forest(cells, table):
    """Returns a figure of the differences of all rows from the first, and of their relative times."""
    first, *rows = table.rows
    panels = [(column, table.compared) for column in table.columns]
    timed = {cell.column for cell in cells if cell.row != first and cell.score(RELATIVE_TIME)}
    panels += [
        (column, RELATIVE_TIME) for column in table.columns if RELATIVE_TIME in table.measures and column in timed
    ]
    title = f"{table.title}; a point for each seed, 95 % intervals, p < 0.05 in black"
    figure = new_figure(2.4 + 2.6 * len(panels), 0.6 + 0.2 * len(rows), title)
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (column, measure) in zip(all_axes, panels, strict=True):
        name = f"{column}: {measure[1]}" if column else measure[1]
        if measure == RELATIVE_TIME:
            values = {row: [*values_of(cells, table, row, column, measure).values()] for row in rows}
            axes.set_xlabel(f"{name} ({first}: 1)")
        else:
            values = paired_differences(cells, table, column)
            for row, (mean, low, high, p) in differences(cells, table, column).items():
                style = dict(color="black" if p < 0.05 else "gray", markersize=5, capsize=2)
                axes.errorbar(mean, rows.index(row), xerr=[[mean - low], [high - mean]], fmt="|", **style)
            axes.set_xlabel(f"{name}, difference from {first}")
            _leave_out_extremes(axes, values, rows)
        for row, of_row in values.items():
            axes.plot(of_row, [rows.index(row)] * len(of_row), "o", color="C0", markersize=3.5, alpha=0.7)
        axes.axvline(measure == RELATIVE_TIME, color="gray", linewidth=1)
        axes.grid(alpha=0.3)
        axes.locator_params(axis="x", nbins=5)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    return figure


def _leave_out_extremes(axes, values, rows):
    """Ends the x axis near the values, whatever their intervals; means of values far off are written at its end."""
    sizes = np.abs([value for of_row in values.values() for value in of_row])
    if not sizes.any():
        return
    end = 1.5 * np.quantile(sizes, 0.9)
    if sizes.max() < 2 * end:
        end = 1.3 * sizes.max()
    axes.set_xlim(-end, end)
    for row, of_row in values.items():
        if of_row and abs(mean := statistics.fmean(of_row)) > end:
            side = dict(x=0.98, ha="right") if mean > 0 else dict(x=0.02, ha="left")
            axes.text(y=rows.index(row), s=f"{mean:+.2g}", va="center", transform=axes.get_yaxis_transform(), **side)


def _style(index):
    return dict(color=f"C{index}", marker="osD^vP*X"[index % 8], markersize=5)


def _curves(axes, cells, table, measure):
    for index, row in enumerate(table.rows):
        scores = {column: [*values_of(cells, table, row, column, measure).values()] for column in table.columns}
        scores = dict(sorted((column, values) for column, values in scores.items() if values))
        means, deviations = (
            [statistics.fmean(values) for values in scores.values()],
            [*map(_deviation, scores.values())],
        )
        axes.errorbar([*scores], means, deviations, capsize=3, label=row, **_style(index))
        published = {column: published_value(table, row, column, measure) for column in table.columns}
        if points := {column: value for column, value in published.items() if value is not None}:
            style = _style(index) | dict(linestyle="--", markerfacecolor="none", alpha=0.6)
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
    for row_index, row in enumerate(table.rows):
        for column_index, column in enumerate(table.columns):
            column_measure = measure or table.headlines[column]
            x = column_index + (row_index - (len(table.rows) - 1) / 2) * width
            if values := [*values_of(cells, table, row, column, column_measure).values()]:
                label = row if column_index == 0 else None
                mean = statistics.fmean(values)
                axes.bar(x, mean, 0.9 * width, yerr=_deviation(values), capsize=3, color=f"C{row_index}", label=label)
            value = published_value(table, row, column, column_measure)
            if value is not None:
                ends = x - 0.45 * width, x + 0.45 * width
                axes.plot(ends, (value, value), color="black", linestyle=":", label=f"{row}, published")
    axes.set_xticks(range(len(table.columns)), list(map(str, table.columns)))
    axes.set(ylabel=measure[1] if measure else "score")
    axes.grid(axis="y", alpha=0.3)


def _scatter(axes, cells, table):
    """Draws the second measure against the first, a point for each row."""
    for index, row in enumerate(table.rows):
        for column in table.columns:
            x, y = ([*values_of(cells, table, row, column, measure).values()] for measure in table.scatter)
            if x and y:
                axes.errorbar(np.mean(x), np.mean(y), _deviation(y), capsize=3, label=row, **_style(index))
            x, y = (published_value(table, row, column, measure) for measure in table.scatter)
            if x is not None and y is not None:
                style = _style(index) | dict(markerfacecolor="none", linestyle="none")
                axes.plot([x], [y], label=f"{row}, published", **style)
    axes.set(xlabel=table.scatter[0][1], ylabel=table.scatter[1][1])
    axes.grid(alpha=0.3)


def _deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0

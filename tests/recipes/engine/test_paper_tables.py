import dataclasses

import pytest

from keras_headattn._figures import as_image
from recipes.engine.table_figures import draw
from recipes.engine.tables import RELATIVE_TIME, Cell, Table, as_csv, markdown, read_csv, with_relative_time


def cell(attention, heads, bleu=None, seed=0, error=None):
    scores = {} if bleu is None else {("news", "BLEU"): (bleu, "tok:13a"), ("training", "validation loss"): (4.25, "")}
    return Cell(attention, heads, seed, scores, error)


FIGURES = {("news", "BLEU"): {"multi_head": {2: 21.15, 64: 17.94}}}
CELLS = [
    cell("multi_head", 2, 20.0),
    cell("multi_head", 2, 21.0, seed=1),
    cell("multi_head", 4, 22.0),
    cell("multi_head", 4, seed=1),
    cell("talking_heads", 2, error="out of memory", seed=0),
    cell("talking_heads", 2, error="out of luck", seed=1),
    cell("talking_heads", 4, 23.456),
]
BY_HEADS = Table(
    title="Scores by the number of heads",
    rows={"multi_head": {}, "talking_heads": {}},
    columns={2: {}, 4: {}},
    over="heads",
    published=FIGURES,
)
EXPECTED = """\
Scores by the number of heads

4 of 7 runs have finished. Columns: number of heads.
Mean ± standard deviation of 2 seeds; p of a paired t-test against the first row.

**news, BLEU** `tok:13a`

| | 2 | 4 |
|---|---:|---:|
| multi_head | 20.50 ± 0.71 | 22.00 (1 of 2 seeds) |
| multi_head, published | 21.15 | – |
| talking_heads | failed [1] [2] | 23.46 |

**training, validation loss**

| | 2 | 4 |
|---|---:|---:|
| multi_head | 4.25 ± 0.00 | 4.25 (1 of 2 seeds) |
| talking_heads | failed [1] [2] | 4.25 |

Failed:

1. talking_heads, 2 heads, seed 0: out of memory
2. talking_heads, 2 heads, seed 1: out of luck
"""


def drawn(cells, table):
    figure = draw(cells, table)
    as_image(figure)
    return figure


def test_a_table_by_hand():
    assert markdown(CELLS, BY_HEADS) == EXPECTED


def of_tasks(row, seed, cola, sst2):
    return [
        Cell(row, "CoLA", seed, {("dev", "mcc"): (cola, "")}),
        Cell(row, "SST-2", seed, {("dev", "accuracy"): (sst2, "")}),
    ]


TASKS = Table(
    title="A paper, table 3",
    rows={"plain": {}, "evolving": {}},
    columns={"CoLA": {}, "SST-2": {}},
    headlines={"CoLA": ("dev", "mcc"), "SST-2": ("dev", "accuracy")},
    published={("dev", "mcc"): {"plain": {"CoLA": 0.5}}, ("dev", "accuracy"): {"plain": {"SST-2": 0.9}}},
)
OF_TASKS = [
    *of_tasks("plain", 0, 0.5, 0.8),
    *of_tasks("plain", 1, 0.6, 0.9),
    *of_tasks("plain", 2, 0.6, 0.7),
    *of_tasks("evolving", 0, 0.6, 0.9),
    *of_tasks("evolving", 1, 0.8, 0.9),
    Cell("evolving", "CoLA", 2, {("dev", "mcc"): (0.9, "")}),
    Cell("evolving", "SST-2", 2, error="out of memory"),
]


def test_a_table_of_tasks_and_their_mean():
    """Of the third seed the second row has one task, so that it is not in the mean."""
    assert markdown(OF_TASKS, TASKS).splitlines()[5:9] == [
        "| | CoLA | SST-2 | mean |",
        "|---|---:|---:|---:|",
        "| plain | 0.5667 ± 0.0577 | 0.8000 ± 0.1000 | 0.6833 ± 0.0577 |",
        "| plain, published | 0.5000 | 0.9000 | 0.7000 |",
    ]
    (row,) = [line for line in markdown(OF_TASKS, TASKS).splitlines() if line.startswith("| evolving")]
    assert (
        "0.7667 ± 0.1528 (p 0.074) | 0.9000 ± 0.0000 (p 0.5) (2 of 3 seeds) | 0.8000 ± 0.0707 (2 of 3 seeds) |" in row
    )


def test_named_means_and_what_is_of_the_model():
    parameters = "training", "parameters"
    table = dataclasses.replace(
        TASKS, means={"mean of CoLA": ("CoLA",)}, of_model=(parameters,), published={parameters: {"plain": 5e6}}
    )
    cells = [dataclasses.replace(cell, scores=cell.scores | {parameters: (4e6, "")}) for cell in OF_TASKS[:2]]
    assert markdown(cells, table).splitlines()[4:8] == [
        "| | CoLA | SST-2 | mean of CoLA | parameters |",
        "|---|---:|---:|---:|---:|",
        "| plain | 0.5000 | 0.8000 | 0.5000 | 4,000,000 |",
        "| plain, published | – | – | – | 5,000,000 |",
    ]


def test_time_relative_to_the_first_row():
    minutes = "training", "minutes an epoch"
    rows = {"plain": (2.0, 4.0), "other": (6.0, None)}
    cells = [
        Cell(row, "", seed, {} if value is None else {minutes: (value, "")})
        for row, values in rows.items()
        for seed, value in enumerate(values)
    ]
    table = Table(title="A paper, table 2", rows=dict.fromkeys(rows, {}))
    found = [cell.score(RELATIVE_TIME) for cell in with_relative_time(cells, table)]
    assert [score and score[0] for score in found] == pytest.approx([1.0, 1.0, 3.0, None])


def test_a_table_with_measures_as_columns():
    measures = ("test", "accuracy"), ("training", "parameters")
    table = Table(title="A paper, table 1", rows={"resnet": {}, "ea_aa": {}}, measures=measures)
    table = dataclasses.replace(table, published={measures[0]: {"ea_aa": {"": 0.79}}})
    cells = [Cell("resnet", "", 0, {measures[0]: (0.75, ""), measures[1]: (25_000_000, "")}), Cell("ea_aa", "", 0)]
    assert markdown(cells, table).splitlines()[4:] == [
        "| | test, accuracy | training, parameters |",
        "|---|---:|---:|",
        "| resnet | 0.7500 | 25,000,000 |",
        "| ea_aa | – | – |",
        "| ea_aa, published | 0.7900 | – |",
    ]
    assert as_csv(cells).splitlines()[1:] == [
        "resnet,,0,test,accuracy,0.75,",
        "resnet,,0,training,parameters,25000000,",
    ]


def test_scores_of_a_file_are_written_as_they_were(tmp_path):
    scores = {("test", "loss"): (1.5, "case:lower"), ("training", "parameters"): (25_000_000, "")}
    file = tmp_path / "scores.csv"
    file.write_text(as_csv([Cell("resnet", "", 3, scores)]))
    assert as_csv([Cell(*place, of_run) for place, of_run in read_csv(file).items()]) == file.read_text()


def test_bars():
    figure = drawn(OF_TASKS, TASKS)
    (axes,) = figure.axes
    heights = [bar.get_height() for container in axes.containers for bar in getattr(container, "patches", ())]
    assert heights == pytest.approx([1.7 / 3, 0.8, 2.3 / 3, 0.9]) and axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_xticklabels()] == ["CoLA", "SST-2"]
    assert [line.get_ydata()[0] for line in axes.lines if line.get_label() == "plain, published"] == [0.5, 0.9]


def test_a_scatter():
    x, y = ("training", "parameters"), ("test", "accuracy")
    table = Table(title="A paper, figure 1", rows={"a": {}, "b": {}}, scatter=(x, y))
    figure = drawn([Cell("a", "", 0, {x: (10, ""), y: (0.5, "")}), Cell("b", "", 0)], table)
    (axes,) = figure.axes
    assert axes.containers[0].lines[0].get_xydata().tolist() == [[10, 0.5]] and len(axes.containers) == 1
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("parameters", "accuracy")


def test_plots():
    """Means with the deviation of seeds, and the published scores of the same numbers of heads."""
    figure = drawn(CELLS, BY_HEADS)
    news, training = figure.axes
    assert figure.get_suptitle() == "Scores by the number of heads; mean ± deviation of 2 seeds"
    assert news.get_ylabel() == "BLEU" and training.get_ylabel() == "validation loss"
    means = [bars.lines[0].get_xydata().tolist() for bars in news.containers]
    assert means == [[[2, 20.5], [4, 22.0]], [[4, 23.456]]]
    (below, above), at_four = news.containers[0].lines[2][0].get_segments()
    assert above[1] - below[1] == pytest.approx(2 * 0.5**0.5) and at_four[0][1] == at_four[1][1]
    (published,) = [line for line in news.lines if line.get_label() == "multi_head, published"]
    assert published.get_xydata().tolist() == [[2, 21.15]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "multi_head", "multi_head, published", "talking_heads"
    ]  # fmt: skip


def test_scores_of_zero_do_not_begin_below_zero():
    one = dataclasses.replace(BY_HEADS, rows={"multi_head": {}}, published={})
    figure = drawn([cell("multi_head", 2, 0.0), cell("multi_head", 4, 0.0)], one)
    news, training = figure.axes
    for axes, score in ((news, 0), (training, 4.25)):
        assert axes.containers[0].lines[0].get_xydata().tolist() == [[2, score], [4, score]]
    assert news.get_ylim() == (0, 1) and training.get_ylim()[0] > 0


def test_a_plot_before_any_run_has_finished():
    one = dataclasses.replace(BY_HEADS, rows={"multi_head": {}}, columns={2: {}}, published={})
    figure = drawn([cell("multi_head", 2)], one)
    (axes,) = figure.axes
    assert axes.get_ylabel() == "validation loss" and [text.get_text() for text in axes.get_xticklabels()] == ["2"]
    assert len(axes.containers[0].lines[0].get_xydata()) == 0 and axes.get_legend_handles_labels()[1] == ["multi_head"]


def test_legends_fit_the_picture():
    rows = {f"a_row_with_a_long_name_{number}": {} for number in range(12)}
    measure = "test", "BLEU"
    table = Table(title="A paper", rows=rows, measures=(measure,), published={measure: dict.fromkeys(rows, 20.0)})
    figure = drawn([Cell(row, "", 0, {("tst2014", "BLEU"): (21.0, "")}) for row in rows], table)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*rows, "published"]
    box = legend.get_window_extent()
    assert 0 <= box.x0 and box.x1 <= figure.bbox.width


def test_the_test_set_is_the_mean_of_all_test_sets():
    scores = {("dev_matched", "score"): (80.0, ""), ("dev_mismatched", "score"): (82.0, "")}
    assert Cell("row", "mnli", 0, scores).score(("test", "score")) == (81.0, "")
    assert Cell("row", "mnli", 0, scores | {("test", "score"): (70.0, "")}).score(("test", "score")) == (70.0, "")
    assert Cell("row", "mnli", 0, {("training", "score"): (1.0, "")}).score(("test", "score")) is None

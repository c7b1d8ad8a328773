import pytest

from recipes.engine.tables import Cell, markdown, plot


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
EXPECTED = """\
4 of 7 runs have finished. Columns: number of heads. Mean ± standard deviation of 2 seeds.

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


def test_a_table_by_hand():
    assert markdown(CELLS, FIGURES) == EXPECTED


def test_plots(figures):
    """Means with the deviation of seeds, and the published scores of the same numbers of heads."""
    plot(CELLS, FIGURES)
    news, training = figures[0].axes
    assert figures[0].get_suptitle() == "Scores by the number of heads, mean ± deviation of 2 seeds"
    assert news.get_ylabel() == "BLEU" and training.get_ylabel() == "validation loss"
    means = [bars.lines[0].get_xydata().tolist() for bars in news.containers]
    assert means == [[[2, 20.5], [4, 22.0]], [[4, 23.456]]]
    (below, above), at_four = news.containers[0].lines[2][0].get_segments()
    assert above[1] - below[1] == pytest.approx(2 * 0.5**0.5) and at_four[0][1] == at_four[1][1]
    (published,) = [line for line in news.lines if line.get_label() == "multi_head, published"]
    assert published.get_xydata().tolist() == [[2, 21.15]]
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == [
        "multi_head", "multi_head, published", "talking_heads"
    ]  # fmt: skip


def test_scores_of_zero_do_not_begin_below_zero(figures):
    plot([cell("multi_head", 2, 0.0), cell("multi_head", 4, 0.0)], {})
    news, training = figures[0].axes
    for axes, score in ((news, 0), (training, 4.25)):
        assert axes.containers[0].lines[0].get_xydata().tolist() == [[2, score], [4, score]]
    assert news.get_ylim() == (0, 1) and training.get_ylim()[0] > 0


def test_a_plot_before_any_run_has_finished(figures):
    plot([cell("multi_head", 2)], FIGURES)
    (axes,) = figures[0].axes
    assert axes.get_ylabel() == "validation loss" and [text.get_text() for text in axes.get_xticklabels()] == ["2"]
    assert len(axes.containers[0].lines[0].get_xydata()) == 0 and axes.get_legend_handles_labels()[1] == ["multi_head"]

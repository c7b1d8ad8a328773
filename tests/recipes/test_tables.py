from recipes.tables import Cell, markdown, plot


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


def test_plots():
    for cells in (CELLS, [cell("multi_head", 2)]):
        assert plot(cells, FIGURES).startswith(b"\x89PNG")

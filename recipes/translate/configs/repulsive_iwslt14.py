"""IWSLT'14 German to English with repulsive attention, of An et al. 2020, "Repulsive attention".

    python -m recipes.translate --config repulsive_iwslt14 --train tmp/train.de tmp/train.en \\
        --validation tmp/valid.de tmp/valid.en --test tmp/test.de tmp/test.en

    python -m recipes.sweep repulsive_iwslt14 --train ...

The sweep trains the rows of the paper's tables 2, 8 and 10, `repulsive_figure3_iwslt14` is its figure 3. None has been
run here.

Step size and repulsive weight are those of section B.2.3, where the Transformer `small` has 4 heads; the rest is as in
`iwslt14`, as the paper follows Vaswani et al. 2017 and fairseq. The weight of the regulariser is not printed. The
temperature of table 8 neither.
"""

import dataclasses

from recipes.engine.tables import RELATIVE_TIME, Table
from recipes.translate.configs import iwslt14

CONFIG = dataclasses.replace(
    iwslt14.CONFIG,
    repulsive="svgd",
)

MEASURES = ("test", "tokenized BLEU"), ("training", "minutes an epoch"), RELATIVE_TIME
PARTS = {  # table 10: what repels
    "rma_query": dict(projections=("query",)),
    "rma_key": dict(projections=("key",)),
    "rma_value": dict(projections=("value",)),
    "rma_encoder": dict(roles=("encoder",)),
    "rma_decoder": dict(roles=("decoder",)),
    "rma_cross": dict(roles=("cross",)),
    "rma_first": dict(layers="first"),
    "rma_last": dict(layers="last"),
}
ROWS = {
    "ma": dict(repulsive="none"),
    "ma_r": dict(repulsive="none", attention_regularizer="disagreement"),
    "rma": dict(repulsive="svgd"),
}
TABLES = {
    "repulsive_iwslt14": Table(
        title="An et al. 2020, tables 2, 8 and 10: IWSLT'14 De-En",
        config="repulsive_iwslt14",
        rows=ROWS
        | {"sgld": dict(repulsive="sgld")}
        | {name: dict(repulsive="svgd", repulsive_arguments=part) for name, part in PARTS.items()},
        measures=MEASURES,
        published={
            MEASURES[0]: dict(ma=34.4, ma_r=34.9, rma=35.2, sgld=34.7)
            | dict(zip(PARTS, (34.7, 34.7, 34.9, 34.6, 34.7, 34.9, 35.1, 34.7), strict=True)),
            RELATIVE_TIME: dict(ma=1.0, ma_r=1.29, rma=1.13)  # one figure for several rows of table 10
            | dict(zip(PARTS, 6 * [1.06] + 2 * [1.03], strict=True)),
        },
    ),
    "repulsive_figure3_iwslt14": Table(
        title="An et al. 2020, figure 3 (b): loss on IWSLT'14 De-En by heads; the paper prints no numbers",
        config="repulsive_iwslt14",
        rows={name: ROWS[name] for name in ("ma", "rma")},
        columns={heads: dict(num_heads=heads) for heads in (2, 4, 8, 16, 32)},
        over="heads",
        measures=(("training", "validation loss"),),
    ),
}

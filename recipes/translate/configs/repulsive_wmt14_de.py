"""WMT14 English to German with repulsive attention, of An et al. 2020, "Repulsive attention".

    python -m recipes.translate --config repulsive_wmt14_de

    python -m recipes.sweep repulsive_table2_wmt14_de

The sweep trains the rows of the paper's table 2, the Transformer `big` too. None has been run here.

Step size and repulsive weight are those of section B.2.3, where the Transformer is `base`; the rest is as in
`wmt14_de`. The weight of the regulariser is not printed. `big` has Vaswani et al.'s dropout of 0.3.
"""

import dataclasses

from recipes.engine.tables import RELATIVE_TIME, Table
from recipes.translate.configs import wmt14_de
from recipes.translate.configs.repulsive_iwslt14 import MEASURES, ROWS

CONFIG = dataclasses.replace(
    wmt14_de.CONFIG,
    repulsive="svgd",
)

TABLES = {
    "repulsive_table2_wmt14_de": Table(
        title="An et al. 2020, table 2: WMT14 En-De",
        config="repulsive_wmt14_de",
        rows=ROWS | {"big_ma": ROWS["ma"] | wmt14_de.BIG},
        measures=MEASURES,
        published={
            MEASURES[0]: dict(ma=27.3, ma_r=28.2, rma=28.4, big_ma=28.4),
            RELATIVE_TIME: dict(ma=1.0, ma_r=1.35, rma=1.18),
        },
    )
}

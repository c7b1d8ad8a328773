"""WMT14 English to German with "Disentangled mask attention in Transformer", its size `base`.

    python -m recipes.translate --config disentangled_wmt14_de

    python -m recipes.sweep disentangled_table2      its tables 2 and 6

BLEU is after compound splitting, as the paper's. `disentangled_small_wmt14_de` is 384 wide and has 313,000
updates, about 57 epochs. Data and settings are those of `wmt14_de`. None has been run here. From table 5: 4 clusters,
c_qq of 100 and c_xq of 10, as in `disentangled_iwslt14`.
"""

import dataclasses

from recipes.translate.configs import wmt14_de
from recipes.translate.configs.disentangled_iwslt14 import table

BASE = dataclasses.replace(
    wmt14_de.CONFIG, attention="disentangled_mask", metrics=(*wmt14_de.CONFIG.metrics, "redundancy")
)
SMALL = dataclasses.replace(BASE, epochs=57, model_arguments=BASE.model_arguments | dict(hidden_dim=384))
CONFIGS = {"disentangled_wmt14_de": BASE, "disentangled_small_wmt14_de": SMALL}

PLAIN = dict(config="disentangled_wmt14_de", attention="multi_head")
SMALLER = dict(vocabulary_size=37_000, records="records/wmt14_de_37k")
TABLES = {
    "disentangled_table2": table(
        "Disentangled mask attention, tables 2 and 6: WMT14 En-De",
        {
            "transformer_base": PLAIN,
            "dma_base": dict(config="disentangled_wmt14_de"),
            "dma_small": dict(config="disentangled_small_wmt14_de"),
            "transformer_base_37k": PLAIN | SMALLER,
            "dma_base_37k": dict(config="disentangled_wmt14_de") | SMALLER,
            "transformer_big": PLAIN | SMALLER | wmt14_de.BIG,
        },
        {
            "transformer_base": (27.75, 66.52e6, 0.79, 0.69),
            "dma_base": (28.35, 66.61e6, 0.73, 0.58),
            "dma_small": (28.16, 46.4e6, 0.70, 0.57),
            "transformer_base_37k": (27.44, 63.08e6, 0.79, 0.70),
            "dma_base_37k": (27.94, 63.16e6, 0.73, 0.61),
            "transformer_big": (28.40, 213.0e6, None, None),  # of Vaswani et al. 2017
        },
        bleu="compound-split BLEU",
    )
}

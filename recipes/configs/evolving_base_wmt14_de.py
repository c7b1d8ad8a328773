"""WMT14 English to German with EA-Transformer-Base of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_base_wmt14_de

Paper: 27.56 BLEU, and 27.47 without evolving attention, which is `--attention multi_head` (table 5). This setting has
not been run here. All but size and alpha is as in `evolving_lite_wmt14_de`, which says where it comes from.
"""

import dataclasses

from recipes.configs import evolving_lite_wmt14_de

CONFIG = dataclasses.replace(
    evolving_lite_wmt14_de.CONFIG,
    size="base",
    map_alpha=0.5,
    run="runs/evolving_base_wmt14_de",
    export="saved_models/evolving_base_wmt14_de",
)

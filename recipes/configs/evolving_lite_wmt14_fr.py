"""WMT14 English to French with EA-Transformer-Lite of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_wmt14_fr

Paper: 34.12 BLEU, and 33.22 without evolving attention, which is `--attention multi_head` (table 5) on 8 GPUs; 16
batches an update. This setting has not been run here. Ablations (table 6): `--map-roles decoder cross` and so on,
`--map-alpha 0` for no skip connections, `--map-kernel 1` or `5`.

The rest is as in `evolving_lite_wmt14_de`, which says where it comes from, text and vocabulary as in `wmt14_fr`.
"""

import dataclasses

from recipes.configs import evolving_lite_wmt14_de, wmt14_fr

CONFIG = dataclasses.replace(
    evolving_lite_wmt14_de.CONFIG,
    target_language=wmt14_fr.CONFIG.target_language,
    tfds=wmt14_fr.CONFIG.tfds,
    vocabulary_size=wmt14_fr.CONFIG.vocabulary_size,
    records=wmt14_fr.CONFIG.records,
    dropout=0.1,
    run="runs/evolving_lite_wmt14_fr",
    export="saved_models/evolving_lite_wmt14_fr",
)

"""WMT14 English to German with "Disentangled mask attention in Transformer", its size `base`.

    python -m recipes.translate --config disentangled_wmt14_de

Paper, table 2: 28.35 BLEU after compound splitting, and 27.75 with multi-head attention, which is `wmt14_de`, whose
data and settings these are. Table 6, `--vocabulary-size 37000`: 27.94 and 27.44. 384 wide, `--config
disentangled_small_wmt14_de`: 28.16, after 313,000 updates, about 57 epochs. None has been run here. From table 5: 4
clusters, c_qq of 100 and c_xq of 10, as in `disentangled_iwslt14`.
"""

import dataclasses

from recipes.translate.configs import wmt14_de

BASE = dataclasses.replace(wmt14_de.CONFIG, attention="disentangled_mask")
SMALL = dataclasses.replace(BASE, epochs=57, model_arguments=BASE.model_arguments | dict(hidden_dim=384))
CONFIGS = {"disentangled_wmt14_de": BASE, "disentangled_small_wmt14_de": SMALL}

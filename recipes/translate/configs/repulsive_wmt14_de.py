"""WMT14 English to German with repulsive attention, of An et al. 2020, "Repulsive attention".

    python -m recipes.translate --config repulsive_wmt14_de

Paper: 28.4 BLEU; 27.3 with `--repulsive none`, 28.2 with that and `--attention-regularizer disagreement`
(table 2). This setting has not been run here.

Step size and repulsive weight are those of section B.2.3, where the Transformer is `base`; the rest is as in
`wmt14_de`. The weight of the regulariser is not printed.
"""

import dataclasses

from recipes.translate.configs import wmt14_de

CONFIG = dataclasses.replace(
    wmt14_de.CONFIG,
    repulsive="svgd",
)

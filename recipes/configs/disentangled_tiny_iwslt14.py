"""`disentangled_iwslt14` 256 wide, with 4 clusters. Paper, table 1: 34.96 BLEU. It has not been run here.

From table 5: c_qq of 50, c_xq of 5, and 99,000 updates, about 90 epochs.
"""

import dataclasses

from recipes.configs import disentangled_iwslt14

CONFIG = dataclasses.replace(
    disentangled_iwslt14.CONFIG,
    hidden_dim=256,
    intermediate_dim=512,
    num_clusters=4,
    shared_information=5e-6,
    kept_information=5e-4,
    epochs=90,
    run="runs/disentangled_tiny_iwslt14",
    export="saved_models/disentangled_tiny_iwslt14",
)

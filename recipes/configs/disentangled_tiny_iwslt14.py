"""`disentangled_iwslt14` 256 wide, with 4 clusters. Paper, table 1: 34.96 BLEU. It has not been run here.

From table 5: c_qq of 50, c_xq of 5, and 99,000 updates, about 90 epochs.
"""

import dataclasses

from recipes.configs import iwslt14

CONFIG = dataclasses.replace(
    iwslt14.CONFIG,
    vocabulary_size=8_848,
    attention="disentangled_mask",
    attention_arguments=dict(num_clusters=4, shared_information=5e-6, kept_information=5e-4),
    epochs=90,
    shared_vocabulary=False,
    target_vocabulary_size=6_632,
    hidden_dim=256,
    intermediate_dim=512,
)

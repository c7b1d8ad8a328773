"""`disentangled_iwslt14` 384 wide, with 4 clusters. Paper, table 1: 35.00 BLEU. It has not been run here."""

import dataclasses

from recipes.configs import iwslt14

CONFIG = dataclasses.replace(
    iwslt14.CONFIG,
    vocabulary_size=8_848,
    attention="disentangled_mask",
    attention_arguments=dict(num_clusters=4),
    shared_vocabulary=False,
    target_vocabulary_size=6_632,
    hidden_dim=384,
)

"""WMT14 English to German with EA-Transformer-Base of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_base_wmt14_de

Paper: 27.56 BLEU, and 27.47 without evolving attention, which is `--attention multi_head` (table 5). This setting has
not been run here. All but size and alpha is as in `evolving_lite_wmt14_de`, which says where it comes from.
"""

import dataclasses

from recipes.configs import wmt14_de

CONFIG = dataclasses.replace(
    wmt14_de.CONFIG,
    attention="evolving",
    attention_arguments=dict(alpha=0.5, beta=0.1),
    dropout=0.3,
    epochs=100,
    patience=5,
    tokens_per_batch=8 * 4096,
    learning_rate=1e-3,
    average=10,
    accumulation=16,
    decoder_attention_arguments=dict(alpha=0.0),
    cross_attention_arguments=dict(alpha=0.0),
)

"""WMT14 English to French with EA-Transformer-Lite of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_wmt14_fr

Paper: 34.12 BLEU, and 33.22 without evolving attention, which is `--attention multi_head` (table 5) on 8 GPUs; 16
batches an update. This setting has not been run here. Ablations (table 6): alpha=0 in `--attention-arguments` for no
skip connections, beta=0 in those of a role for no convolution there, kernel_size=1 or 5.

The rest is as in `evolving_lite_wmt14_de`, which says where it comes from, text and vocabulary as in `wmt14_fr`.
"""

import dataclasses

from recipes.configs import wmt14_de

CONFIG = dataclasses.replace(
    wmt14_de.CONFIG,
    target_language="fr",
    tfds="wmt14_translate/fr-en",
    vocabulary_size=40_000,
    size="lite",
    attention="evolving",
    attention_arguments=dict(alpha=0.1, beta=0.1),
    epochs=100,
    patience=5,
    tokens_per_batch=8 * 4096,
    learning_rate=1e-3,
    average=10,
    records="records/wmt14_fr",
    accumulation=16,
    decoder_attention_arguments=dict(alpha=0.0),
    cross_attention_arguments=dict(alpha=0.0),
)

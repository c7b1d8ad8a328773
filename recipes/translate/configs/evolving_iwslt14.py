"""IWSLT'14 German to English with EA-Transformer-Lite and -Base of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_iwslt14 --train tmp/train.de tmp/train.en \\
        --validation tmp/valid.de tmp/valid.en --test tmp/test.de tmp/test.en

Paper: 33.80 BLEU, and of `--config evolving_base_iwslt14` 35.30; 33.32 and 34.55 without evolving attention, which is
`--attention multi_head` (table 5); on one GPU. These settings have not been run here. Ablations (table 6): alpha=0 in
`--attention-arguments` for no skip connections, beta=0 in those of a role for no convolution there, kernel_size=1 or 5.

From the paper (section 4.3, tables 5 and 10, appendix A.3): size, alpha, beta, dropout, learning rate, warm-up, label
smoothing, Adam's betas, patience, the average of the last 10 checkpoints, beam. Text, vocabulary and tokens a batch, on
which the paper is silent, are those of `iwslt14`.
"""

import dataclasses

from recipes.translate.configs import iwslt14

LITE = dataclasses.replace(
    iwslt14.CONFIG,
    size="lite",
    attention="evolving",
    attention_arguments=dict(alpha=0.1, beta=0.1),
    model_arguments=iwslt14.CONFIG.model_arguments | dict(dropout=0.2),
    epochs=100,
    patience=5,
    learning_rate=1e-3,
    average=10,
    decoder_attention_arguments=dict(alpha=0.0),
    cross_attention_arguments=dict(alpha=0.0),
)
BASE = dataclasses.replace(LITE, size="base", attention_arguments=dict(alpha=0.5, beta=0.1))
CONFIGS = {"evolving_lite_iwslt14": LITE, "evolving_base_iwslt14": BASE}

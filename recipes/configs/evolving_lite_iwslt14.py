"""IWSLT'14 German to English with EA-Transformer-Lite of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_iwslt14 --train tmp/train.de tmp/train.en \\
        --validation tmp/valid.de tmp/valid.en --test tmp/test.de tmp/test.en

Paper: 33.80 BLEU, and 33.32 without evolving attention, which is `--attention multi_head` (table 5); on one GPU. This
setting has not been run here. Ablations (table 6): `--map-roles decoder cross` and so on, `--map-alpha 0` for no skip
connections, `--map-kernel 1` or `5`.

From the paper (section 4.3, tables 5 and 10, appendix A.3): size, alpha, beta, dropout, learning rate, warm-up, label
smoothing, Adam's betas, patience, the average of the last 10 checkpoints, beam. Text, vocabulary and tokens a batch, on
which the paper is silent, are those of `iwslt14`.
"""

import dataclasses

from recipes.configs import iwslt14

CONFIG = dataclasses.replace(
    iwslt14.CONFIG,
    size="lite",
    attention="evolving",
    map_alpha=0.1,
    map_beta=0.1,
    dropout=0.2,
    learning_rate=1e-3,
    warmup_steps=4000,
    epochs=100,
    patience=5,
    average=10,
    beam_size=5,
    run="runs/evolving_lite_iwslt14",
    export="saved_models/evolving_lite_iwslt14",
)

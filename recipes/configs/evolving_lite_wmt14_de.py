"""WMT14 English to German with EA-Transformer-Lite of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_wmt14_de

Paper: 21.63 BLEU, and 21.11 without evolving attention, which is `--attention multi_head` (table 5) on 8 GPUs; 16
batches an update. This setting has not been run here. Ablations (table 6): `--map-roles decoder cross` and so on,
`--map-alpha 0` for no skip connections, `--map-kernel 1` or `5`.

From the paper (section 4.3, tables 5 and 10, appendix A.3): size, alpha, beta, dropout, learning rate, warm-up, label
smoothing, Adam's betas, patience, the average of the last 10 checkpoints, beam. Text and vocabulary, on which the paper
is silent, are those of `wmt14_de`. 4,096 tokens a GPU are fairseq's usual number.
"""

import dataclasses

from recipes.configs import wmt14_de

CONFIG = dataclasses.replace(
    wmt14_de.CONFIG,
    size="lite",
    attention="evolving",
    map_alpha=0.1,
    map_beta=0.1,
    dropout=0.3,
    learning_rate=1e-3,
    warmup_steps=4000,
    epochs=100,
    patience=5,
    tokens_per_batch=8 * 4096,
    accumulation=16,
    average=10,
    beam_size=5,
    run="runs/evolving_lite_wmt14_de",
    export="saved_models/evolving_lite_wmt14_de",
)

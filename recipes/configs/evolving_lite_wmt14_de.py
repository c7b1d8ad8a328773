"""WMT14 English to German with EA-Transformer-Lite of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_wmt14_de

Paper: 21.63 BLEU, and 21.11 without evolving attention, which is `--attention multi_head` (table 5) on 8 GPUs; 16
batches an update. This setting has not been run here. Ablations (table 6): alpha=0 in `--attention-arguments` for no
skip connections, beta=0 in those of a role for no convolution there, kernel_size=1 or 5.

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
    attention_arguments=dict(alpha=0.1, beta=0.1),
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

"""WMT14 English to German and French with EA-Transformer-Lite and -Base of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_wmt14_de

Paper (table 5), without evolving attention, which is `--attention multi_head`, behind the stroke: 21.63 / 21.11 BLEU,
`--config evolving_base_wmt14_de` 27.56 / 27.47, `evolving_lite_wmt14_fr` 34.12 / 33.22 and `evolving_base_wmt14_fr`
41.54 / 40.79; on 8 GPUs, 16 batches an update. These settings have not been run here. Ablations (table 6): alpha=0 in
`--attention-arguments` for no skip connections, beta=0 in those of a role for no convolution there, kernel_size=1 or 5.

From the paper (section 4.3, tables 5 and 10, appendix A.3): size, alpha, beta, dropout, learning rate, warm-up, label
smoothing, Adam's betas, patience, the average of the last 10 checkpoints, beam. Text and vocabulary, on which the paper
is silent, are those of `wmt14_de`, and of French those of `wmt14_fr`. 4,096 tokens a GPU are fairseq's usual number.
"""

import dataclasses

from recipes.translate.configs import wmt14_de

LITE = dataclasses.replace(
    wmt14_de.CONFIG,
    size="lite",
    attention="evolving",
    attention_arguments=dict(alpha=0.1, beta=0.1),
    model_arguments=wmt14_de.CONFIG.model_arguments | dict(dropout=0.3),
    epochs=100,
    patience=5,
    tokens_per_batch=8 * 4096,
    learning_rate=1e-3,
    average=10,
    optimizer_arguments=dict(gradient_accumulation_steps=16),
    decoder_attention_arguments=dict(alpha=0.0),
    cross_attention_arguments=dict(alpha=0.0),
)
BASE = dict(size="base", attention_arguments=dict(alpha=0.5, beta=0.1))
FRENCH = dict(
    target_language="fr",
    tfds="wmt14_translate/fr-en",
    vocabulary_size=40_000,
    model_arguments=wmt14_de.CONFIG.model_arguments,
    records="records/wmt14_fr",
)
CONFIGS = {
    "evolving_lite_wmt14_de": LITE,
    "evolving_base_wmt14_de": dataclasses.replace(LITE, **BASE),
    "evolving_lite_wmt14_fr": dataclasses.replace(LITE, **FRENCH),
    "evolving_base_wmt14_fr": dataclasses.replace(LITE, **FRENCH, **BASE),
}

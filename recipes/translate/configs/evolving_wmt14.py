"""WMT14 English to German and French with EA-Transformer-Lite and -Base of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_wmt14_de

    python -m recipes.sweep evolving_table5_wmt14_de
    python -m recipes.sweep evolving_table6_wmt14_fr

The sweeps train the rows of the paper's tables 5 and 6 of a corpus, `wmt14_de` or `wmt14_fr`. The paper does so on 8
GPUs, 16 batches an update. These settings have not been run here.

From the paper (section 4.3, tables 5 and 10, appendix A.3): size, alpha, beta, dropout, learning rate, warm-up, label
smoothing, Adam's betas, patience, the average of the last 10 checkpoints, beam. Text and vocabulary, on which the paper
is silent, are those of `wmt14_de`, and of French those of `wmt14_fr`. 4,096 tokens a GPU are fairseq's usual number.
"""

import dataclasses

from recipes.translate.configs import wmt14_de
from recipes.translate.configs.evolving_iwslt14 import tables

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
    metrics=("bleu", "tokenized_bleu"),
    model_arguments=wmt14_de.CONFIG.model_arguments,
    records="records/wmt14_fr",
)
CONFIGS = {
    "evolving_lite_wmt14_de": LITE,
    "evolving_base_wmt14_de": dataclasses.replace(LITE, **BASE),
    "evolving_lite_wmt14_fr": dataclasses.replace(LITE, **FRENCH),
    "evolving_base_wmt14_fr": dataclasses.replace(LITE, **FRENCH, **BASE),
}

TABLE_5 = {  # English to German, to French
    "transformer_lite": (21.11, 33.22),
    "ea_transformer_lite": (21.63, 34.12),
    "transformer_base": (27.47, 40.79),
    "ea_transformer_base": (27.56, 41.54),
}
TABLE_6 = {
    "transformer_lite": (21.11, 33.22),
    "ea_transformer_lite": (21.63, 34.12),
    "no_encoder_convolution": (21.07, 33.51),
    "no_decoder_convolution": (21.45, 33.72),
    "no_cross_convolution": (21.41, 33.73),
    "no_skip": (21.43, 34.06),
    "1x1": (21.20, 33.52),
    "5x5": (21.40, 34.08),
}
FLOPS = {
    "transformer_lite": 158.31e6,
    "ea_transformer_lite": 163.46e6,
    "transformer_base": 2.68e9,
    "ea_transformer_base": 2.70e9,
}
TABLES = {
    name: table
    for index, (corpus, title) in enumerate({"wmt14_de": "WMT14 En-De", "wmt14_fr": "WMT14 En-Fr"}.items())
    for name, table in tables(
        corpus, title, *({row: bleu[index] for row, bleu in rows.items()} for rows in (TABLE_5, TABLE_6)), FLOPS
    ).items()
}

"""IWSLT'14 German to English with EA-Transformer-Lite and -Base of Wang et al. 2021, "Evolving attention".

    python -m recipes.translate --config evolving_lite_iwslt14 --train tmp/train.de tmp/train.en \\
        --validation tmp/valid.de tmp/valid.en --test tmp/test.de tmp/test.en

    python -m recipes.sweep evolving_table5_iwslt14 --train ...
    python -m recipes.sweep evolving_table6_iwslt14 --train ...

The sweeps train the rows of the paper's tables 5 and 6 of this corpus. The paper does so on one GPU. These settings
have not been run here.

From the paper (section 4.3, tables 5 and 10, appendix A.3): size, alpha, beta, dropout, learning rate, warm-up, label
smoothing, Adam's betas, patience, the average of the last 10 checkpoints, beam. Text, vocabulary and tokens a batch, on
which the paper is silent, are those of `iwslt14`. Tables 5 and 6
print 33.32 and 33.21 for the same model, Transformer-Lite. The paper's FLOPs are those of 30 tokens on each side,
without the output layer, as ours are; its parameters are without embeddings, other than ours.
"""

import dataclasses

from recipes.engine.tables import Table
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

TABLE_5 = {
    "transformer_lite": 33.32,
    "ea_transformer_lite": 33.80,
    "transformer_base": 34.55,
    "ea_transformer_base": 35.30,
}
TABLE_6 = {
    "transformer_lite": 33.21,
    "ea_transformer_lite": 33.80,
    "no_encoder_convolution": 32.84,
    "no_decoder_convolution": 33.56,
    "no_cross_convolution": 33.59,
    "no_skip": 33.70,
    "1x1": 33.15,
    "5x5": 33.54,
}
MEASURES = ("test", "tokenized BLEU"), ("training", "parameters"), ("training", "FLOPs")
ABLATIONS = {
    "transformer_lite": dict(attention="multi_head"),
    "ea_transformer_lite": {},
    "no_encoder_convolution": dict(
        attention_arguments=dict(beta=0.0),
        decoder_attention_arguments=dict(beta=0.1),
        cross_attention_arguments=dict(beta=0.1),
    ),
    "no_decoder_convolution": dict(decoder_attention_arguments=dict(beta=0.0)),
    "no_cross_convolution": dict(cross_attention_arguments=dict(beta=0.0)),
    "no_skip": dict(attention_arguments=dict(alpha=0.0)),
    "1x1": dict(attention_arguments=dict(kernel_size=1)),
    "5x5": dict(attention_arguments=dict(kernel_size=5)),
}


def tables(corpus, name, table_5, table_6, flops=None):
    """Returns the paper's tables 5 and 6 of a corpus: dictionary of name to `Table`. Rows have `flops`."""
    return {
        f"evolving_table5_{corpus}": Table(
            title=f"Wang et al. 2021, table 5: {name}",
            rows={
                f"{prefix}transformer_{size}": dict(config=f"evolving_{size}_{corpus}") | heads
                for size in ("lite", "base")
                for prefix, heads in {"": dict(attention="multi_head"), "ea_": {}}.items()
            },
            measures=MEASURES,
            published={MEASURES[0]: table_5, MEASURES[2]: flops or {}},
        ),
        f"evolving_table6_{corpus}": Table(
            title=f"Wang et al. 2021, table 6: ablations on {name}",
            config=f"evolving_lite_{corpus}",
            rows=ABLATIONS,
            measures=MEASURES[:1],
            published={MEASURES[0]: table_6},
        ),
    }


TABLES = tables("iwslt14", "IWSLT'14 De-En", TABLE_5, TABLE_6)

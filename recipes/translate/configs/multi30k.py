"""Multi30k, English to German, with the tiny Transformer of Wu et al. 2021, "Good for misconceived reasons".

    python -m recipes.translate --config multi30k --run runs/multi30k --attention evolving \\
        --train train.en.gz train.de.gz --validation val.en.gz val.de.gz \\
        --test test_2016_flickr.en.gz test_2016_flickr.de.gz

    python -m recipes.sweep multi30k_heads --seeds 1 2 3 --train ...

Paper: 41.0 tokenised lower-cased BLEU on test 2016, on text tokenised and lower-cased by Moses scripts; here
SentencePiece takes the lower-cased text as it is. Scores with --no-lowercase, time and machine: docs/results.md.

`multi30k_small`, of two blocks, takes a quarter of an hour on one core. `multi30k_heads` compares heads with it, at the
best of the learning rates 0.003, 0.006 and 0.012 for multi-head attention. Heads have their layers' defaults: evolving
attention passes scores on with alpha 0.5 everywhere, and "as published" with 0.1 in the encoder alone (Wang et al.
2021, table 10).
"""

import dataclasses

from recipes.engine.tables import RELATIVE_TIME, Table
from recipes.translate.settings import TranslateConfig

TINY = TranslateConfig(
    lowercase=True,
    vocabulary_size=10_000,
    size="tiny",
    epochs=28,
    patience=10,
    tokens_per_batch=1024,
    num_buckets=10,
    learning_rate=3e-3,
    warmup_steps=1000,
    average=6,
    average_of="last",
    max_length=64,
    metrics=("bleu", "tokenized_bleu", "chrf"),
)
SMALL = dataclasses.replace(
    TINY,
    lowercase=False,
    vocabulary_size=5_000,
    model_arguments=dict(num_layers=2),
    epochs=6,
    tokens_per_batch=2_048,
    num_buckets=5,
    learning_rate=6e-3,
    warmup_steps=400,
    average=2,
    metrics=("bleu",),
)
CONFIGS = {"multi30k": TINY, "multi30k_small": SMALL}
HEADS = ("multi_head", "talking_heads", "evolving", "interacting", "disentangled_mask", "real_former")
BLEU = "test", "BLEU"
TABLES = {
    "multi30k_heads": Table(
        title="Heads in a small translator, Multi30k, English to German",
        rows={name: dict(attention=name) for name in HEADS}
        | {
            "interacting in pairs": dict(attention="interacting", attention_arguments=dict(interaction="pairwise")),
            "evolving as published": dict(
                attention="evolving",
                attention_arguments=dict(alpha=0.1, beta=0.1),
                decoder_attention_arguments=dict(alpha=0.0),
                cross_attention_arguments=dict(alpha=0.0),
            ),
        },
        config="multi30k_small",
        measures=(BLEU, ("training", "validation loss"), ("training", "parameters"), RELATIVE_TIME),
        compared=BLEU,
    )
}

"""IWSLT16 German to English as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config iwslt16 --iwslt de-en
    python -m recipes.sweep interacting_table3 --iwslt de-en      its tables 3, 6 and 9

`de-en` is the folder of the unpacked release. The paper reports 27.61 BLEU on tst2010 to 2014 as one set for
interacting-head attention with 16 heads and 25.18 for multi-head attention (its table 3), trained on two V100 GPUs;
this setting has not been run here.

From the paper: cleaning, vocabulary, width, feed-forward width, dropout, label smoothing, Adam, warm-up, beam and
length penalty. It refers to Vaswani et al. for the rest: six blocks, post-norm, sinusoidal positions, the peak rate of
their schedule, and their 25,000 target tokens a batch. It is silent on the number of epochs, early stopping and
averaging, which here are 60, a patience of 5 and none, and on the files of its validation set, of 12,098 pairs;
dev2010 is a set that every release has.
"""

from recipes.engine.paper_tables import Table
from recipes.translate.settings import TranslateConfig

CONFIG = TranslateConfig(
    source_language="de",
    target_language="en",
    splits=dict(validation="dev2010", test="tst2010+tst2011+tst2012+tst2013+tst2014"),
    max_words=80,
    moses=True,
    truecase=True,
    vocabulary_size=40_000,
    size="interacting",
    num_heads=16,
    model_arguments=dict(dropout=0.1, normalize_first=False),
    epochs=60,
    patience=5,
    tokens_per_batch=25_000,
    num_buckets=6,
    learning_rate=(512 * 8000) ** -0.5,
    warmup_steps=8000,
    optimizer_arguments=dict(beta_2=0.997),
    label_smoothing=0.1,
    average=1,
    max_length=160,
    beam_size=4,
    alpha=1.0,
    metrics=("bleu", "wer", "meteor", "rouge_l", "cider"),
)

HEADS = (2, 4, 8, 16, 32, 64)


def by_heads(name, title, mean_length, bleu, minutes):
    """Returns the paper's table of a corpus: BLEU of each test set by row and heads, and minutes an epoch.

    `mean_length` is that of sentences, the width of keys in the row "head size = n".
    """
    rows = {
        "multi_head": dict(attention="multi_head"),
        f"multi_head:{mean_length}": dict(attention="multi_head", attention_arguments=dict(key_dim=mean_length)),
        "talking_heads": dict(attention="talking_heads"),
        "interacting": dict(attention="interacting"),
    }
    figures = {(test, "BLEU"): of_rows for test, of_rows in bleu.items()} | {("training", "minutes an epoch"): minutes}
    return Table(
        title=f"Zhang et al. 2022, {title}",
        config=name,
        rows=rows,
        columns={heads: dict(num_heads=heads) for heads in HEADS},
        over="heads",
        published={
            measure: {row: dict(zip(HEADS, values, strict=False)) for row, values in zip(rows, of_rows, strict=True)}
            for measure, of_rows in figures.items()
        },
    )


# Table 3 (a), BLEU by multi-bleu.perl, and table 9 for interacting heads beyond 16; table 6.
TABLES = {
    "interacting_table3": by_heads(
        "iwslt16",
        "tables 3, 6 and 9: IWSLT16 De-En",
        20,
        {
            CONFIG.splits["test"]: (
                (21.15, 24.00, 24.38, 25.18, 22.05, 17.94),
                (19.35, 21.38, 22.81, 24.61, 24.86, 24.59),
                (19.13, 19.82, 20.87, 22.24, 22.30, 21.72),
                (27.61, 28.01, 27.44, 27.61, 22.85, 18.54),
            ),
        },
        (
            (10.17, 10.5, 10.92, 11.5, 12.75, 15.5),
            (9.33, 9.67, 10.17, 11.08, 12.92, 16.92),
            (10.5, 10.67, 11, 11.67, 15.83),
            (10.5, 11.5, 14.5, 24.5),
        ),
    )
}

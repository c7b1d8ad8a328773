"""IWSLT16 German to English as in Li and Luo 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config iwslt16 --iwslt de-en
    python -m recipes.sweep interacting_table3 --iwslt de-en      its tables 3, 6 and 9

`de-en` is the folder of the unpacked release. The paper reports 27.61 BLEU on tst2010 to 2014 as one set for
interacting-head attention with 16 heads and 25.18 for multi-head attention (its table 3), trained on two V100 GPUs;
this setting has not been run here. The sweep scores the validation set too, as the table does. The paper's metrics but
BLEU are of other programs than ours, and its word error rate is of one for TER, the translation edit rate, as ours is.
YiSi needs `--metrics bleu ter meteor rouge_l cider yisi --embeddings FILE`.

From the paper: cleaning, vocabulary, width, feed-forward width, dropout, label smoothing, Adam, warm-up, beam and
length penalty. It refers to Vaswani et al. for the rest: six blocks, post-norm, sinusoidal positions, the peak rate of
their schedule, and their 25,000 target tokens a batch. It is silent on the number of epochs, early stopping and
averaging, which here are 60, a patience of 5 and none, and on the files of its validation set, of 12,098 pairs;
dev2010 is a set that every release has.
"""

import csv
import pathlib

from recipes.engine.tables import Table
from recipes.translate.settings import TranslateConfig

CONFIG = TranslateConfig(
    source_language="de",
    target_language="en",
    splits=dict(validation="dev2010", test=("dev2010", "tst2010+tst2011+tst2012+tst2013+tst2014")),
    max_words=80,
    moses=True,
    truecase=True,
    vocabulary_size=40_000,
    size="interacting",
    attention="interacting",
    num_heads=16,
    model_arguments=dict(dropout=0.1, normalization="post"),
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
    metrics=("bleu", "ter", "meteor", "rouge_l", "cider"),
)

HEADS = (2, 4, 8, 16, 32, 64)
FIGURES = pathlib.Path(__file__).with_name("interacting_heads.csv")  # tables 3 to 5, and 9; BLEU by multi-bleu.perl


def by_heads(name, title, mean_length, sets, minutes):
    """Returns the paper's table of a corpus: scores of each set by row and heads, and minutes an epoch.

    `mean_length` is that of sentences, the width of keys in the row "head size = n"; `sets` has the paper's name
    of each of our sets.
    """
    rows = {
        "multi_head": dict(attention="multi_head"),
        f"multi_head:{mean_length}": dict(attention="multi_head", attention_arguments=dict(key_dim=mean_length)),
        "talking_heads": dict(attention="talking_heads"),
        "interacting": dict(attention="interacting"),
    }
    with open(FIGURES, encoding="utf-8", newline="") as file:
        lines = {
            tuple(line[:3]): [[*map(float, cell.split())] for cell in line[3:]] for line in [*csv.reader(file)][1:]
        }
    figures = {
        (ours, metric): of_rows
        for (corpus, metric, of_paper), of_rows in lines.items()
        for ours, theirs in sets.items()
        if (corpus, of_paper) == (name, theirs)
    }
    figures["training", "minutes an epoch"] = minutes
    return Table(
        title=f"Li and Luo 2022, {title}",
        config=name,
        rows=rows,
        columns={heads: dict(num_heads=heads) for heads in HEADS},
        over="heads",
        published={
            measure: {row: dict(zip(HEADS, values, strict=False)) for row, values in zip(rows, of_rows, strict=True)}
            for measure, of_rows in figures.items()
        },
    )


TABLES = {
    "interacting_table3": by_heads(
        "iwslt16",
        "tables 3, 6 and 9: IWSLT16 De-En",
        20,
        dict(zip(CONFIG.splits["test"], ("dev", "test"), strict=True)),
        (
            (10.17, 10.5, 10.92, 11.5, 12.75, 15.5),
            (9.33, 9.67, 10.17, 11.08, 12.92, 16.92),
            (10.5, 10.67, 11, 11.67, 15.83),
            (10.5, 11.5, 14.5, 24.5),
        ),
    )
}

# newstest2013 is the validation set and scored too. TensorFlow Datasets calls newstest2017 `test`.
NEWSTESTS = {"newstest2013": "dev"} | {name: name for name in map("newstest20{}".format, range(14, 18))}
NEWSTESTS["test"] = "newstest2017"
OF_SACREBLEU = dict(
    validation="sacrebleu:wmt13",
    test=("sacrebleu:wmt13", "sacrebleu:wmt14/full", "sacrebleu:wmt15", "sacrebleu:wmt16", "sacrebleu:wmt17"),
)

"""IWSLT16 German to English as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config iwslt16 --iwslt de-en
    python -m recipes.sweep --config iwslt16 --iwslt de-en --runs runs/iwslt16      its tables 3 and 6

`de-en` is the folder of the unpacked release. The paper reports 27.61 BLEU on tst2010 to 2014 as one set for
interacting-head attention with 16 heads and 25.18 for multi-head attention (its table 3), trained on two V100 GPUs;
this setting has not been run here.

From the paper: cleaning, vocabulary, width, feed-forward width, dropout, label smoothing, Adam, warm-up, beam and
length penalty. It refers to Vaswani et al. for the rest: six blocks, post-norm, sinusoidal positions, the peak rate of
their schedule, and their 25,000 target tokens a batch. It is silent on the number of epochs, early stopping and
averaging, which here are 60, a patience of 5 and none, and on the files of its validation set, of 12,098 pairs;
dev2010 is a set that every release has.
"""

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

# By number of heads: its table 3 (a), and table 9 for interacting heads beyond 16. BLEU by multi-bleu.perl.
PUBLISHED = {
    ("tst2010+tst2011+tst2012+tst2013+tst2014", "BLEU"): {
        "multi_head": {2: 21.15, 4: 24.00, 8: 24.38, 16: 25.18, 32: 22.05, 64: 17.94},
        "multi_head:20": {2: 19.35, 4: 21.38, 8: 22.81, 16: 24.61, 32: 24.86, 64: 24.59},
        "talking_heads": {2: 19.13, 4: 19.82, 8: 20.87, 16: 22.24, 32: 22.30, 64: 21.72},
        "interacting": {2: 27.61, 4: 28.01, 8: 27.44, 16: 27.61, 32: 22.85, 64: 18.54},
    },
}

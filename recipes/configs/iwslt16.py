"""IWSLT16 German to English as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config iwslt16 --iwslt de-en

`de-en` is the folder of the unpacked release. The paper reports 27.61 BLEU on tst2010 to 2014 as one set for
interacting-head attention with 16 heads and 25.18 for multi-head attention (its table 3), trained on two V100 GPUs;
this setting has not been run here. Batch size, number of steps and the files of its validation set are not in the
paper: 25,000 target tokens are Vaswani et al.'s, dev2010 is a set that every release has.
"""

from recipes.translation.settings import TranslateConfig

CONFIG = TranslateConfig(
    source_language="de",
    target_language="en",
    validation_split="dev2010",
    test_splits=("tst2010+tst2011+tst2012+tst2013+tst2014",),
    max_words=80,
    moses=True,
    truecase=True,
    vocabulary_size=40_000,
    size="interacting",
    num_heads=16,
    dropout=0.1,
    norm_first=False,
    epochs=60,
    patience=5,
    tokens_per_batch=25_000,
    num_buckets=6,
    learning_rate=(512 * 8000) ** -0.5,
    warmup_steps=8000,
    beta_2=0.997,
    max_length=160,
    alpha=1.0,
    metrics=("bleu", "wer", "meteor", "rouge_l", "cider"),
    run="runs/iwslt16",
    export="saved_models/iwslt16",
)

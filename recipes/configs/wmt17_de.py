"""WMT17 English to German as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config wmt17_de --num-heads 16

TensorFlow Datasets downloads the corpus. The paper reports 17.35 BLEU on newstest2014 for interacting-head attention
with 16 heads and 15.73 for multi-head attention (its table 4); this setting has not been run here.
"""

from recipes.translation.settings import TranslateConfig

CONFIG = TranslateConfig(
    tfds="wmt17_translate/de-en",
    max_words=100,
    moses=True,
    truecase=True,
    vocabulary_size=80_000,
    size="interacting",
    num_layers=6,
    num_heads=16,
    norm_first=False,
    num_buckets=6,
    epochs=20,
    tokens_per_batch=25_000,
    learning_rate=(512 * 8000) ** -0.5,
    warmup_steps=8000,
    beta_2=0.997,
    max_length=200,
    metrics=("bleu", "wer", "meteor", "rouge_l", "cider"),
    run="runs/wmt17_de",
    export="saved_models/wmt17_de",
)

"""WMT14 English to German with the Transformer `base`.

    python -m recipes.translate --config wmt14_de

TensorFlow Datasets downloads the corpus, 1.7 GB (the sizes in its list of checksums added up): about 4.5 million
pairs, validation on newstest2013, test on newstest2014.

Scores of multi-head attention on newstest2014: 27.75 BLEU in "Disentangled mask attention" (table 2, as
`compound_bleu`), 27.47 in Wang et al. 2021, "Evolving attention" (table 5). This setting has not been run here.

From the first paper and its appendix: size, one vocabulary of 44,000, the last 5 epochs averaged, beam 5, 196,000
updates; from the second: Adam's betas, 4,000 steps of warm-up, label smoothing. Silent: cleaning and Moses' steps are
those of fairseq's `prepare-wmt14en2de.sh`, which the repulsive-attention paper names (ratio 1.5, at most 250, there of
subwords; no truecasing); batch, learning rate, dropout and length penalty are Vaswani et al.'s. 36 epochs are about as
many updates, of 30 tokens a pair.
"""

from recipes.translate.settings import TranslateConfig

CONFIG = TranslateConfig(
    source_language="en",
    target_language="de",
    tfds="wmt14_translate/de-en",
    max_words=250,
    max_ratio=1.5,
    moses=True,
    vocabulary_size=44_000,
    size="base",
    attention="multi_head",
    model_arguments=dict(dropout=0.1, normalization="post"),
    epochs=36,
    patience=None,
    tokens_per_batch=25_000,
    num_buckets=8,
    learning_rate=(512 * 4000) ** -0.5,
    warmup_steps=4000,
    average=5,
    average_of="last",
    max_length=250,
    beam_size=5,
    alpha=0.6,
    metrics=("bleu", "tokenized_bleu", "compound_bleu"),
    records="records/wmt14_de",
)
BIG = dict(size="big", model_arguments=dict(dropout=0.3))  # of Vaswani et al. 2017

"""IWSLT'14 German to English, as most papers have it: the Transformer `small` on fairseq's preparation of the text.

    python -m recipes.translate --config iwslt14 --train tmp/train.de tmp/train.en \\
        --validation tmp/valid.de tmp/valid.en --test tmp/test.de tmp/test.en

The files are those that fairseq's `prepare-iwslt14.sh` leaves in `iwslt14.tokenized.de-en/tmp`: tokenised, in lower
case, 160,239 pairs cleaned by Moses' script (at most 175 tokens, ratio 1.5), 7,283 for validation and 6,750 to test on
(dev2010, dev2012 and tst2010 to tst2012). The script downloads the campaign's archive; its size is not stated there.

Scores of multi-head attention on the test set: 34.50 BLEU in "Disentangled mask attention" (table 1), 34.55 in Wang et
al. 2021, "Evolving attention" (table 5). They are of tokenised text. This setting has not been run here.

From the first paper and its appendix: size, the last 5 epochs averaged, beam 5, 55,000 updates; from the second:
Adam's betas, 4,000 steps of warm-up, label smoothing, and that learning rate and dropout were chosen from three each.
Both are silent on which; they are fairseq's for this corpus, as are 4,096 tokens a batch. The 10,000 joint merges that
give their vocabularies of 8,000 and 6,000 pieces are one vocabulary of 10,000 here. 50 epochs are about as many
updates. Not here: fairseq's weight decay of 0.0001.
"""

from recipes.translate.settings import TranslateConfig

CONFIG = TranslateConfig(
    source_language="de",
    target_language="en",
    lowercase=True,
    max_words=175,
    max_ratio=1.5,
    vocabulary_size=10_000,
    size="small",
    attention="multi_head",
    model_arguments=dict(dropout=0.3, normalization="post"),
    epochs=50,
    patience=None,
    tokens_per_batch=4096,
    learning_rate=5e-4,
    warmup_steps=4000,
    average=5,
    average_of="last",
    max_length=200,
    beam_size=5,
    alpha=1.0,
    metrics=("tokenized_bleu", "bleu"),
)

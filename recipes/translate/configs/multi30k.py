"""Multi30k, English to German, with the tiny Transformer of Wu et al. 2021, "Good for misconceived reasons".

    python -m recipes.translate --config multi30k --run runs/multi30k --attention interacting \\
        --train train.en.gz train.de.gz --validation val.en.gz val.de.gz \\
        --test test_2016_flickr.en.gz test_2016_flickr.de.gz

Paper: 41.0 tokenised lower-cased BLEU on test 2016, on text tokenised and lower-cased by Moses scripts; here
SentencePiece takes the lower-cased text as it is. Scores with --no-lowercase, time and machine: docs/results.md.
"""

from recipes.translate.settings import TranslateConfig

CONFIG = TranslateConfig(
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

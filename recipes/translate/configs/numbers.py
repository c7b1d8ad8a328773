"""The synthetic task: English numbers, dates and amounts to German, made by code. No download; minutes on two cores.

    python -m recipes.translate

This is the default task. Scores, time and machine: docs/results.md.
"""

from recipes.translate.settings import TranslateConfig

CONFIG = TranslateConfig(
    built_in=True,
    vocabulary_size=300,
    size="tiny",
    model_arguments=dict(num_layers=2, dropout=0.1),
    epochs=6,
    patience=None,
    tokens_per_batch=1024,
    num_buckets=3,
    learning_rate=2e-3,
    warmup_steps=200,
    max_length=64,
    metrics=("exact_match", "bleu", "chrf"),
)

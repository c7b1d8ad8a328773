"""The synthetic task: which of twelve languages a number is written in, made by code. No download; a minute or two.

    python -m recipes.classify

This is the default task. Pieces rather than words, as some languages write a number as one word. Scores, time and
machine: docs/classification.md.
"""

from recipes.classify.settings import ClassifyConfig

CONFIG = ClassifyConfig(
    built_in=True,
    tokens="pieces",
    vocabulary_size=300,
    pooling_dim=32,
    pooling_heads=4,
    model_arguments=dict(embedding_dim=32, hidden_dim=32, mlp_dim=64, dropout=0.1),
    epochs=3,
    patience=None,
    learning_rate=5e-3,
    num_buckets=3,
)

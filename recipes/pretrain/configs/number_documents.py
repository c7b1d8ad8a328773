"""Pre-training without a download: documents that count in twelve languages. Minutes on two cores.

    python -m recipes.pretrain

This is the default task. Results, time and machine: docs/pretraining.md.
"""

from recipes.pretrain.settings import PretrainConfig

CONFIG = PretrainConfig(
    built_in=True,
    size="tiny",
    vocabulary_size=600,
    vocabulary_lines=200,
    max_length=64,
    batch_size=32,
    epochs=10,
    epoch_steps=200,
    warmup_steps=200,
    validation_sequences=512,
    learning_rate=1e-3,
    model_arguments=dict(dropout=0.0, attention_dropout=0.0),
)

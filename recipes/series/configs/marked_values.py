"""The synthetic task: the product of two marked values far apart. No download.

    python -m recipes.series

This is the default task.
"""

from recipes.series.settings import SeriesConfig

CONFIG = SeriesConfig(
    built_in=True,
    attention_arguments=dict(alpha=0.3, beta=0.5),
    num_heads=4,
    model_arguments=dict(hidden_dim=32, intermediate_dim=64, num_layers=3, dropout=0.0, pooling="mean"),
    epochs=15,
)

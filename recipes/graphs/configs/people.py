"""The synthetic task: texts of graphs of facts on invented people, made by code. No download; minutes on two cores.

    python -m recipes.graphs

The people, towns, dates and sums of the test set are in no text to train on: only a model that copies them from the
graph tells its facts. Results, time and machine: docs/graphs.md.
"""

from recipes.graphs.settings import GraphsConfig

CONFIG = GraphsConfig(
    built_in=True,
    vocabulary_arguments=dict(min_count=1),
    model_arguments=dict(num_layers=2, hidden_dim=64, num_encoder_layers=1, dropout=0.0),
    optimizer="adam",
    learning_rate=2e-3,
    tokens_per_batch=384,
    epochs=20,
    patience=None,
    average=3,
    max_length=64,
    validation_graphs=0,
)

"""EA-DC-Transformer by the example in the README of the public code.

    python -m recipes.series --config evolving_dc --train AppliancesEnergy_TRAIN.ts --test AppliancesEnergy_TEST.ts

Its `--alpha 0.5 --beta 0.3` are alpha 0.3 and beta 0.5 of the paper, and its three layers are four blocks. Other
settings are the defaults of its program; positions are sines and cosines. It has not been run here.
"""

from recipes.series.settings import SeriesConfig

CONFIG = SeriesConfig(
    attention_arguments=dict(alpha=0.3, beta=0.5),
    num_heads=8,
    model_arguments=dict(hidden_dim=128, intermediate_dim=256, num_layers=4, key_ratio=0.25, value_ratio=0.25),
    epochs=100,
    batch_size=64,
)

"""The synthetic task of recipes.rationales: reviews made by code, with known evidence. No download.

    python -m recipes.rationales

The encoder is a small BERT (2 x 128, Turc et al. 2019) of random weights, frozen. That is enough to tell words apart.
Some seeds take 14 epochs to leave a first plateau at chance, so no run ends early.
"""

from recipes.rationales.settings import RationalesConfig

CONFIG = RationalesConfig(
    built_in=True,
    size="bert_tiny",
    vocabulary_size=300,
    window=128,
    batch_size=16,
    epochs=25,
    patience=None,
    select="val_loss",
    learning_rate=2e-3,
)

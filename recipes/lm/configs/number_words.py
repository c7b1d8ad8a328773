"""The synthetic task: counting in number words of twelve languages. No download.

    python -m recipes.lm

This is the default task.
"""

from recipes.lm.settings import LmConfig

CONFIG = LmConfig(built_in=True, length=128, batch_size=16, epochs=6)

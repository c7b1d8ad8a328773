"""The setting of nanoGPT (Karpathy 2022) for one GPU, on the text of your choice.

    python -m recipes.lm --config nano --train shakespeare.txt

nanoGPT's README gives a validation loss of 1.47 on tiny Shakespeare, by character. It has not been run here.
"""

from recipes.lm.settings import LmConfig

CONFIG = LmConfig(size="nano", length=256, batch_size=64, epochs=20, epoch_steps=250, warmup_steps=100)

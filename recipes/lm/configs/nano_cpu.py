"""The setting of nanoGPT (Karpathy 2022) for a CPU, on the text of your choice. It trains in some minutes.

    python -m recipes.lm --config nano_cpu --train shakespeare.txt

nanoGPT's README gives a validation loss of 1.88 on tiny Shakespeare, by character, after 2,000 steps.
"""

from recipes.lm.settings import LmConfig

CONFIG = LmConfig(size="nano_cpu", length=64, batch_size=12, epochs=8, epoch_steps=250, warmup_steps=100, average=1)

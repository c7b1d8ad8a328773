"""Tasks made by code for heads that work together, at the size of nanoGPT's model for a CPU.

    python -m recipes.lm --config recall --attention multi_token
    python -m recipes.lm --config blocks --attention talking_heads

`recall` has 16 pairs of a letter and a capital, and asks for the capital of each letter (Arora et al. 2023, "Zoology").
`blocks` has 12 blocks of five letters, and asks for the one with two given letters (Golovneva et al. 2025, "Multi-token
attention", whose models are larger). The loss is that of the answers alone; a score is the share of whole answers.
"""

from recipes.lm.settings import LmConfig
from recipes.lm.synthetic import TASKS

CONFIGS = {name: LmConfig(synthetic=name, size="nano_cpu", batch_size=32, epochs=8, epoch_steps=500) for name in TASKS}

"""Learning-rate schedules, the optimizer of BERT and ELECTRA, and one that drives attention heads apart.

Wrong arguments raise a ValueError that names them.
"""

from keras_headattn.optimizers._adam_weight_decay import AdamWeightDecay, layerwise_rates
from keras_headattn.optimizers._heads import head_axis, mark_heads
from keras_headattn.optimizers._repulsive import Repulsive
from keras_headattn.optimizers._schedules import InverseSquareRoot, LinearDecay, StepDecay

__all__ = [
    "AdamWeightDecay",
    "InverseSquareRoot",
    "LinearDecay",
    "Repulsive",
    "StepDecay",
    "head_axis",
    "layerwise_rates",
    "mark_heads",
]

"""Learning-rate schedules, the optimizer of BERT and ELECTRA, and one that drives attention heads apart."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_adam_weight_decay": ["AdamWeightDecay", "layerwise_rates"],
        "_heads": ["head_axis", "mark_heads"],
        "_repulsive": ["Repulsive"],
        "_schedules": ["InverseSquareRoot", "LinearDecay", "StepDecay"],
    },
)

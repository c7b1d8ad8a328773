"""Learning-rate schedules, and an optimizer that drives attention heads apart."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_heads": ["head_axis", "mark_heads"],
        "_repulsive": ["Repulsive"],
        "_schedules": ["InverseSquareRoot", "LinearDecay", "StepDecay"],
    },
)

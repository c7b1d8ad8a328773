"""Learning-rate schedules, and an optimizer that drives attention heads apart."""

from keras_headattn.optimizers.heads import head_axis
from keras_headattn.optimizers.repulsive import Repulsive
from keras_headattn.optimizers.schedules import InverseSquareRoot, StepDecay

__all__ = ["InverseSquareRoot", "Repulsive", "StepDecay", "head_axis"]

"""Learning-rate schedules."""

from keras_headattn.optimizers.schedules import InverseSquareRoot

__all__ = ["InverseSquareRoot"]

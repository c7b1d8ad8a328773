"""Learning-rate schedules."""

import keras
from keras import ops
from keras.saving import register_keras_serializable


@register_keras_serializable(package="keras_headattn")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to `peak`, then decay with the inverse square root of the step.

    Vaswani et al. 2017, eq. 3, is `InverseSquareRoot.for_width(d_model, warmup_steps)`.

    Args:
        peak: the learning rate at step `warmup_steps`.
        warmup_steps: steps of warm-up, at least 1.

    >>> round(float(InverseSquareRoot(1e-3, 100)(399)), 6)
    0.0005
    """

    def __init__(self, peak, warmup_steps):
        if warmup_steps < 1:
            raise ValueError(f"`warmup_steps` must be at least 1. Received: {warmup_steps}")
        self.peak = peak
        self.warmup_steps = warmup_steps

    @classmethod
    def for_width(cls, model_dim, warmup_steps, factor=1.0):
        """The schedule whose peak is `factor * (model_dim * warmup_steps) ** -0.5`.

        Args:
            model_dim: width of the model.
            warmup_steps: steps of warm-up, at least 1.
            factor: of the learning rate. Default 1.0.

        >>> InverseSquareRoot.for_width(512, 4000).get_config()["warmup_steps"]
        4000
        """
        return cls(factor * (model_dim * warmup_steps) ** -0.5, warmup_steps)

    def __call__(self, step):
        # Keras counts from 0: the first update is step 1.
        step = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(step / self.warmup_steps, ops.sqrt(self.warmup_steps / step))

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}

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


@register_keras_serializable(package="keras_headattn")
class StepDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0 to `peak`, then multiplied by `factor` at each of the `boundaries`.

    Source: Wang et al. 2021, "Evolving attention with residual convolutions", section 4.1: 5 epochs of warm-up, divided
    by 10 at epochs 30, 60, 80 and 90.

    Args:
        peak: the learning rate at step `warmup_steps`.
        warmup_steps: steps of warm-up; 0: none.
        boundaries: ascending ints, the steps from which the rate is lower.
        factor: what it is multiplied by. Default 0.1.

    Raises:
        ValueError: if `boundaries` do not ascend, or `warmup_steps` is negative.

    >>> schedule = StepDecay(0.128, warmup_steps=10, boundaries=(60, 80))
    >>> [round(float(schedule(step)), 5) for step in (0, 5, 10, 59, 60, 80)]
    [0.0, 0.064, 0.128, 0.128, 0.0128, 0.00128]
    """

    def __init__(self, peak, warmup_steps, boundaries, factor=0.1):
        boundaries = tuple(boundaries)
        if warmup_steps < 0:
            raise ValueError(f"`warmup_steps` must not be negative. Received: {warmup_steps}")
        if any(one >= other for one, other in zip(boundaries, boundaries[1:], strict=False)):
            raise ValueError(f"`boundaries` must ascend. Received: {boundaries}")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.boundaries = boundaries
        self.factor = factor

    def __call__(self, step):
        step = ops.cast(step, "float32")
        warmed = ops.minimum(1.0, step / self.warmup_steps) if self.warmup_steps else 1.0
        passed = sum(ops.cast(step >= boundary, "float32") for boundary in self.boundaries)
        return self.peak * warmed * ops.power(self.factor, passed)

    def get_config(self):
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "boundaries": list(self.boundaries),
            "factor": self.factor,
        }

import itertools
from collections.abc import Sequence
from typing import Any, Self

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Tensor
from keras_headattn._validation import check_boolean, check_number


@register_keras_serializable(package="keras_headattn")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to `peak`, then decay with the inverse square root of the step.

    Vaswani et al. 2017, eq. 3, is `InverseSquareRoot.for_width(d_model, warmup_steps)`.

    Args:
        peak, warmup_steps: learning rate at the end of warm-up, and its steps, at least 1.

    >>> round(float(InverseSquareRoot(1e-3, 100)(399)), 6)
    0.0005
    """

    def __init__(self, peak: float, warmup_steps: int):
        self.peak = check_number("peak", peak, least=0)
        self.warmup_steps = check_number("warmup_steps", warmup_steps, least=1)

    @classmethod
    def for_width(cls, model_dim: int, warmup_steps: int, factor: float = 1.0) -> Self:
        """Returns the schedule whose peak is `factor * (model_dim * warmup_steps) ** -0.5`.

        Args:
            model_dim, warmup_steps, factor: width of the model, steps of warm-up, and factor of the rate.

        >>> InverseSquareRoot.for_width(512, 4000).get_config()["warmup_steps"]
        4000
        """
        check_number("model_dim", model_dim, above=0)
        check_number("warmup_steps", warmup_steps, least=1)
        return cls(check_number("factor", factor, least=0) * (model_dim * warmup_steps) ** -0.5, warmup_steps)

    def __call__(self, step: int | Tensor) -> Tensor:
        # Keras counts from 0: the first update is step 1.
        step = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(step / self.warmup_steps, ops.sqrt(self.warmup_steps / step))

    def get_config(self) -> dict[str, Any]:
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


@register_keras_serializable(package="keras_headattn")
class LinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0 to `peak`, then linear decay to 0.

    Source: Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers", appendix A.2; with
    `decay_in_warmup` google-research/electra, `model/optimization.py`.

    Args:
        peak, warmup_steps: learning rate at the end of warm-up, and its steps, or 0.
        total_steps: step from which the rate is 0; above `warmup_steps`.
        decay_in_warmup: True to multiply warm-up and decay, as ELECTRA does:
            `peak * (1 - t / total_steps) * min(1, t / warmup_steps)`, which stays below `peak`.

    >>> schedule = LinearDecay(2e-5, warmup_steps=10, total_steps=110)
    >>> [round(1e5 * float(schedule(step)), 3) for step in (0, 5, 10, 60, 110, 120)]
    [0.0, 1.0, 2.0, 1.0, 0.0, 0.0]
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int, decay_in_warmup: bool = False):
        self.peak = check_number("peak", peak, least=0)
        self.warmup_steps = check_number("warmup_steps", warmup_steps, least=0)
        self.total_steps = check_number("total_steps", total_steps, above=warmup_steps)
        self.decay_in_warmup = check_boolean("decay_in_warmup", decay_in_warmup)

    def __call__(self, step: int | Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        warmed = ops.minimum(1.0, step / self.warmup_steps) if self.warmup_steps else 1.0
        start = 0 if self.decay_in_warmup else self.warmup_steps
        left = ops.clip((self.total_steps - step) / (self.total_steps - start), 0.0, 1.0)
        return self.peak * warmed * left

    def get_config(self) -> dict[str, Any]:
        names = ("peak", "warmup_steps", "total_steps", "decay_in_warmup")
        return {name: getattr(self, name) for name in names}


@register_keras_serializable(package="keras_headattn")
class StepDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0 to `peak`, then multiplication by `factor` at each of the `boundaries`.

    Source: Wang et al. 2021, "Evolving attention with residual convolutions", section 4.1: 5 epochs of warm-up, divided
    by 10 at epochs 30, 60, 80 and 90.

    Args:
        peak, warmup_steps: learning rate at the end of warm-up, and its steps, or 0.
        boundaries, factor: ascending steps, and the factor of the rate at each.

    >>> schedule = StepDecay(0.128, warmup_steps=10, boundaries=(60, 80))
    >>> [round(float(schedule(step)), 5) for step in (0, 5, 10, 59, 60, 80)]
    [0.0, 0.064, 0.128, 0.128, 0.0128, 0.00128]
    """

    def __init__(self, peak: float, warmup_steps: int, boundaries: Sequence[int], factor: float = 0.1):
        if not isinstance(boundaries, (list, tuple)):
            raise ValueError(f"`boundaries` must be a list of numbers. Received: boundaries={boundaries!r}")
        for boundary in boundaries:
            check_number("boundaries", boundary)
        if any(one >= other for one, other in itertools.pairwise(boundaries)):
            raise ValueError(f"`boundaries` must ascend. Received: boundaries={boundaries}")
        self.peak = check_number("peak", peak, least=0)
        self.warmup_steps = check_number("warmup_steps", warmup_steps, least=0)
        self.boundaries = tuple(boundaries)
        self.factor = check_number("factor", factor, least=0)

    def __call__(self, step: int | Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        warmed = ops.minimum(1.0, step / self.warmup_steps) if self.warmup_steps else 1.0
        passed = sum(ops.cast(step >= boundary, "float32") for boundary in self.boundaries)
        return self.peak * warmed * ops.power(self.factor, passed)

    def get_config(self) -> dict[str, Any]:
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "boundaries": list(self.boundaries),
            "factor": self.factor,
        }

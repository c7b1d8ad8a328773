import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._private import is_decayed, variable_key
from keras_headattn._types import Tensor
from keras_headattn._validation import check_index, check_number

WITHOUT_DECAY = ("bias", "gamma", "beta", "scale")  # parts of the names of biases and norms


@register_keras_serializable(package="keras_headattn")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay and without bias correction, as BERT and ELECTRA are trained.

    With averages m of the gradients g and v of their squares,

        m <- beta_1 m + (1 - beta_1) g
        v <- beta_2 v + (1 - beta_2) g^2
        x <- x - factor * learning_rate * (m / (sqrt(v) + epsilon) + weight_decay * x)

    Norms and biases are not decayed unless `exclude_from_weight_decay` chooses otherwise. The first update is 3.2 times
    that of `keras.optimizers.AdamW`.

    Source: Devlin et al. 2019, "BERT", and Clark et al. 2020, "ELECTRA": their programs, google-research/bert,
    `optimization.py`, and google-research/electra, `model/optimization.py`.

    Args:
        learning_rate: float or schedule.
        weight_decay: float.
        rates: dictionary from regular expressions to factors of the rate (and decay); the first one found in a weight's
            path applies, else the factor is 1. See `layerwise_rates`. Default `None`: none.
        beta_1, beta_2, epsilon: as above; the first two in [0, 1).
        **kwargs: of `keras.optimizers.Optimizer`. Both programs use `global_clipnorm=1.0`.

    Raises:
        ValueError: when it is built, if none of the `rates` is found.

    >>> weight = keras.Variable([1.0, 1.0])
    >>> optimizer = AdamWeightDecay(0.1)
    >>> optimizer.apply([keras.ops.array([0.5, 0.0])], [weight])
    >>> [round(float(each), 4) for each in weight.numpy()]
    [0.6828, 0.999]
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-4,
        weight_decay: float = 0.01,
        rates: Mapping[str, float] | None = None,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, weight_decay=check_number("weight_decay", weight_decay, least=0), **kwargs)
        self.rates = {} if rates is None else dict(rates)
        for pattern, factor in self.rates.items():
            check_number(f"rates[{pattern!r}]", factor, least=0)
            _compile(pattern)
        self.beta_1 = check_number("beta_1", beta_1, least=0, below=1)
        self.beta_2 = check_number("beta_2", beta_2, least=0, below=1)
        self.epsilon = check_number("epsilon", epsilon, least=0)
        self.exclude_from_weight_decay(var_names=WITHOUT_DECAY)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._means, self._squares = self.add_optimizer_variables(variables, ["mean", "square"])
        patterns = {re.compile(pattern): factor for pattern, factor in self.rates.items()}
        matches = [
            next((pattern for pattern in patterns if pattern.search(variable.path)), None) for variable in variables
        ]
        if patterns and not any(matches):
            paths = ", ".join(variable.path for variable in variables[:3])
            raise ValueError(
                f"`rates` must have a pattern that occurs in a path. Received: {[*self.rates]} for {paths} and so on"
            )
        self._members = {}
        for index, (variable, pattern) in enumerate(zip(variables, matches, strict=True)):
            decay = self.weight_decay if is_decayed(self, variable) else 0.0
            factor = 1.0 if pattern is None else patterns[pattern]
            self._members[variable_key(self, variable)] = index, factor, decay

    def _apply_weight_decay(self, variables):
        """Does nothing: `update_step` decays each weight at its own rate."""

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        index, factor, decay = self._members[variable_key(self, variable)]
        # On TensorFlow, adding zeros sums an embedding's repeated rows before they are squared.
        gradient = ops.add(ops.cast(gradient, variable.dtype), ops.zeros(variable.shape, variable.dtype))
        rate = ops.cast(learning_rate, variable.dtype)
        mean, square = self._means[index], self._squares[index]
        self.assign_add(mean, (1 - self.beta_1) * (gradient - mean))
        self.assign_add(square, (1 - self.beta_2) * (ops.square(gradient) - square))
        direction = mean / (ops.sqrt(square) + self.epsilon)
        if decay:
            direction = direction + decay * variable
        self.assign_sub(variable, factor * rate * direction)

    def get_config(self) -> dict[str, Any]:
        config = {name: getattr(self, name) for name in ("rates", "beta_1", "beta_2", "epsilon")}
        return {**super().get_config(), **config}


def _compile(pattern):
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(f"The keys of `rates` must be regular expressions. Received: {pattern!r}") from error


def layerwise_rates(num_layers: int, factor: float = 0.8, skipped: int = 1) -> dict[str, float]:
    """Returns learning-rate factors that fall from the head to the embeddings, as `rates` of `AdamWeightDecay`.

    A head gets 1; block `l` of `n`, counted from 0, gets `factor ** (n - l + skipped)`; the embeddings, with their norm
    and projection, get `factor ** (n + 1 + skipped)`.

    Source: google-research/electra, `model/optimization.py`, which skips one power: its last block gets 0.64, not 0.8.

    Args:
        num_layers: n, number of blocks of a `Bert`.
        factor, skipped: as above; `skipped` powers lie between head and last block.

    >>> {pattern: round(rate, 3) for pattern, rate in layerwise_rates(2).items() if "block" in pattern}
    {'(^|/)block_0/': 0.512, '(^|/)block_1/': 0.64}
    """
    check_index("skipped", skipped)
    top = check_index("num_layers", num_layers) + skipped
    check_number("factor", factor, above=0)
    rates = {rf"(^|/)block_{layer}/": factor ** (top - layer) for layer in range(num_layers)}
    return {r"(^|/)((token|position|segment)_embedding|embedding_(norm|projection))/": factor ** (top + 1), **rates}

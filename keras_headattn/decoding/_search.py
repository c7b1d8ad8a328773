"""Checks, the length penalty and the base of models that all searches share."""

import contextlib
import itertools
from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import ops
from keras.saving import deserialize_keras_object

from keras_headattn._model import Model
from keras_headattn._private import value_of
from keras_headattn._types import Tensor
from keras_headattn._validation import check_number, check_positive
from keras_headattn.decoding._constraints import NONE

FIRST_LENGTH = 32  # first capacity of a growing cache


class SearchModel(Model):
    """Keras model that searches with another, its `model`."""

    model: keras.Model

    def __init__(self, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)  # kernels and options keep their precision

    def build(self, input_shape: Any = None) -> None:
        if not self.model.built:
            self.model.build()
        self.built = True

    def decoding_kernels(self) -> dict[str, Any] | None:
        """Returns the model's `decoding_kernels` to reuse between calls, `None` if it has none."""
        self.build()
        if not hasattr(self.model, "decoding_kernels"):
            return None
        return self.model.decoding_kernels()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        return cls(**{**config, "model": deserialize_keras_object(config["model"], custom_objects)})


def search_lengths(max_length):
    """Returns cache capacities: `FIRST_LENGTH`, each four times the one before, and `max_length`."""
    lengths = (FIRST_LENGTH * 4**i for i in itertools.count())
    return [*itertools.takewhile(lambda length: length < max_length, lengths), max_length]


def check_search(max_length, start_id, end_id, alpha, beam_size=1, constraints=NONE, vocabulary_size=None):
    """Raises a ValueError if an argument of a search is invalid."""
    check_positive("beam_size", beam_size)
    check_positive("max_length", max_length)
    last = float("inf") if vocabulary_size is None else vocabulary_size - 1
    allowed = "0 or more" if vocabulary_size is None else f"0 to {last}, as the vocabulary of the model has them"
    suppress, least = () if ops.is_tensor(constraints.suppress) else constraints.suppress, constraints.min_length
    if end_id in suppress:
        raise ValueError(f"`suppress` must be a list of token ids without `end_id`. Received: suppress={[*suppress]}")
    if not ops.is_tensor(least) and least >= max_length:
        raise ValueError(
            f"`min_length` must be below `max_length`. Received: min_length={least}, max_length={max_length}"
        )
    first = [] if ops.is_tensor(start_id) else [("start_id", start_id)]  # each row's own
    ids = [*first, ("end_id", end_id), *(("suppress", token) for token in suppress)]
    for name, token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token <= last:
            raise ValueError(f"`{name}` must be a token id, an integer of {allowed}. Received: {name}={token}")
    if not ops.is_tensor(alpha):
        check_number("alpha", alpha, least=0)


def fixed_values(variables, weights=None):
    """Returns a scope in which variables have the values of `weights`, pairs of a variable and a tensor, or their own.

    TensorFlow would read variables anew in each step of a loop.
    """
    if weights is None and keras.backend.backend() == "tensorflow":
        # `value_of` is beneath the cast of mixed precision.
        weights = [(variable, ops.copy(value_of(variable))) for variable in variables]
    return keras.StatelessScope(weights) if weights else contextlib.nullcontext()


def length_penalty(length: Tensor, alpha: float | Tensor) -> Tensor:
    """Returns `((5 + length) / 6) ** alpha`, the divisor of log probabilities (Wu et al. 2016, eq. 14)."""
    return ((5.0 + ops.cast(length, "float32")) / 6.0) ** alpha

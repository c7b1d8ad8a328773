import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
from keras import ops
from keras.saving import deserialize_keras_object, register_keras_serializable, serialize_keras_object

from keras_headattn._model import Model
from keras_headattn._private import value_of
from keras_headattn._types import Tensor
from keras_headattn.decoding._search import beam_search, check_search, greedy_search, search_lengths


@register_keras_serializable(package="keras_headattn")
class Searcher(Model):
    """Keras model that searches for the best translations: source token ids in, token ids and scores out.

    `predict` runs it in batches, compiled by XLA if `jit_compile` is on, and `export` writes a SavedModel. Each source
    length is compiled once, so pad to few lengths.

    Args:
        model: trained `Transformer`, or any model with its `init_cache` and `decode_step`. Optional attributes:
            `max_length`, the number of learned positions; `beams_share_rows`, False to reorder the cache by
            `reorder_cache` (see `beam_search`); `decoding_kernels`; `grow_cache`.
        beam_size: int, 1 for greedy search. Default 4.
        alpha: float of at least 0, exponent of the length penalty. Default 0.6.
        max_length: int, most tokens of a translation, including `end_id`; at most the learned positions. Default 128.
        start_id, end_id: int, token ids. Default 2 and 3.
        suppress: token ids that are never produced. Default `None`: `model.suppress`, if there is one.
        force_end: bool, True to end every translation with `end_id`, even at `max_length`. Default `None`:
            `model.force_end`, or False.

    Call arguments:
        inputs: source token ids `(B, n)`, 0 = padding, or the model's other inputs, such as graphs.
        kernels: result of `decoding_kernels`, to reuse it between calls. Default `None`.

    Returns:
        Dictionary of `"tokens"` `(B, beam_size, max_length)`, best first, zeros after `end_id`, and `"scores"`
        `(B, beam_size)`, log probabilities divided by the length penalty. See `beam_search` for unfinished ones.

    Raises:
        ValueError: if an argument is invalid.
    """

    def __init__(
        self,
        model: keras.Model,
        beam_size: int = 4,
        alpha: float = 0.6,
        max_length: int = 128,
        start_id: int = 2,
        end_id: int = 3,
        suppress: Sequence[int] | None = None,
        force_end: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        missing = [name for name in ("init_cache", "decode_step") if not callable(getattr(model, name, None))]
        if missing:
            raise ValueError(
                "`model` must have the methods `init_cache` and `decode_step`, as `keras_headattn.models.Transformer` "
                f"has them. Received: model of class {type(model).__name__}, without {' and '.join(missing)}"
            )
        sizes = (getattr(model, f"{side}_vocabulary_size", None) for side in ("target", "source"))
        suppress = getattr(model, "suppress", ()) if suppress is None else suppress
        check_search(max_length, start_id, end_id, alpha, beam_size, suppress, next(filter(None, sizes), None))
        positions = getattr(model, "max_length", None)
        if positions is not None and max_length > positions:
            raise ValueError(
                f"`max_length` must be at most {positions}, the number of the model's learned positions. "
                f"Received: max_length={max_length}"
            )
        self.model = model
        self.beam_size = beam_size
        self.alpha = alpha
        self.max_length = max_length
        self.start_id = start_id
        self.end_id = end_id
        self.suppress = tuple(suppress)
        self.force_end = bool(getattr(model, "force_end", False) if force_end is None else force_end)

    def build(self, input_shape: Any = None) -> None:
        if not self.model.built:
            self.model.build()
        self.built = True

    def call(self, inputs: Tensor | Mapping[str, Tensor], kernels: dict[str, Any] | None = None) -> dict[str, Tensor]:
        return self.search(inputs, kernels)

    def search(
        self,
        inputs: Tensor | Mapping[str, Tensor],
        kernels: dict[str, Any] | None = None,
        weights: Sequence[tuple[keras.Variable, Tensor]] | None = None,
    ) -> dict[str, Tensor]:
        """Searches with other tensors in place of the model's weights.

        Args:
            inputs, kernels: as in a call.
            weights: list of `(variable, tensor)` for all variables that the search reads. Default `None`: the model's.

        Returns:
            As a call.
        """
        self.build()
        model = self.model
        kernels = self.decoding_kernels() if kernels is None else kernels
        kwargs = {} if kernels is None else {"kernels": kernels}

        def step(tokens, cache, index, position, mask):
            positions = ops.broadcast_to(position, (ops.shape(tokens)[1],))
            return model.decode_step(tokens, cache, index, positions, mask, **kwargs)

        # TensorFlow would read variables anew in each step; `value_of` is beneath the cast of mixed precision.
        if weights is None and keras.backend.backend() == "tensorflow":
            weights = [(variable, ops.copy(value_of(variable))) for variable in self.variables]
        with keras.StatelessScope(weights) if weights else contextlib.nullcontext():
            return self._search(step, inputs, kwargs)

    def _search(self, step, inputs, kwargs):
        model, k = self.model, self.beam_size
        grow = getattr(model, "grow_cache", None)
        length = search_lengths(self.max_length)[0] if grow else self.max_length
        batch_size = ops.shape(keras.tree.flatten(inputs)[0])[0]
        args = (batch_size, self.max_length, self.start_id, self.end_id)
        options = dict(alpha=self.alpha, grow=grow, suppress=self.suppress, force_end=self.force_end)
        if k == 1:
            tokens, scores = greedy_search(step, model.init_cache(inputs, length, **kwargs), *args, **options)
            return {"tokens": tokens[:, None], "scores": scores[:, None]}
        if getattr(model, "beams_share_rows", True):
            cache, reorder = model.init_cache(inputs, length * k, **kwargs), None
        else:
            cache, reorder = model.init_cache(inputs, length, k, **kwargs), model.reorder_cache
        tokens, scores = beam_search(step, cache, *args, k, reorder=reorder, **options)
        return {"tokens": tokens, "scores": scores}

    def decoding_kernels(self) -> dict[str, Any] | None:
        """Returns the model's `decoding_kernels` to reuse between calls, `None` if it has none."""
        self.build()
        if not hasattr(self.model, "decoding_kernels"):
            return None
        return self.model.decoding_kernels()

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "model": serialize_keras_object(self.model),
            "beam_size": self.beam_size,
            "alpha": self.alpha,
            "max_length": self.max_length,
            "start_id": self.start_id,
            "end_id": self.end_id,
            "suppress": list(self.suppress),
            "force_end": self.force_end,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        return cls(**{**config, "model": deserialize_keras_object(config["model"], custom_objects)})

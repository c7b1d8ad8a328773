import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable, serialize_keras_object

from keras_headattn._types import Tensor
from keras_headattn._validation import as_python, check_boolean, check_index, check_positive
from keras_headattn.decoding._beam_search import beam_search, check_coverage
from keras_headattn.decoding._constraints import Constraints, restrict, with_rows_repeated
from keras_headattn.decoding._packing import pack_vectors
from keras_headattn.decoding._row_search import check_sampling, greedy_search, sample_search
from keras_headattn.decoding._search import SearchModel, check_search, fixed_values, search_lengths
from keras_headattn.decoding._shortlist import narrow
from keras_headattn.layers import capture_intermediates


@register_keras_serializable(package="keras_headattn")
class Searcher(SearchModel):
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
        min_length, no_repeat_ngram_size, repetition_penalty, score_prefix: see `Constraints`. Default: none.
        coverage_penalty: see `beam_search`; by the cross-attention, averaged over heads and layers. Needs a beam of at
            least 2 and sources of token ids. Default 0: none.
        num_samples: int, translations to sample for each source instead of searching; `beam_size` is then not used.
            Default `None`: none.
        temperature, top_k, top_p, seed: see `sample_search`; need `num_samples`. Every call uses the same seed.
        return_token_scores: bool, True to return the log probability of each token, too. Default False.

    Call arguments:
        inputs: source token ids `(B, n)`, 0 = padding, or the model's other inputs, such as graphs.
        kernels: result of `decoding_kernels`, to reuse it between calls. Default `None`.
        prefix: token ids `(B, P)`, zeros after the last one, that the translations of each source begin with, see
            `Constraints`. Default `None`.
        min_length: int tensor, scalar or `(B,)`, in place of the argument above. Default `None`.
        shortlist: different token ids `(S,)`, padded with zeros, among which to search, see `Shortlist`; those of
            `prefix` must be among them. The end is always allowed. Default `None`: all tokens.

    Returns:
        Dictionary of `"tokens"` `(B, beam_size, max_length)`, best first, zeros after `end_id`, and `"scores"`
        `(B, beam_size)`, log probabilities divided by the length penalty. See `beam_search` for unfinished ones. With
        `return_token_scores` also `"token_scores"` `(B, beam_size, max_length)`. Samples have `num_samples` in place of
        `beam_size`, in the order drawn.

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
        min_length: int = 0,
        no_repeat_ngram_size: int = 0,
        repetition_penalty: float = 1.0,
        score_prefix: bool = False,
        coverage_penalty: float = 0.0,
        num_samples: int | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        return_token_scores: bool = False,
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
        beam_size, alpha, max_length, start_id, end_id = map(
            as_python, (beam_size, alpha, max_length, start_id, end_id)
        )
        temperature, top_k, top_p, coverage_penalty = map(as_python, (temperature, top_k, top_p, coverage_penalty))
        self.constraints = Constraints(
            suppress,
            as_python(min_length),
            as_python(no_repeat_ngram_size),
            as_python(repetition_penalty),
            bool(getattr(model, "force_end", False) if force_end is None else force_end),
            score_prefix=score_prefix,
        )
        check_search(max_length, start_id, end_id, alpha, beam_size, self.constraints, next(filter(None, sizes), None))
        check_sampling(temperature, top_k, top_p)
        options = [
            f"{name}={value}"
            for name, value, default in (
                ("temperature", temperature, 1),
                ("top_k", top_k, None),
                ("top_p", top_p, None),
            )
            if value != default
        ]
        if num_samples is None and options:
            raise ValueError(f"`num_samples` must be given to draw samples. Received: {', '.join(options)}")
        if check_coverage(coverage_penalty) and (beam_size == 1 or num_samples is not None):
            raise ValueError(
                "`coverage_penalty` needs a beam search of at least 2. "
                f"Received: beam_size={beam_size}, num_samples={num_samples}"
            )
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
        self.coverage_penalty = coverage_penalty
        self.num_samples = None if num_samples is None else check_positive("num_samples", num_samples)
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.seed = check_index("seed", seed)
        self.return_token_scores = check_boolean("return_token_scores", return_token_scores)

    @property
    def suppress(self) -> tuple[int, ...]:
        """Token ids that are never produced."""
        return tuple(self.constraints.suppress)

    @property
    def force_end(self) -> bool:
        """True if every translation ends with `end_id`."""
        return self.constraints.force_end

    def call(
        self,
        inputs: Tensor | Mapping[str, Tensor],
        kernels: dict[str, Any] | None = None,
        prefix: Tensor | None = None,
        min_length: Tensor | None = None,
        shortlist: Tensor | None = None,
    ) -> dict[str, Tensor]:
        return self.search(inputs, kernels, None, prefix, min_length, shortlist)

    def search(
        self,
        inputs: Tensor | Mapping[str, Tensor],
        kernels: dict[str, Any] | None = None,
        weights: Sequence[tuple[keras.Variable, Tensor]] | None = None,
        prefix: Tensor | None = None,
        min_length: Tensor | None = None,
        shortlist: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Searches with other tensors in place of the model's weights.

        Args:
            inputs, kernels, prefix, min_length, shortlist: as in a call.
            weights: list of `(variable, tensor)` for all variables that the search reads. Default `None`: the model's.

        Returns:
            As a call.
        """
        if self.coverage_penalty and isinstance(inputs, dict) and "source" not in inputs:
            raise ValueError(f"`coverage_penalty` needs sources of token ids. Received: inputs {', '.join(inputs)}")
        self.build()
        model = self.model
        with fixed_values(self.variables, weights):
            kernels = self.decoding_kernels() if kernels is None else kernels
            kwargs = {} if kernels is None else {"kernels": kernels}
            constraints = self._constrained(prefix, min_length)
            if shortlist is None:
                return self._search(self._step(kwargs), inputs, kwargs, constraints)
            ids, added, kwargs["kernels"], constraints = narrow(
                model, kernels, shortlist, self.start_id, self.end_id, constraints
            )
            step = self._step(kwargs)

            def step_among(tokens, *args):
                logits, *rest = step(ops.take(ids, tokens), *args)
                return logits + added, *rest

            result = self._search(step_among, inputs, kwargs, constraints, start_id=2, end_id=1)
            return {**result, "tokens": ops.take(ids, result["tokens"])}

    def _step(self, kwargs):
        """Returns the step of a search; `kwargs` are the model's."""
        unpack = pack_vectors(kwargs)

        def step(tokens, cache, index, position, mask):
            kwargs = unpack()
            positions = ops.broadcast_to(position, (ops.shape(tokens)[1],))
            if not self.coverage_penalty:
                return self.model.decode_step(tokens, cache, index, positions, mask, **kwargs)
            with capture_intermediates() as layers:
                logits, cache = self.model.decode_step(tokens, cache, index, positions, mask, **kwargs)
            return logits, cache, cross_attention(layers)

        return step

    def _constrained(self, prefix, min_length):
        """Returns the constraints with those of a call."""
        if prefix is not None and (len(prefix.shape) != 2 or (prefix.shape[1] or 0) > self.max_length):
            raise ValueError(
                f"`prefix` must have the shape (batch, at most {self.max_length}), as `max_length` is. "
                f"Received: prefix of shape {tuple(prefix.shape)}"
            )
        overrides = dict(prefix=prefix, min_length=min_length)
        overrides = {name: ops.cast(value, "int32") for name, value in overrides.items() if value is not None}
        return dataclasses.replace(self.constraints, **overrides)

    def _search(self, step, inputs, kwargs, constraints, start_id=None, end_id=None):
        model, k = self.model, self.num_samples or self.beam_size
        grow = getattr(model, "grow_cache", None)
        length = search_lengths(self.max_length)[0] if grow else self.max_length
        batch_size = ops.shape(keras.tree.flatten(inputs)[0])[0]
        start_id, end_id = (self.start_id, self.end_id) if start_id is None else (start_id, end_id)
        args = (batch_size, self.max_length, start_id, end_id)
        options = dict(
            alpha=self.alpha, grow=grow, constraints=constraints, return_token_scores=self.return_token_scores
        )
        if self.num_samples is not None:
            options["constraints"] = with_rows_repeated(constraints, k)
            how = dict(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)
            cache = model.init_cache(inputs, length, k, **kwargs)
            results = sample_search(step, cache, k * batch_size, *args[1:], **how, **options)
            return _named(ops.reshape(x, (batch_size, k, *x.shape[1:])) for x in results)
        if k == 1:
            results = greedy_search(step, model.init_cache(inputs, length, **kwargs), *args, **options)
            return _named(x[:, None] for x in results)
        if getattr(model, "beams_share_rows", True):
            cache, reorder = model.init_cache(inputs, length * k, **kwargs), None
        else:
            cache, reorder = model.init_cache(inputs, length, k, **kwargs), model.reorder_cache
        if self.coverage_penalty:
            ids = inputs["source"] if isinstance(inputs, dict) else inputs
            options |= dict(coverage_penalty=self.coverage_penalty, source_mask=ops.not_equal(ids, 0))
        return _named(beam_search(step, cache, *args, k, reorder=reorder, **options))

    def score(self, inputs: Tensor | Mapping[str, Tensor], targets: Tensor) -> dict[str, Tensor]:
        """Computes the log probabilities of given translations, in one pass of the model.

        Args:
            inputs: as in a call.
            targets: token ids `(B, m)`, each with its `end_id`, zeros after it.

        Returns:
            Dictionary of `"scores"` `(B,)`, sums that are not divided by a length penalty, and `"token_scores"`
            `(B, m)`. Of the constraints `suppress` alone applies.
        """
        self.build()
        targets = ops.cast(targets, "int32")
        start = ops.full_like(targets[:, :1], self.start_id)
        shifted = {"target": ops.concatenate([start, targets[:, :-1]], axis=1)}
        logits = self.model({**(inputs if isinstance(inputs, dict) else {"source": inputs}), **shifted}, training=False)
        allowed = restrict(Constraints(self.suppress), logits, None, 0, self.end_id, self.max_length)
        token_scores = ops.take_along_axis(ops.log_softmax(allowed, axis=-1), targets[..., None], axis=-1)[..., 0]
        token_scores = ops.where(ops.equal(targets, 0), 0.0, token_scores)
        return {"scores": ops.sum(token_scores, axis=1), "token_scores": token_scores}

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
            "min_length": self.constraints.min_length,
            "no_repeat_ngram_size": self.constraints.no_repeat_ngram_size,
            "repetition_penalty": self.constraints.repetition_penalty,
            "score_prefix": self.constraints.score_prefix,
            "coverage_penalty": self.coverage_penalty,
            "num_samples": self.num_samples,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "seed": self.seed,
            "return_token_scores": self.return_token_scores,
        }


def cross_attention(layers):
    """Returns the mean `(B, m, n)` of cross-attention weights over heads, or pairs of heads, and layers."""
    weights = [
        tensors["weights"]
        for path, tensors in layers.items()
        if path.endswith("cross_attention") and "weights" in tensors
    ]
    if not weights:
        raise ValueError(
            "The model must have cross-attention of this library, with weights. "
            f"Received: a model with the attention layers {', '.join(layers) or 'none'}"
        )
    weights = [ops.mean(ops.cast(x, "float32"), axis=tuple(range(1, len(x.shape) - 2))) for x in weights]
    return sum(weights) / len(weights)


def _named(results):
    return dict(zip(("tokens", "scores", "token_scores"), results, strict=False))

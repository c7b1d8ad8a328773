import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.saving import register_keras_serializable, serialize_keras_object

from keras_headattn._identifiers import arguments_of
from keras_headattn._private import check_length
from keras_headattn._random import FixedSeed, sample
from keras_headattn._types import Tensor
from keras_headattn._validation import (
    as_python,
    check_boolean,
    check_index,
    check_number,
    check_positive,
    known_values,
)
from keras_headattn.decoding._beam_search import beam_search
from keras_headattn.decoding._constraints import NEVER, NO_TOKEN, Constraints, read_tokens, restrict
from keras_headattn.decoding._packing import pack_vectors
from keras_headattn.decoding._row_search import COLDEST, likeliest, likeliest_by_request
from keras_headattn.decoding._search import SearchModel, fixed_values, search_lengths
from keras_headattn.ops._dense import argmax

CONSTANT = ("seed", "row", "options")  # of a state
METHODS = ("init_cache", "prefill", "decode_step", "copy_cache", "grow_cache")


@register_keras_serializable(package="keras_headattn")
class Generator(SearchModel):
    """Keras model that continues texts: token ids of prompts in, token ids and scores out.

    Each token is drawn from the logits of the model after, in this order: suppressed tokens and `min_length`, the
    repetition penalty, repeated n-grams, division by the temperature, `top_k`, `top_p` and `min_p`. `predict` runs it
    in batches of prompts of one length, without `lengths`, compiled by XLA if `jit_compile` is on.

    Source: Fan et al. 2018, "Hierarchical neural story generation" (`top_k`); Holtzman et al. 2020, "The curious case
    of neural text degeneration" (`top_p`); Nguyen et al. 2024, "Turning up the heat: min-p sampling"; Keskar et al.
    2019, "CTRL" (`repetition_penalty`).

    Args:
        model: trained `CausalLM`, or any model with its `init_cache`, `prefill`, `decode_step`, `copy_cache` and
            `grow_cache`. Optional attributes: `vocabulary_size`, `position_count`, `decoding_kernels`, and for beams
            `beams_share_rows` and `reorder_cache`.
        max_length: int, most tokens of an answer, with the one that ends it.
        start_ids: token ids that come before each prompt.
        end_ids: token ids that end an answer.
        stop: lists of token ids; an answer ends with the last token of any of them.
        temperature: float of at least 0 that divides logits; 0 takes the most probable token.
        top_k: int, the likeliest tokens to draw from. Default `None`: all.
        top_p: float above 0, at most 1: draws from the fewest likeliest tokens with at least this probability together.
        min_p: float of at least 0, below 1: draws from tokens with at least this share of the largest probability.
        repetition_penalty, no_repeat_ngram_size: see `Constraints`; both count the prompt too.
        min_length: int, fewest tokens of an answer before one of `end_ids`.
        suppress: token ids that are never produced. Default `None`: `model.suppress`, if there is one.
        num_samples: int, answers to each prompt, which is read once.
        beam_size: int of at least 2, to search for the likeliest answers instead of drawing. Default `None`.
        seed: int; the same seed draws the same tokens. Every call uses it, and so every batch of `predict`.
        return_token_scores: bool, True to return the log probability of each token, too.

    Call arguments:
        token_ids: int `(B, n)`, prompts padded on the right.
        lengths: int `(B,)`, lengths of the prompts. Default `None`: n. Models that refuse padding on the left, see
            `CausalLM`, need prompts of equal length.
        seed: int or scalar tensor, in place of the argument above. Default `None`.
        kernels: result of `decoding_kernels`, to reuse it between calls. Default `None`.
        options: result of `request`, options of sampling as tensors, in place of the arguments above. Default `None`.

    Returns:
        Dictionary of `"tokens"` `(B, num_samples, max_length)`, with the first of `end_ids`, or 0, after the end;
        `"lengths"` `(B, num_samples)`, with the token that ends an answer; and `"scores"` `(B, num_samples)`, sums of
        the model's own log probabilities. With `return_token_scores` also `"token_scores"`, shaped as the tokens. A
        beam search has `beam_size` in place of `num_samples`, best first, and scores under the constraints.

    Raises:
        ValueError: if an argument is invalid, or a prompt empty.

    >>> from keras_headattn.models import CausalLM
    >>> model = CausalLM(50, num_layers=1, hidden_dim=16, num_heads=4)
    >>> answers = Generator(model, max_length=6, num_samples=3)(np.array([[4, 8, 7], [9, 5, 0]]), np.array([3, 2]))
    >>> tuple(answers["tokens"].shape), tuple(answers["scores"].shape)
    ((2, 3, 6), (2, 3))
    """

    def __init__(
        self,
        model: keras.Model,
        max_length: int = 256,
        start_ids: Sequence[int] = (),
        end_ids: Sequence[int] = (),
        stop: Sequence[Sequence[int]] = (),
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        min_length: int = 0,
        suppress: Sequence[int] | None = None,
        num_samples: int = 1,
        beam_size: int | None = None,
        seed: int = 0,
        return_token_scores: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        missing = [name for name in METHODS if not callable(getattr(model, name, None))]
        if missing:
            raise ValueError(
                "`model` must have the methods of `keras_headattn.models.CausalLM`. "
                f"Received: model of class {type(model).__name__}, without {', '.join(missing)}"
            )
        self.model = model
        self.max_length = check_positive("max_length", max_length)
        self.start_ids, self.end_ids = self._ids("start_ids", start_ids), self._ids("end_ids", end_ids)
        self.stop = tuple(self._ids("stop", sequence) for sequence in stop)
        self.temperature = check_number("temperature", temperature, least=0)
        self.top_k = None if top_k is None else check_positive("top_k", top_k)
        self.top_p = None if top_p is None else check_number("top_p", top_p, above=0, most=1)
        self.min_p = None if min_p is None else check_number("min_p", min_p, least=0, below=1)
        suppress = getattr(model, "suppress", ()) if suppress is None else suppress
        self.constraints = Constraints(
            self._ids("suppress", suppress),
            check_index("min_length", min_length),
            check_index("no_repeat_ngram_size", no_repeat_ngram_size),
            as_python(repetition_penalty),
        )
        self.num_samples = check_positive("num_samples", num_samples)
        self.beam_size = None if beam_size is None else check_positive("beam_size", beam_size)
        self.seed = check_index("seed", seed)
        self.return_token_scores = check_boolean("return_token_scores", return_token_scores)
        self.stop_texts: Any = None  # set by `serving.TextGenerator`, for the option `stop`
        self._check_together()

    def _ids(self, name, ids):
        size = getattr(self.model, "vocabulary_size", None) or math.inf
        ids = tuple(map(as_python, ids)) if isinstance(ids, (list, tuple, np.ndarray)) else ids
        if not isinstance(ids, tuple) or any(type(token_id) is not int or not 0 <= token_id < size for token_id in ids):
            raise ValueError(f"`{name}` must hold token ids, from 0 and below {size}. Received: {name}={ids!r}")
        return ids

    def _check_together(self):
        if self.constraints.min_length >= self.max_length:
            raise ValueError(
                "`min_length` must be below `max_length`. "
                f"Received: min_length={self.constraints.min_length}, max_length={self.max_length}"
            )
        if set(self.end_ids) & set(self.constraints.suppress):
            raise ValueError(f"`suppress` must have none of `end_ids`. Received: suppress={self.constraints.suppress}")
        if () in self.stop:
            raise ValueError(f"`stop` must hold lists of at least one token id. Received: stop={self.stop}")
        sampling = dict(num_samples=1, temperature=1, top_k=None, top_p=None, min_p=None)
        options = {name: getattr(self, name) for name in sampling if getattr(self, name) != sampling[name]}
        if self.beam_size is not None and (self.beam_size < 2 or options or self.stop or len(self.end_ids) > 1):
            raise ValueError(
                "`beam_size` must be at least 2, without options of sampling and `stop`, and with at most one of "
                f"`end_ids`. Received: beam_size={self.beam_size}, {options}, stop={self.stop}, end_ids={self.end_ids}"
            )

    def call(
        self,
        token_ids: Tensor,
        lengths: Tensor | None = None,
        seed: int | Tensor | None = None,
        kernels: dict[str, Any] | None = None,
        options: dict[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        if options and self.beam_size:
            raise ValueError(
                f"`options` are for a generator without a `beam_size`. Received: options={sorted(options)}, "
                f"beam_size={self.beam_size}"
            )
        self.build()
        kernels = self.decoding_kernels() if kernels is None else kernels
        # The cache grows with the answer if its size is known.
        rooms = [self.max_length] if token_ids.shape[-1] is None else search_lengths(self.max_length)
        with fixed_values(self.variables):
            if self.beam_size is not None:
                return self._search(token_ids, lengths, kernels, rooms)
            state, unpack = self.begin(token_ids, lengths, seed, kernels, rooms[0], options), pack_vectors(kernels)
            # XLA fails on a constant that three loops carry, one after the other.
            constant = {name: state.pop(name) for name in CONSTANT if name in state}

            def step(state):
                new = self.advance(state | constant, unpack())
                return ({name: new[name] for name in state},)

            for room in rooms:
                if room != rooms[0]:
                    length = len(self.start_ids) + token_ids.shape[1] + room
                    state = {**state, "cache": self.model.grow_cache(state["cache"], length)}
                is_unfinished = functools.partial(self._is_unfinished, constant=constant, room=room)
                (state,) = ops.while_loop(is_unfinished, step, (state,))
        names = ["tokens", "lengths", "scores", *(["token_scores"] if self.return_token_scores else [])]
        return {name: ops.reshape(state[name], (-1, self.num_samples, *state[name].shape[1:])) for name in names}

    def request(
        self,
        temperature: float | Tensor | None = None,
        top_k: int | Tensor | None = None,
        top_p: float | Tensor | None = None,
        max_tokens: int | Tensor | None = None,
        min_tokens: int | Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Returns options of sampling as scalar tensors, so that one graph serves all their values.

        `top_k` and `top_p` then see the 1,024 likeliest tokens alone. Of known values only the numbers of tokens are
        checked.

        Args:
            temperature, top_k, top_p: scalars, as the generator's, which are the defaults; 0 and 1 are no `top_k` and
                `top_p`.
            max_tokens: scalar, largest number of tokens of an answer, at most `max_length`, which is the default.
            min_tokens: scalar, smallest number of them before one of `end_ids`. Defaults to `min_length`.

        Returns:
            Dictionary by these names of tensors `()`: float32 `temperature` and `top_p`, and int32.

        Raises:
            ValueError: if `min_tokens` is above `max_tokens`, or that above `max_length`.
        """
        options = {
            "temperature": (temperature, self.temperature, "float32"),
            "top_k": (top_k, self.top_k or 0, "int32"),
            "top_p": (top_p, self.top_p or 1.0, "float32"),
            "max_tokens": (max_tokens, self.max_length, "int32"),
            "min_tokens": (min_tokens, self.constraints.min_length, "int32"),
        }
        tensors = {
            name: ops.convert_to_tensor(own if value is None else value, dtype)
            for name, (value, own, dtype) in options.items()
        }
        least, most = (known_values(tensors[name]) for name in ("min_tokens", "max_tokens"))
        if least is not None and most is not None and not least <= most <= self.max_length:
            raise ValueError(
                f"`min_tokens` must be at most `max_tokens`, and that at most max_length={self.max_length}. "
                f"Received: min_tokens={least}, max_tokens={most}"
            )
        return tensors

    def _is_unfinished(self, state, constant, room):
        if "options" in constant:
            room = ops.minimum(constant["options"]["max_tokens"], room)
        return ops.logical_and(state["index"] < room, ops.logical_not(ops.all(state["finished"])))

    def stream(
        self,
        token_ids: Tensor,
        lengths: Tensor | None = None,
        seed: int | Tensor | None = None,
        options: dict[str, Tensor] | None = None,
    ) -> Iterator[np.ndarray]:
        """Yields the tokens of each step, int `(B, num_samples)`, as a call returns them, until all answers have ended.

        Args:
            token_ids, lengths, seed, options: as in a call.

        Raises:
            ValueError: with a `beam_size`.
        """
        if self.beam_size is not None:
            raise ValueError(f"`beam_size` must be None to stream. Received: beam_size={self.beam_size}")
        kernels = self.decoding_kernels()
        state = self.begin(token_ids, lengths, seed, kernels, options=options)
        yield ops.convert_to_numpy(state["last"]).reshape(-1, self.num_samples)
        while self._is_unfinished(state, state, self.max_length):
            state = self.advance(state, kernels)
            yield ops.convert_to_numpy(state["last"]).reshape(-1, self.num_samples)

    def begin(
        self,
        token_ids: Tensor,
        lengths: Tensor | None = None,
        seed: int | Tensor | None = None,
        kernels: dict[str, Any] | None = None,
        room: int | None = None,
        options: dict[str, Tensor] | None = None,
    ) -> dict[str, Any]:
        """Reads prompts and chooses the first token of each answer.

        Args:
            token_ids, lengths, seed, kernels, options: as in a call.
            room: number of tokens of an answer for which the cache has room. Default `None`: `max_length`.

        Returns:
            State for `advance`, a dictionary of tensors with B * num_samples rows: among them `"last"`, the last
            tokens; `"index"`, the number of tokens so far; `"finished"`, True for answers that have ended; and
            `"tokens"`, `"lengths"` and `"scores"` as a call returns them.
        """
        self.build()
        ids, first = self._prompts(token_ids, lengths)
        batch, size = ops.shape(ids)
        kwargs = {} if kernels is None else {"kernels": kernels}
        cache = self.model.init_cache(batch, size + (self.max_length if room is None else room), **kwargs)
        logits, cache = self.model.prefill(ids, cache, **({} if first is None else {"first": first}), **kwargs)
        if self.num_samples > 1:
            cache, logits = self.model.copy_cache(cache, self.num_samples), self._repeated(logits)
        rows = ops.shape(logits)[0]
        state = {
            "tokens": ops.full((rows, self.max_length), self._after_end, "int32"),
            "lengths": ops.zeros((rows,), "int32"),
            "scores": ops.zeros((rows,), "float32"),
            "finished": ops.zeros((rows,), "bool"),
            "index": ops.zeros((), "int32"),
            "row": ops.cast(size, "int32"),
            "seed": ops.cast(self.seed if seed is None else seed, "uint32"),
            "cache": cache,
        }
        if options is not None:
            state["options"] = options
            if "stop" in options:
                state["last_bytes"] = self.stop_texts.begin(rows)
        if self.return_token_scores:
            state["token_scores"] = ops.zeros((rows, self.max_length), "float32")
        if read_tokens(self.constraints):
            state["context"] = self._repeated(_context(ids, first))
        return self._choose(state, logits)

    def advance(self, state: dict[str, Any], kernels: dict[str, Any] | None = None) -> dict[str, Any]:
        """Chooses the next token of each answer.

        Args:
            state: from `begin` or the step before.
            kernels: as in a call.

        Returns:
            State of the same structure.
        """
        kwargs = {} if kernels is None else {"kernels": kernels}
        row = state["row"] + state["index"] - 1
        logits, cache = self.model.decode_step(state["last"][:, None], state["cache"], row, **kwargs)
        return self._choose({**state, "cache": cache}, logits[:, 0])

    def _choose(self, state, logits):
        """Returns the state after the next tokens, whose logits are `(rows, V)`."""
        index, finished, logits = state["index"], state["finished"], ops.cast(logits, "float32")
        options = state.get("options")
        constraints = dataclasses.replace(self.constraints, context=state.get("context"))
        if options is not None:
            constraints = dataclasses.replace(constraints, min_length=options["min_tokens"])
        before = state["tokens"][:, None] if read_tokens(constraints) else None
        allowed = restrict(constraints, logits[:, None], before, index, self.end_ids, self.max_length)[:, 0]
        chosen = ops.where(finished, self._after_end, self._draw(allowed, index, state["seed"], options))
        gained = ops.take_along_axis(ops.log_softmax(logits, axis=-1), chosen[:, None], axis=-1)[:, 0]
        gained = ops.where(finished, 0.0, gained)
        is_here = ops.equal(ops.arange(self.max_length, dtype="int32"), index)
        new = {
            "tokens": ops.where(is_here, chosen[:, None], state["tokens"]),
            "lengths": ops.where(finished, state["lengths"], index + 1),
            "scores": state["scores"] + gained,
            "last": chosen,
            "index": index + 1,
        }
        if self.return_token_scores:
            new["token_scores"] = ops.where(is_here, gained[:, None], state["token_scores"])
        ends = self._ends(new["tokens"], chosen, index)
        if "last_bytes" in state:
            new["last_bytes"] = self.stop_texts.advance(state["last_bytes"], chosen)
            ends = ops.logical_or(ends, self.stop_texts.ends(new["last_bytes"], options["stop"]))
        return {**state, **new, "finished": ops.logical_or(finished, ends)}

    def _draw(self, logits, index, seed, options=None):
        """Returns the next tokens `(rows,)` from logits under the constraints."""
        largest = ops.max(logits, axis=-1, keepdims=True, initial=NEVER)
        if options is None and self.temperature == 0:
            return argmax(logits, largest)
        if options is None:
            kept = likeliest((logits - largest) / max(self.temperature, COLDEST), self.top_k, self.top_p)
        else:
            scaled = (logits - largest) / ops.maximum(options["temperature"], COLDEST)
            kept = likeliest_by_request(scaled, options["top_k"], options["top_p"])
        kept = ops.where(kept < math.log(self.min_p), NEVER, kept) if self.min_p else kept
        seeds = FixedSeed(ops.stack([seed, ops.cast(index, "uint32")]))
        drawn = sample(kept, keras.random.uniform(ops.shape(kept)[:1], dtype="float32", seed=seeds))
        return drawn if options is None else ops.where(options["temperature"] > 0, drawn, argmax(logits, largest))

    def _ends(self, tokens, chosen, index):
        """Returns a boolean `(rows,)`: True = the token at `index` ends the answer."""
        ends = ops.any(ops.equal(chosen[:, None], ops.convert_to_tensor(self.end_ids, "int32")), axis=1)
        for stop in self.stop:
            last = [ops.take(tokens, ops.maximum(index - i, 0), axis=1) for i in range(len(stop))]
            is_there = ops.all(ops.equal(ops.stack(last[::-1], axis=1), ops.convert_to_tensor(stop, "int32")), axis=1)
            ends = ops.logical_or(ends, ops.logical_and(is_there, index >= len(stop) - 1))
        return ends

    @property
    def _after_end(self):
        return self.end_ids[0] if self.end_ids else 0

    def _repeated(self, x):
        return x if self.num_samples == 1 else ops.repeat(x, self.num_samples, axis=0)

    def _prompts(self, token_ids, lengths):
        """Returns prompts padded on the left, `(B, N)`, and the index of each first token `(B,)`, or `None`: 0."""
        values = None if lengths is None else known_values(lengths)
        self._check_prompts(token_ids, lengths, values)
        if values is not None and values.size:
            token_ids = token_ids[:, : values.max()]
        self._check_positions(token_ids)
        ids = ops.cast(token_ids, "int32")
        batch, size = ops.shape(ids)
        if self.start_ids:
            start = ops.broadcast_to(ops.convert_to_tensor(self.start_ids, "int32"), (batch, len(self.start_ids)))
            ids = ops.concatenate([start, ids], axis=1)
        if lengths is None or values is not None and (values == size).all():
            return ids, None
        index = ops.arange(ops.shape(ids)[1], dtype="int32")[None]
        first = size - ops.cast(lengths, "int32")
        moved = ops.take_along_axis(ids, ops.maximum(index - first[:, None], 0), axis=1)
        return ops.where(index < first[:, None], 0, moved), first

    def _check_prompts(self, token_ids, lengths, values):
        shape, least = tuple(token_ids.shape), 0 if self.start_ids else 1
        batch, size = shape if len(shape) == 2 else (None, 0)
        shortest = size if values is None or not values.size else int(values.min())
        wrong = values is not None and ((values > (size or math.inf)).any() or values.shape != (batch or values.size,))
        if len(shape) != 2 or shortest is not None and shortest < least or wrong:
            raise ValueError(
                f"`token_ids` must be (B, n) with at least {least} token a prompt (none with `start_ids`), and "
                f"`lengths` (B,) and at most n. Received: token_ids of shape {shape}, lengths={lengths}"
            )

    def _check_positions(self, token_ids):
        most = getattr(self.model, "position_count", None)
        if most is None:
            return
        rule = f"The longest prompt and `max_length`={self.max_length} must fit the {most} positions of the model."
        check_length(len(self.start_ids) + ops.shape(token_ids)[1] + self.max_length, most, rule)

    def _prefilled(self, ids, first, cache, kwargs):
        """Returns the cache after all tokens of prompts but the last, of which there may be none."""
        first = {} if first is None else {"first": first}

        def prefill():
            return self.model.prefill(ids[:, :-1], cache, **first, **kwargs)[1]

        if ids.shape[1] is None:  # some attention cannot read an empty prompt
            return ops.cond(ops.shape(ids)[1] > 1, prefill, lambda: cache | first)
        return prefill() if ids.shape[1] > 1 else cache

    def _search(self, token_ids, lengths, kernels, rooms):
        """Returns the result of a beam search that begins with the last token of each prompt."""
        model, k = self.model, self.beam_size
        ids, first = self._prompts(token_ids, lengths)
        batch, rows = ops.shape(ids)[0], ops.shape(ids)[1] - 1  # of the cache, before the search
        kwargs = {} if kernels is None else {"kernels": kernels}
        shares = getattr(model, "beams_share_rows", True)
        cache = model.init_cache(batch, rows + rooms[0] * (k if shares else 1), **kwargs)
        cache = self._prefilled(ids, first, cache, kwargs)
        cache, unpack = cache if shares else model.copy_cache(cache, k), pack_vectors(kwargs)

        def step(tokens, cache, index, position, mask):
            positions = ops.broadcast_to(position + rows, (ops.shape(tokens)[1],))
            if mask is not None:
                mask = ops.concatenate([ops.ones((*ops.shape(mask)[:2], rows), "bool"), mask], axis=2)
            return model.decode_step(tokens, cache, index + rows, positions, mask, **unpack())

        has_context = read_tokens(self.constraints)
        end_id = self.end_ids[0] if self.end_ids else NO_TOKEN
        tokens, *scores = beam_search(
            step,
            cache,
            batch,
            self.max_length,
            ids[:, -1],
            end_id,
            k,
            0.0,
            reorder=None if shares else model.reorder_cache,
            grow=None if len(rooms) == 1 else lambda cache, room: model.grow_cache(cache, rows + room),
            constraints=dataclasses.replace(self.constraints, context=_context(ids, first) if has_context else None),
            return_token_scores=self.return_token_scores,
        )
        ends = ops.cast(ops.equal(tokens, end_id), "int32")
        is_after = ops.cumsum(ends, axis=-1) > ends
        length = self.max_length - ops.sum(ops.cast(is_after, "int32"), axis=-1)
        result = {"tokens": ops.where(is_after, self._after_end, tokens), "lengths": length}
        return result | dict(zip(("scores", "token_scores"), scores, strict=False))

    def get_config(self) -> dict[str, Any]:
        constraints = dataclasses.asdict(self.constraints)
        names = ("repetition_penalty", "no_repeat_ngram_size", "min_length", "suppress")
        return {
            **super().get_config(),
            **arguments_of(self, Generator, "model", *names),
            **{name: constraints[name] for name in names},
            "model": serialize_keras_object(self.model),
        }


def _context(ids, first):
    """Returns token ids, -1 at padding."""
    index = ops.arange(ops.shape(ids)[1], dtype="int32")[None]
    return ids if first is None else ops.where(index < first[:, None], -1, ids)

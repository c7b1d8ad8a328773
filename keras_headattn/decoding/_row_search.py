"""Searches with one hypothesis a row, in loops of static shapes and few operations."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_headattn._random import FixedSeed, sample
from keras_headattn._types import Tensor
from keras_headattn._validation import check_number, check_positive
from keras_headattn.decoding._constraints import (
    NEVER,
    NONE,
    Constraints,
    follow_prefix,
    forced_tokens,
    read_tokens,
    restrict,
)
from keras_headattn.decoding._search import check_search, length_penalty, search_lengths
from keras_headattn.ops._dense import argmax

COLDEST = 1e-6  # a temperature below which the likeliest token is drawn anyway
CANDIDATES = 1_024  # likeliest tokens that the filters of a request see


def greedy_search(
    step: Callable[..., tuple[Tensor, Any]],
    cache: Any,
    batch_size: int | Tensor,
    max_length: int,
    start_id: int,
    end_id: int,
    alpha: float | Tensor = 0.0,
    grow: Callable[[Any, int], Any] | None = None,
    constraints: Constraints = NONE,
    return_token_scores: bool = False,
) -> tuple[Tensor, ...]:
    """Takes the most probable token at each step, until every row has ended or `max_length`.

    Args:
        step: function of `(tokens (B, 1), cache, index, position, mask)` to `(logits (B, 1, V), cache)`; `index` and
            `position` are the step, `mask` is `None`.
        cache: initial state, any structure of tensors of static shapes.
        batch_size: B.
        max_length: int, most tokens to produce, including `end_id`.
        start_id, end_id: int, token ids.
        alpha: number or scalar tensor of at least 0, exponent of the length penalty. Default 0: none.
        grow: function of `(cache, rows)` to the cache enlarged to an int of rows. The cache must then have a capacity
            of 32 positions or `max_length` if that is less, and grows when full. Default `None`: `max_length`.
        constraints: `Constraints` of the tokens. Default: none.
        return_token_scores: True to return the log probability of each token, too. Default False.

    Returns:
        `(tokens (B, max_length), scores (B,))`: int32, zeros after `end_id`; float32, sums of log probabilities, under
        the constraints, divided by `length_penalty(length, alpha)`. With `return_token_scores` also log probabilities
        `(B, max_length)`.

    Raises:
        ValueError: if an argument is invalid.
    """
    args = (step, cache, batch_size, max_length, start_id, end_id, alpha, grow, constraints, return_token_scores)
    return _search_rows(_most_probable, *args)


def _most_probable(logits, index):
    """Returns the id and the log probability of the most probable token, each `(B,)`."""
    largest = ops.max(logits, axis=-1, keepdims=True)
    return argmax(logits, largest), -ops.log(ops.sum(ops.exp(logits - largest), axis=-1))


def sample_search(
    step: Callable[..., tuple[Tensor, Any]],
    cache: Any,
    batch_size: int | Tensor,
    max_length: int,
    start_id: int,
    end_id: int,
    *,
    temperature: float | Tensor = 1.0,
    top_k: int | None = None,
    top_p: float | Tensor | None = None,
    seed: int | Tensor = 0,
    **options: Any,
) -> tuple[Tensor, ...]:
    """Draws each token from the probabilities of the model, until every row has ended or `max_length`.

    Args:
        step, cache, batch_size, max_length, start_id, end_id: as in `greedy_search`.
        temperature: number or scalar tensor above 0 that divides logits. Default 1.
        top_k: int, the likeliest tokens to draw from. Default `None`: all.
        top_p: number or scalar tensor above 0, at most 1: draws from the fewest likeliest tokens with at least this
            probability together, after `top_k`. Default `None`: all.
        seed: int or scalar tensor. The same seed draws the same tokens. Default 0.
        **options: other arguments of `greedy_search`, such as `constraints`.

    Returns:
        As `greedy_search`. Log probabilities include `constraints`, but not `temperature`, `top_k` or `top_p`.

    Raises:
        ValueError: if an argument is invalid.

    Source: Fan et al. 2018, "Hierarchical neural story generation", for `top_k`; Holtzman et al. 2020, "The curious
    case of neural text degeneration", for `top_p`.
    """
    check_sampling(temperature, top_k, top_p)

    def draw(logits, index):
        seeds = FixedSeed(ops.stack([ops.cast(value, "uint32") for value in (seed, index)]))
        share = keras.random.uniform(ops.shape(logits)[:1], dtype="float32", seed=seeds)
        chosen = sample(likeliest(logits / ops.maximum(temperature, COLDEST), top_k, top_p), share)
        gained = ops.take_along_axis(ops.log_softmax(logits, axis=-1), chosen[:, None], axis=-1)[:, 0]
        return chosen, gained

    return _search_rows(draw, step, cache, batch_size, max_length, start_id, end_id, **options)


def check_sampling(temperature, top_k, top_p):
    """Raises a ValueError if an argument of `sample_search` is invalid."""
    if not ops.is_tensor(temperature):
        check_number("temperature", temperature, above=0)
    if top_k is not None:
        check_positive("top_k", top_k)
    if top_p is not None and not ops.is_tensor(top_p):
        check_number("top_p", top_p, above=0, most=1)


def likeliest(logits, k, share):
    """Returns the logits `(B, V)` of the likeliest tokens, -inf for others."""
    if k is not None:
        k = min(k, logits.shape[-1])
        logits = ops.where(logits < ops.top_k(logits, k)[0][:, -1:], NEVER, logits)
    if share is None:
        return logits
    values = ops.top_k(logits, k or logits.shape[-1])[0]
    probabilities = ops.softmax(values, axis=-1)
    is_kept = ops.cumsum(probabilities, axis=-1) - probabilities < share  # with the first that reaches the share
    least = ops.min(ops.where(is_kept, values, float("inf")), axis=-1, keepdims=True, initial=float("inf"))
    return ops.where(logits < least, NEVER, logits)


def likeliest_by_request(logits, k, share):
    """Returns what `likeliest` does, of scalar tensors; 0 and 1 keep all tokens, others at most `CANDIDATES`."""
    count = min(CANDIDATES, logits.shape[-1])

    def restricted():
        values = ops.top_k(logits, count)[0]
        is_in = ops.logical_or(k < 1, ops.arange(count, dtype="int32") < k)
        total = ops.where(k < 1, ops.logsumexp(logits, -1), ops.logsumexp(ops.where(is_in, values, NEVER), -1))
        probabilities = ops.exp(values - total[:, None])
        is_kept = ops.logical_and(is_in, ops.cumsum(probabilities, axis=-1) - probabilities < share)
        least = ops.min(ops.where(is_kept, values, float("inf")), axis=-1, keepdims=True, initial=float("inf"))
        return ops.where(logits < least, NEVER, logits)

    return ops.cond(ops.logical_or(k > 0, share < 1), restricted, lambda: logits)


def _search_rows(
    choose,
    step,
    cache,
    batch_size,
    max_length,
    start_id,
    end_id,
    alpha=0.0,
    grow=None,
    constraints=NONE,
    return_token_scores=False,
):
    """Searches with one hypothesis a row; `choose(logits (B, V), index)` returns its next tokens and what they gain."""
    check_search(max_length, start_id, end_id, alpha, constraints=constraints)

    def unfinished(index, last, tokens, scores, lengths, finished, gains, cache, length):
        return ops.logical_and(index < length, ops.logical_not(ops.all(finished)))

    def body(index, last, tokens, scores, lengths, finished, gains, cache):
        logits, cache = step(last[:, None], cache, index, index, None)
        before = tokens[:, None] if read_tokens(constraints) else None
        allowed = restrict(constraints, logits, before, index, end_id, max_length)
        chosen, gained = choose(ops.reshape(allowed, (-1, ops.shape(allowed)[-1])), index)
        if constraints.prefix is not None:
            forced = forced_tokens(constraints, index)
            forced_scores = follow_prefix(constraints, allowed, logits, index)
            forced_scores = ops.take_along_axis(forced_scores[:, 0], forced[:, None], axis=-1)[:, 0]
            chosen, gained = ops.where(forced > 0, forced, chosen), ops.where(forced > 0, forced_scores, gained)
        chosen = ops.where(finished, 0, chosen)
        gained = ops.where(finished, 0.0, gained)
        lengths = ops.where(finished, lengths, index + 1)
        is_here = ops.equal(positions, index)
        tokens = ops.where(is_here, chosen[:, None], tokens)
        gains = [ops.where(is_here, gained[:, None], values) for values in gains]
        finished = ops.logical_or(finished, ops.equal(chosen, end_id))
        return index + 1, chosen, tokens, scores + gained, lengths, finished, gains, cache

    positions = ops.arange(max_length, dtype="int32")
    state = (
        ops.zeros((), "int32"),
        ops.full((batch_size,), start_id, "int32"),
        ops.zeros((batch_size, max_length), "int32"),
        ops.zeros((batch_size,), "float32"),
        ops.zeros((batch_size,), "int32"),
        ops.zeros((batch_size,), "bool"),
        [ops.zeros((batch_size, max_length), "float32")] if return_token_scores else [],
        cache,
    )
    for length in search_lengths(max_length) if grow else [max_length]:
        *state, cache = state
        state = (*state, grow(cache, length) if grow else cache)
        state = ops.while_loop(functools.partial(unfinished, length=length), body, state)
    _, _, tokens, scores, lengths, _, gains, _ = state
    return tokens, scores / length_penalty(lengths, alpha), *gains

"""Greedy and beam search, in loops of static shapes and few operations."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_headattn._random import FixedSeed, sample
from keras_headattn._types import Tensor
from keras_headattn._validation import check_number, check_positive
from keras_headattn.decoding._constraints import NEVER, NONE, Constraints, read_tokens, restrict
from keras_headattn.decoding._top_k import pick, top_k

EMPTY = -1e9  # score of missing sequences
FIRST_LENGTH = 32  # first capacity of a growing cache


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
    suppress, least = constraints.suppress, constraints.min_length
    if end_id in suppress:
        raise ValueError(f"`suppress` must be a list of token ids without `end_id`. Received: suppress={suppress!r}")
    if not ops.is_tensor(least) and least >= max_length:
        raise ValueError(
            f"`min_length` must be below `max_length`. Received: min_length={least}, max_length={max_length}"
        )
    ids = [("start_id", start_id), ("end_id", end_id), *(("suppress", token) for token in suppress)]
    for name, token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token <= last:
            raise ValueError(f"`{name}` must be a token id, an integer of {allowed}. Received: {name}={token}")
    if not ops.is_tensor(alpha):
        check_number("alpha", alpha, least=0)


def length_penalty(length: Tensor, alpha: float | Tensor) -> Tensor:
    """Returns `((5 + length) / 6) ** alpha`, the divisor of log probabilities (Wu et al. 2016, eq. 14)."""
    return ((5.0 + ops.cast(length, "float32")) / 6.0) ** alpha


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
    """Takes the most probable token at each step, until every row has ended.

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
        `(tokens (B, max_length), scores (B,))`: int32, zeros after `end_id`; float32, sums of log probabilities divided
        by `length_penalty(length, alpha)`. With `return_token_scores` also log probabilities `(B, max_length)`.

    Raises:
        ValueError: if an argument is invalid.
    """
    args = (step, cache, batch_size, max_length, start_id, end_id, alpha, grow, constraints, return_token_scores)
    return _search_rows(lambda logits, index: _most_probable(logits), *args)


def sample_search(
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
    temperature: float | Tensor = 1.0,
    top_k: int | None = None,
    top_p: float | Tensor | None = None,
    seed: int | Tensor = 0,
) -> tuple[Tensor, ...]:
    """Draws each token from the probabilities of the model, until every row has ended.

    Args:
        step, cache, batch_size, max_length, start_id, end_id, alpha, grow, constraints, return_token_scores: as in
            `greedy_search`.
        temperature: number or scalar tensor above 0 that divides logits. Default 1.
        top_k: int, the likeliest tokens to draw from. Default `None`: all.
        top_p: number or scalar tensor above 0, at most 1: draws from the fewest likeliest tokens with at least this
            probability together, after `top_k`. Default `None`: all.
        seed: int or scalar tensor. The same seed draws the same tokens. Default 0.

    Returns:
        As `greedy_search`. Log probabilities include `constraints`, but not `temperature`, `top_k` or `top_p`.

    Raises:
        ValueError: if an argument is invalid.

    Source: Fan et al. 2018, "Hierarchical neural story generation", for `top_k`; Holtzman et al. 2020, "The curious
    case of neural text degeneration", for `top_p`.
    """
    check_sampling(temperature, top_k, top_p)

    def draw(logits, index):
        seeds = FixedSeed(ops.stack([ops.cast(each, "uint32") for each in (seed, index)]))
        share = keras.random.uniform(ops.shape(logits)[:1], dtype="float32", seed=seeds)
        chosen = sample(_likeliest(logits / temperature, top_k, top_p), share)
        gained = ops.take_along_axis(ops.log_softmax(logits, axis=-1), chosen[:, None], axis=-1)[:, 0]
        return chosen, gained

    args = (step, cache, batch_size, max_length, start_id, end_id, alpha, grow, constraints, return_token_scores)
    return _search_rows(draw, *args)


def check_sampling(temperature, top_k, top_p):
    """Raises a ValueError if an argument of `sample_search` is invalid."""
    if not ops.is_tensor(temperature):
        check_number("temperature", temperature, above=0)
    if top_k is not None:
        check_positive("top_k", top_k)
    if top_p is not None and not ops.is_tensor(top_p):
        check_number("top_p", top_p, above=0, most=1)


def _likeliest(logits, number, share):
    """Returns the logits `(B, V)` of the likeliest tokens, -inf for others."""
    if number is not None:
        number = min(number, logits.shape[-1])
        logits = ops.where(logits < ops.top_k(logits, number)[0][:, -1:], NEVER, logits)
    if share is None:
        return logits
    values = ops.top_k(logits, number or logits.shape[-1])[0]
    probabilities = ops.softmax(values, axis=-1)
    is_kept = ops.cumsum(probabilities, axis=-1) - probabilities < share  # with the first that reaches the share
    least = ops.min(ops.where(is_kept, values, float("inf")), axis=-1, keepdims=True)
    return ops.where(logits < least, NEVER, logits)


def _search_rows(
    choose, step, cache, batch_size, max_length, start_id, end_id, alpha, grow, constraints, return_token_scores
):
    """Searches with one hypothesis a row; `choose(logits (B, V), index)` returns its next tokens and what they gain."""
    check_search(max_length, start_id, end_id, alpha, constraints=constraints)

    def unfinished(index, last, tokens, scores, lengths, finished, gains, cache, length):
        return ops.logical_and(index < length, ops.logical_not(ops.all(finished)))

    def body(index, last, tokens, scores, lengths, finished, gains, cache):
        logits, cache = step(last[:, None], cache, index, index, None)
        before = tokens[:, None] if read_tokens(constraints) else None
        logits = restrict(constraints, logits, before, index, end_id, max_length)
        chosen, gained = choose(ops.reshape(logits, (-1, ops.shape(logits)[-1])), index)
        chosen = ops.where(finished, 0, chosen)
        gained = ops.where(finished, 0.0, gained)
        lengths = ops.where(finished, lengths, index + 1)
        is_here = ops.equal(positions, index)
        tokens = ops.where(is_here, chosen[:, None], tokens)
        gains = [ops.where(is_here, gained[:, None], each) for each in gains]
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


def beam_search(
    step: Callable[..., tuple[Tensor, Any]],
    cache: Any,
    batch_size: int | Tensor,
    max_length: int,
    start_id: int,
    end_id: int,
    beam_size: int = 4,
    alpha: float | Tensor = 0.6,
    reorder: Callable[[Any, Tensor], Any] | None = None,
    grow: Callable[[Any, int], Any] | None = None,
    constraints: Constraints = NONE,
    return_token_scores: bool = False,
) -> tuple[Tensor, ...]:
    """Finds the `beam_size` best sequences.

    A sequence that ends moves to a pool, with its score. The search stops when no open sequence can beat the worst of a
    full pool. If fewer than K have ended, the best open ones, cut off at `max_length`, are returned as well.

    Each step writes K tokens to K new rows of the cache, and a mask selects each beam's ancestors, so the cache is
    never reordered. If its rows must be in order, pass `reorder`: each beam is then a row of a batch of B * K.

    Source: Wu et al. 2016, "Google's neural machine translation system", section 7.

    Args:
        step: function of `(tokens (B, K), cache, index, position, mask)` to `(logits (B, K, V), cache)`. The K tokens
            have the same `position` and are written to rows `index ... index + K - 1`; boolean `mask`
            `(B, K, max_length * K)` is True where they may attend. With `reorder`: as in `greedy_search`, B * K rows.
        cache: initial state with a capacity of `max_length * beam_size`; with `reorder`, for B * K sequences with a
            capacity of `max_length`, the K of a source adjacent.
        beam_size: int K, at most half the vocabulary. Default 4.
        reorder: function of `(cache, rows (B * K,))` to the cache with these rows. Default `None`.
        alpha: as in `greedy_search`. Default 0.6.
        batch_size, max_length, start_id, end_id, grow, constraints, return_token_scores: as in `greedy_search`.

    Returns:
        `(tokens (B, K, max_length), scores (B, K))`, best first, as in `greedy_search`. Missing sequences are zeros
        with score -1e9. With `return_token_scores` also log probabilities `(B, K, max_length)`.

    Raises:
        ValueError: if an argument is invalid.
    """
    check_search(max_length, start_id, end_id, alpha, beam_size, constraints)
    k = beam_size
    slots = ops.arange(k, dtype="float32")
    positions = ops.arange(max_length + 1, dtype="int32")
    # Slots at the next position: none for ended sequences, their own for open ones.
    next_slots = ops.convert_to_tensor([[-1.0]] * k + [[float(slot)] for slot in range(k)], "float32")
    items = ops.arange(batch_size, dtype="int32")[:, None]
    ended_rows = ops.arange(k, dtype="int32") + 0 * items  # (B, K)

    def unfinished(index, last, scores, pool, history, written, gains, cache, length):
        # Keras refuses empty batches unless `initial` is given.
        best_open = ops.max(scores, axis=1, initial=NEVER) / length_penalty(max_length, alpha)
        worst_ended = ops.min(pool, axis=1, initial=-NEVER)
        hopeless = ops.all(best_open <= worst_ended)
        return ops.logical_and(index < length, ops.logical_not(hopeless))

    def body(index, last, scores, pool, history, written, gains, cache, length):
        if reorder is None:
            is_ancestor = ops.equal(history[:, k:, :length, None], slots)  # (B, K, length, K)
            rows = ops.reshape(is_ancestor, (-1, k, length * k))
            logits, cache = step(last, cache, index * k, index, rows)
        else:
            logits, cache = step(ops.reshape(last, (-1, 1)), cache, index, index, None)
            logits = ops.reshape(logits, (-1, k, ops.shape(logits)[-1]))
        before = _along(history[:, k:], written, slots) if read_tokens(constraints) else None
        logits = restrict(constraints, logits, before, index, end_id, max_length)
        old = scores
        scores, parents, tokens = _best_continuations(logits, scores, 2 * k)
        ends, index = ops.equal(tokens, end_id), index + 1
        ended = ops.where(ends, scores / length_penalty(index, alpha), NEVER)
        pool, chosen = ops.top_k(ops.concatenate([pool, ended], axis=1), k)
        scores, chosen_open = ops.top_k(ops.where(ends, NEVER, scores), k)
        last, origin = pick(tokens, chosen_open), pick(parents, chosen_open)
        if reorder is not None:
            cache = reorder(cache, ops.reshape(k * items + origin, (-1,)))
        # Keep the best K ended and K open of K ended and 2K continued sequences, and gather their histories: by
        # products, as TensorFlow without XLA takes time for each operation.
        chosen = ops.one_hot(ops.concatenate([chosen, chosen_open + k], axis=1), 3 * k, dtype="float32")
        origins = ops.one_hot(ops.concatenate([ended_rows, parents + k], axis=1), 2 * k, dtype="float32")
        is_next = ops.equal(positions, index)
        history = ops.where(is_next, next_slots, ops.matmul(ops.matmul(chosen, origins), history))
        written = ops.where(is_next, last[..., None], written)
        if gains:
            gained = ops.where(scores > NEVER, scores - ops.take_along_axis(old, origin, axis=1), 0.0)
            gains = [ops.where(is_next, gained[..., None], gains[0])]
        return index, last, scores, pool, history, written, gains, cache

    at_start = ops.equal(positions, 0)
    state = (
        ops.zeros((), "int32"),
        ops.full((batch_size, k), start_id, "int32"),
        # Only one of the equal beams at the start may continue.
        ops.tile(ops.convert_to_tensor([[0.0] + [NEVER] * (k - 1)], "float32"), (batch_size, 1)),
        ops.full((batch_size, k), NEVER, "float32"),
        ops.tile(ops.where(at_start, next_slots, -1.0)[None], (batch_size, 1, 1)),
        ops.zeros((batch_size, k, max_length + 1), "int32"),
        [ops.zeros((batch_size, k, max_length + 1), "float32")] if return_token_scores else [],
        cache,
    )
    for length in search_lengths(max_length) if grow else [max_length]:
        *state, cache = state
        state = (*state, grow(cache, length * (k if reorder is None else 1)) if grow else cache)
        here = (functools.partial(function, length=length) for function in (unfinished, body))
        state = ops.while_loop(*here, state)
    index, _, scores, pool, history, written, gains, _ = state
    tokens = _along(history, written, slots)
    is_last = ops.logical_and(history[:, :k, :-1] >= 0, history[:, :k, 1:] < 0)
    tokens = ops.concatenate([ops.where(is_last, end_id, tokens[:, :k]), tokens[:, k:]], axis=1)
    if gains:
        gains = [_with_ends(_along(history, gains[0], slots), is_last, pool, alpha)]
    return _best(pool, scores / length_penalty(index, alpha), tokens, *gains)


def _most_probable(logits):
    """Returns the id and the log probability of the most probable token, each `(B,)`."""
    largest = ops.max(logits, axis=-1, keepdims=True)
    # XLA's argmax on a CPU is slower, as it is sequential.
    last = ops.shape(logits)[-1] - 1
    best = ops.min(ops.where(logits == largest, ops.arange(last + 1, dtype="int32"), last), axis=-1)
    return best, -ops.log(ops.sum(ops.exp(logits - largest), axis=-1))


def _best_continuations(logits, scores, count):
    """Returns scores, parents and tokens of the best of all K * V continuations, each `(B, count)`."""
    if logits.shape[-1] is not None and logits.shape[-1] < count:
        raise ValueError(
            "`beam_size` must be at most half the vocabulary. "
            f"Received: beam_size={count // 2} for a vocabulary of {logits.shape[-1]}"
        )
    best, tokens = top_k(ops.log_softmax(logits, axis=-1), count)  # of each beam, then of all
    every = scores.shape[1] * count
    scores, chosen = ops.top_k(ops.reshape(best + scores[..., None], (-1, every)), count)
    return scores, chosen // count, pick(ops.reshape(tokens, (-1, every)), chosen)


def _along(history, written, slots):
    """Returns what was written for each token of hypotheses, `(B, n, T)`; zeros after their last open one."""
    is_ancestor = ops.equal(history[:, :, None, 1:], slots[:, None])  # (B, n, K, T)
    return ops.sum(ops.where(is_ancestor, written[:, None, :, 1:], 0), axis=2)


def _with_ends(gains, is_last, pool, alpha):
    """Adds to log probabilities `(B, 2K, T)` those of end tokens: what is left of the scores of the pool."""
    k, length = pool.shape[1], is_last.shape[-1]
    total = pool * length_penalty(ops.sum(ops.where(is_last, ops.arange(1.0, length + 1), 0.0), axis=-1), alpha)
    left = total - ops.sum(gains[:, :k], axis=-1)
    return ops.concatenate([ops.where(is_last, left[..., None], gains[:, :k]), gains[:, k:]], axis=1)


def _best(pool, open_scores, tokens, *gains):
    """Returns the K best of the pool; open hypotheses fill the places that are left."""
    k = pool.shape[1]
    count = ops.sum(ops.cast(pool > NEVER, "int32"), axis=1, keepdims=True)
    open_scores = ops.where(ops.arange(k, dtype="int32") < k - count, open_scores, NEVER)
    scores, chosen = ops.top_k(ops.concatenate([pool, open_scores], axis=1), k)
    scores = ops.maximum(scores, EMPTY)
    is_missing = scores[..., None] <= EMPTY
    tokens, *gains = (
        ops.where(is_missing, 0, ops.take_along_axis(each, chosen[..., None], axis=1)) for each in (tokens, *gains)
    )
    return tokens, scores, *gains

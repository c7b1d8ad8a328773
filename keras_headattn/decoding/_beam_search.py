"""Beam search, in a loop of static shapes and few operations."""

import functools
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_headattn._types import Tensor
from keras_headattn._validation import check_number
from keras_headattn.decoding._constraints import NEVER, NONE, Constraints, follow_prefix, read_tokens, restrict
from keras_headattn.decoding._search import check_search, length_penalty, search_lengths
from keras_headattn.decoding._top_k import pick, top_k

EMPTY = -1e9  # score of missing sequences
TINY = 1e-30  # below it coverage counts as this


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
    coverage_penalty: float | Tensor = 0.0,
    source_mask: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Finds the `beam_size` best sequences.

    A sequence that ends moves to a pool, with its score. The search stops when no open sequence can beat the worst of a
    full pool. If fewer than K have ended, the best open ones, cut off at `max_length`, are returned as well.

    Each step writes K tokens to K new rows of the cache, and a mask selects each beam's ancestors, so the cache is
    never reordered. If its rows must be in order, pass `reorder`: each beam is then a row of a batch of B * K.

    Source: Wu et al. 2016, "Google's neural machine translation system", section 7; eq. 14 for `coverage_penalty`.

    Args:
        step: function of `(tokens (B, K), cache, index, position, mask)` to `(logits (B, K, V), cache)`. The K tokens
            have the same `position` and are written to rows `index ... index + K - 1`; boolean `mask`
            `(B, K, max_length * K)` is True where they may attend. With `reorder`: as in `greedy_search`, B * K rows.
        cache: initial state with a capacity of `max_length * beam_size`; with `reorder`, for B * K sequences with a
            capacity of `max_length`, the K of a source adjacent. With `grow`, its present capacity stands in place of
            `max_length`, here and in masks; the first is 32, or `max_length` if that is less.
        beam_size: int K, at most half the vocabulary. Default 4.
        reorder: function of `(cache, rows (B * K,))` to the cache with these rows. Default `None`.
        alpha: as in `greedy_search`. Default 0.6.
        coverage_penalty: number or scalar tensor of at least 0: adds to scores, after the length penalty, this times
            the sum over source positions of log(min(c, 1)), where c is the attention that they got in all steps. `step`
            must then return `(logits, cache, attention)`, with the attention `(B, K, n)` of the tokens to the source.
            Default 0: none.
        source_mask: boolean `(B, n)`, True for source positions that count; for `coverage_penalty`. Default `None`.
        batch_size, max_length, start_id, end_id, grow, constraints, return_token_scores: as in `greedy_search`.

    Returns:
        `(tokens (B, K, max_length), scores (B, K))`, best first, as in `greedy_search`. Missing sequences are zeros
        with score -1e9. With `return_token_scores` also log probabilities `(B, K, max_length)`.

    Raises:
        ValueError: if an argument is invalid.
    """
    check_search(max_length, start_id, end_id, alpha, beam_size, constraints)
    covers = check_coverage(coverage_penalty)
    if covers and source_mask is None:
        raise ValueError(f"`coverage_penalty` needs `source_mask`. Received: coverage_penalty={coverage_penalty}")
    k = beam_size
    slots = ops.arange(k, dtype="float32")
    positions = ops.arange(max_length + 1, dtype="int32")
    # Slots at the next position: none for ended sequences, their own for open ones.
    next_slots = ops.convert_to_tensor([[-1.0]] * k + [[float(slot)] for slot in range(k)], "float32")
    items = ops.arange(batch_size, dtype="int32")[:, None]
    ended_rows = ops.arange(k, dtype="int32") + 0 * items  # (B, K)

    def penalty(coverage):
        log_coverage = ops.log(ops.clip(coverage, TINY, 1.0))
        return coverage_penalty * ops.sum(ops.where(source_mask[:, None], log_coverage, 0.0), axis=-1)

    def unfinished(index, last, scores, pool, history, written, gains, coverage, cache, length):
        # Keras refuses empty batches unless `initial` is given.
        best_open = ops.max(scores, axis=1, initial=NEVER) / length_penalty(max_length, alpha)
        worst_ended = ops.min(pool, axis=1, initial=-NEVER)
        hopeless = ops.all(best_open <= worst_ended)
        return ops.logical_and(index < length, ops.logical_not(hopeless))

    def body(index, last, scores, pool, history, written, gains, coverage, cache, length):
        if reorder is None:
            is_ancestor = ops.equal(history[:, k:, :length, None], slots)  # (B, K, length, K)
            rows = ops.reshape(is_ancestor, (-1, k, length * k))
            logits, cache, *attention = step(last, cache, index * k, index, rows)
        else:
            logits, cache, *attention = step(ops.reshape(last, (-1, 1)), cache, index, index, None)
            logits = ops.reshape(logits, (-1, k, ops.shape(logits)[-1]))
        before = _along(history[:, k:], written, slots) if read_tokens(constraints) else None
        allowed = restrict(constraints, logits, before, index, end_id, max_length)
        gained = ops.log_softmax(allowed, axis=-1)
        if constraints.prefix is not None:
            gained = follow_prefix(constraints, gained, logits, index)
        old = scores
        scores, parents, tokens = _best_continuations(gained, scores, 2 * k)
        ends, index = ops.equal(tokens, end_id), index + 1
        ended = ops.where(ends, scores / length_penalty(index, alpha), NEVER)
        if covers:
            covered = coverage[0] + ops.reshape(attention[0], ops.shape(coverage[0]))
            ended = ended + ops.take_along_axis(penalty(covered), parents, axis=1)
        pool, chosen = ops.top_k(ops.concatenate([pool, ended], axis=1), k)
        if gains:
            added = _difference(scores, ops.take_along_axis(old, parents, axis=1))
            last_gains = ops.take_along_axis(ops.concatenate([gains[1], added], axis=1), chosen, axis=1)
        scores, chosen_open = ops.top_k(ops.where(ends, NEVER, scores), k)
        last, origin = pick(tokens, chosen_open), pick(parents, chosen_open)
        if covers:
            coverage = [ops.take_along_axis(covered, origin[..., None], axis=1)]
        if reorder is not None:
            cache = reorder(cache, ops.reshape(k * items + origin, (-1,)))
        # Keep the best K ended and K open of K ended and 2K continued sequences, and pick their histories: products
        # of several matrices wait for a second thread, without XLA.
        origins = ops.concatenate([ended_rows, parents + k], axis=1)
        origins = pick(origins, ops.concatenate([chosen, chosen_open + k], axis=1))
        is_next = ops.equal(positions, index)
        history = ops.where(is_next, next_slots, pick(history, origins))
        written = ops.where(is_next, last[..., None], written)
        if gains:
            added = _difference(scores, ops.take_along_axis(old, origin, axis=1))
            gains = [ops.where(is_next, added[..., None], gains[0]), last_gains]
        return index, last, scores, pool, history, written, gains, coverage, cache

    sizes = (max_length + 1,), ()  # tokens of open hypotheses, and the end of those in the pool
    gains = [ops.zeros((batch_size, k, *size), "float32") for size in sizes if return_token_scores]
    coverage = [ops.repeat(ops.zeros_like(source_mask, "float32")[:, None], k, axis=1)] if covers else []
    state = (*_first_beams(batch_size, k, start_id, positions, next_slots), gains, coverage, cache)
    for length in search_lengths(max_length) if grow else [max_length]:
        *state, cache = state
        state = (*state, grow(cache, length * (k if reorder is None else 1)) if grow else cache)
        here = (functools.partial(function, length=length) for function in (unfinished, body))
        state = ops.while_loop(*here, state)
    index, _, scores, pool, history, written, gains, coverage, _ = state
    tokens = _along(history, written, slots)
    is_last = ops.logical_and(history[:, :k, :-1] >= 0, history[:, :k, 1:] < 0)
    tokens = ops.concatenate([ops.where(is_last, end_id, tokens[:, :k]), tokens[:, k:]], axis=1)
    if gains:
        token_gains = _along(history, gains[0], slots)
        ended = ops.where(is_last, gains[1][..., None], token_gains[:, :k])
        gains = [ops.concatenate([ended, token_gains[:, k:]], axis=1)]
    scores = scores / length_penalty(index, alpha)
    return _best(pool, scores + penalty(*coverage) if covers else scores, tokens, *gains)


def _first_beams(batch_size, k, start_id, positions, next_slots):
    """Returns the state that every search begins with: index, last tokens, scores, pool, histories, tokens."""
    return (
        ops.zeros((), "int32"),
        ops.broadcast_to(ops.reshape(ops.cast(start_id, "int32"), (-1, 1)), (batch_size, k)),
        # Only one of the equal beams at the start may continue.
        ops.tile(ops.convert_to_tensor([[0.0] + [NEVER] * (k - 1)], "float32"), (batch_size, 1)),
        ops.full((batch_size, k), NEVER, "float32"),
        ops.tile(ops.where(ops.equal(positions, 0), next_slots, -1.0)[None], (batch_size, 1, 1)),
        ops.zeros((batch_size, k, positions.shape[0]), "int32"),
    )


def check_coverage(penalty):
    """Returns True if there is a coverage penalty; raises a ValueError if it is negative."""
    return ops.is_tensor(penalty) or check_number("coverage_penalty", penalty, least=0) > 0


def _best_continuations(gained, scores, count):
    """Returns scores, parents and tokens of the best of all K * V continuations, each `(B, count)`."""
    if gained.shape[-1] is not None and gained.shape[-1] < count:
        raise ValueError(
            "`beam_size` must be at most half the vocabulary. "
            f"Received: beam_size={count // 2} for a vocabulary of {gained.shape[-1]}"
        )
    best, tokens = top_k(gained, count)  # of each beam, then of all
    every = scores.shape[1] * count
    scores, chosen = ops.top_k(ops.reshape(best + scores[..., None], (-1, every)), count)
    return scores, chosen // count, pick(ops.reshape(tokens, (-1, every)), chosen)


def _along(history, written, slots):
    """Returns what was written for each token of hypotheses, `(B, n, T)`; zeros after their last open one."""
    is_ancestor = ops.equal(history[:, :, None, 1:], slots[:, None])  # (B, n, K, T)
    return ops.sum(ops.where(is_ancestor, written[:, None, :, 1:], 0), axis=2)


def _difference(scores, before):
    return ops.where(scores > NEVER, scores - before, 0.0)


def _best(pool, open_scores, tokens, *gains):
    """Returns the K best of the pool; open hypotheses fill the places that are left."""
    k = pool.shape[1]
    count = ops.sum(ops.cast(pool > NEVER, "int32"), axis=1, keepdims=True)
    open_scores = ops.where(ops.arange(k, dtype="int32") < k - count, open_scores, NEVER)
    scores, chosen = ops.top_k(ops.concatenate([pool, open_scores], axis=1), k)
    scores = ops.maximum(scores, EMPTY)
    is_missing = scores[..., None] <= EMPTY
    tokens, *gains = (
        ops.where(is_missing, 0, ops.take_along_axis(values, chosen[..., None], axis=1)) for values in (tokens, *gains)
    )
    return tokens, scores, *gains

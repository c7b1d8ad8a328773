"""Greedy and beam search, in loops of static shapes and few operations."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from keras_headattn._types import Tensor
from keras_headattn._validation import check_number, check_positive
from keras_headattn.decoding._top_k import pick, top_k

NEVER = float("-inf")
EMPTY = -1e9  # score of missing sequences
FIRST_LENGTH = 32  # first capacity of a growing cache


def search_lengths(max_length):
    """Returns cache capacities: `FIRST_LENGTH`, each four times the one before, and `max_length`."""
    lengths = (FIRST_LENGTH * 4**i for i in itertools.count())
    return [*itertools.takewhile(lambda length: length < max_length, lengths), max_length]


def check_search(max_length, start_id, end_id, alpha, beam_size=1, suppress=(), vocabulary_size=None):
    """Raises a ValueError if an argument of a search is invalid."""
    check_positive("beam_size", beam_size)
    check_positive("max_length", max_length)
    last = float("inf") if vocabulary_size is None else vocabulary_size - 1
    allowed = "0 or more" if vocabulary_size is None else f"0 to {last}, as the vocabulary of the model has them"
    if isinstance(suppress, (str, int)) or end_id in suppress:
        raise ValueError(f"`suppress` must be a list of token ids without `end_id`. Received: suppress={suppress!r}")
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
    suppress: Sequence[int] = (),
    force_end: bool = False,
) -> tuple[Tensor, Tensor]:
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
        suppress: token ids that are never produced, excluded before the softmax. Default: none.
        force_end: bool, True to make the token at `max_length` always `end_id`. Default False.

    Returns:
        `(tokens (B, max_length), scores (B,))`: int32, zeros after `end_id`; float32, sums of log probabilities divided
        by `length_penalty(length, alpha)`.

    Raises:
        ValueError: if an argument is invalid.
    """
    check_search(max_length, start_id, end_id, alpha, suppress=suppress)

    def unfinished(index, last, tokens, scores, lengths, finished, cache, length):
        return ops.logical_and(index < length, ops.logical_not(ops.all(finished)))

    def body(index, last, tokens, scores, lengths, finished, cache):
        logits, cache = step(last[:, None], cache, index, index, None)
        logits = ops.reshape(logits, (-1, ops.shape(logits)[-1]))
        logits = _restrict(logits, suppress, end_id, force_end and ops.equal(index, max_length - 1))
        best, gained = _most_probable(logits)
        best = ops.where(finished, 0, best)
        scores = scores + ops.where(finished, 0.0, gained)
        lengths = ops.where(finished, lengths, index + 1)
        tokens = ops.where(ops.equal(positions, index), best[:, None], tokens)
        finished = ops.logical_or(finished, ops.equal(best, end_id))
        return index + 1, best, tokens, scores, lengths, finished, cache

    positions = ops.arange(max_length, dtype="int32")
    state = (
        ops.zeros((), "int32"),
        ops.full((batch_size,), start_id, "int32"),
        ops.zeros((batch_size, max_length), "int32"),
        ops.zeros((batch_size,), "float32"),
        ops.zeros((batch_size,), "int32"),
        ops.zeros((batch_size,), "bool"),
        cache,
    )
    for length in search_lengths(max_length) if grow else [max_length]:
        *state, cache = state
        state = (*state, grow(cache, length) if grow else cache)
        state = ops.while_loop(functools.partial(unfinished, length=length), body, state)
    _, _, tokens, scores, lengths, _, _ = state
    return tokens, scores / length_penalty(lengths, alpha)


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
    suppress: Sequence[int] = (),
    force_end: bool = False,
) -> tuple[Tensor, Tensor]:
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
        batch_size, max_length, start_id, end_id, alpha, grow, suppress, force_end: as in `greedy_search`.

    Returns:
        `(tokens (B, K, max_length), scores (B, K))`, best first, as in `greedy_search`. Missing sequences are zeros
        with score -1e9.

    Raises:
        ValueError: if an argument is invalid.
    """
    check_search(max_length, start_id, end_id, alpha, beam_size, suppress)
    k = beam_size
    slots = ops.arange(k, dtype="float32")
    positions = ops.arange(max_length + 1, dtype="int32")
    # Slots at the next position: none for ended sequences, their own for open ones.
    next_slots = ops.convert_to_tensor([[-1.0]] * k + [[float(slot)] for slot in range(k)], "float32")
    items = ops.arange(batch_size, dtype="int32")[:, None]
    ended_rows = ops.arange(k, dtype="int32") + 0 * items  # (B, K)

    def unfinished(index, last, scores, pool, history, written, cache, length):
        # Keras refuses empty batches unless `initial` is given.
        best_open = ops.max(scores, axis=1, initial=NEVER) / length_penalty(max_length, alpha)
        worst_ended = ops.min(pool, axis=1, initial=-NEVER)
        hopeless = ops.all(best_open <= worst_ended)
        return ops.logical_and(index < length, ops.logical_not(hopeless))

    def body(index, last, scores, pool, history, written, cache, length):
        if reorder is None:
            is_ancestor = ops.equal(history[:, k:, :length, None], slots)  # (B, K, length, K)
            rows = ops.reshape(is_ancestor, (-1, k, length * k))
            logits, cache = step(last, cache, index * k, index, rows)
        else:
            logits, cache = step(ops.reshape(last, (-1, 1)), cache, index, index, None)
            logits = ops.reshape(logits, (-1, k, ops.shape(logits)[-1]))
        logits = _restrict(logits, suppress, end_id, force_end and ops.equal(index, max_length - 1))
        scores, parents, tokens = _best_continuations(logits, scores, 2 * k)
        ends, index = ops.equal(tokens, end_id), index + 1
        ended = ops.where(ends, scores / length_penalty(index, alpha), NEVER)
        pool, chosen = ops.top_k(ops.concatenate([pool, ended], axis=1), k)
        scores, chosen_open = ops.top_k(ops.where(ends, NEVER, scores), k)
        last = pick(tokens, chosen_open)
        if reorder is not None:
            cache = reorder(cache, ops.reshape(k * items + pick(parents, chosen_open), (-1,)))
        # Keep the best K ended and K open of K ended and 2K continued sequences, and gather their histories: by
        # products, as TensorFlow without XLA takes time for each operation.
        chosen = ops.one_hot(ops.concatenate([chosen, chosen_open + k], axis=1), 3 * k, dtype="float32")
        origins = ops.one_hot(ops.concatenate([ended_rows, parents + k], axis=1), 2 * k, dtype="float32")
        is_next = ops.equal(positions, index)
        history = ops.where(is_next, next_slots, ops.matmul(ops.matmul(chosen, origins), history))
        written = ops.where(is_next, last[..., None], written)
        return index, last, scores, pool, history, written, cache

    at_start = ops.equal(positions, 0)
    state = (
        ops.zeros((), "int32"),
        ops.full((batch_size, k), start_id, "int32"),
        # Only one of the equal beams at the start may continue.
        ops.tile(ops.convert_to_tensor([[0.0] + [NEVER] * (k - 1)], "float32"), (batch_size, 1)),
        ops.full((batch_size, k), NEVER, "float32"),
        ops.tile(ops.where(at_start, next_slots, -1.0)[None], (batch_size, 1, 1)),
        ops.zeros((batch_size, k, max_length + 1), "int32"),
        cache,
    )
    for length in search_lengths(max_length) if grow else [max_length]:
        *state, cache = state
        state = (*state, grow(cache, length * (k if reorder is None else 1)) if grow else cache)
        here = (functools.partial(function, length=length) for function in (unfinished, body))
        state = ops.while_loop(*here, state)
    index, _, scores, pool, history, written, _ = state
    tokens = _tokens(history, written, slots, end_id)
    return _best(tokens, pool, scores / length_penalty(index, alpha))


def _restrict(logits, suppress, end_id, ends):
    """Sets the logits of suppressed ids to -inf and, where `ends` is true, those of all ids but `end_id`."""
    logits = ops.cast(logits, "float32")
    if not suppress and ends is False:
        return logits
    tokens = ops.arange(ops.shape(logits)[-1], dtype="int32")
    if suppress:
        logits = ops.where(ops.any(ops.equal(tokens[:, None], list(suppress)), axis=1), NEVER, logits)
    if ends is not False:
        logits = ops.where(ops.logical_and(ends, ops.not_equal(tokens, end_id)), NEVER, logits)
    return logits


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


def _tokens(history, written, slots, end_id):
    """Returns token ids `(B, 2K, T)` of K ended and K open hypotheses; zeros after the end."""
    k = slots.shape[0]
    is_ancestor = ops.equal(history[:, :, None, 1:], slots[:, None])  # (B, 2K, K, T)
    tokens = ops.sum(ops.where(is_ancestor, written[:, None, :, 1:], 0), axis=2)
    is_last = ops.logical_and(history[:, :k, :-1] >= 0, history[:, :k, 1:] < 0)
    return ops.concatenate([ops.where(is_last, end_id, tokens[:, :k]), tokens[:, k:]], axis=1)


def _best(tokens, pool, open_scores):
    """Returns the K best of the pool; open hypotheses fill the places that are left."""
    k = pool.shape[1]
    count = ops.sum(ops.cast(pool > NEVER, "int32"), axis=1, keepdims=True)
    open_scores = ops.where(ops.arange(k, dtype="int32") < k - count, open_scores, NEVER)
    scores, chosen = ops.top_k(ops.concatenate([pool, open_scores], axis=1), k)
    tokens = ops.take_along_axis(tokens, chosen[..., None], axis=1)
    scores = ops.maximum(scores, EMPTY)
    return ops.where(scores[..., None] <= EMPTY, 0, tokens), scores

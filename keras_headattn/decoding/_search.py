"""Greedy and beam search over any step function, as one loop of static shapes."""

from keras import ops

from keras_headattn._validation import number, positive
from keras_headattn.decoding._ancestry import ancestry_mask, inherit, initial_ancestry
from keras_headattn.decoding._top_k import top_k

NEVER = float("-inf")
EMPTY = -1e9  # score of a place that no hypothesis takes


def check_search(max_length, start_id, end_id, alpha, beam_size=1, vocabulary_size=None):
    """Raises a ValueError that says which argument of a search is wrong and what was received.

    Args:
        max_length, start_id, end_id, alpha, beam_size: as in `beam_search`.
        vocabulary_size: int, number of token ids. Default `None`: not known.
    """
    positive("beam_size", beam_size)
    positive("max_length", max_length)
    last = float("inf") if vocabulary_size is None else vocabulary_size - 1
    for name, token in (("start_id", start_id), ("end_id", end_id)):
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token <= last:
            ids = "0 or more" if vocabulary_size is None else f"0 to {last}, as the vocabulary of the model has them"
            raise ValueError(f"`{name}` must be a token id, an integer of {ids}. Received: {name}={token}")
    if not ops.is_tensor(alpha):
        number("alpha", alpha, least=0)


def length_penalty(length, alpha):
    """`((5 + length) / 6) ** alpha`: what log probabilities are divided by (Wu et al. 2016, eq. 14)."""
    return ((5.0 + ops.cast(length, "float32")) / 6.0) ** alpha


def greedy_search(step, cache, batch_size, max_length, start_id, end_id, alpha=0.0):
    """The most probable token at each step, until every row has ended.

    Args:
        step: function of `(tokens (B, 1), cache, index, position, mask)` to `(logits (B, 1, V), cache)`;
            `index` and `position` are the step, `mask` is `None`.
        cache: initial state; any structure of tensors whose shapes do not change.
        batch_size: B.
        max_length: most tokens to produce, `end_id` included.
        start_id, end_id: token ids, integers.
        alpha: exponent of the length penalty, a number of at least 0 or a scalar tensor; 0 for none.

    Returns:
        `(tokens (B, max_length), scores (B,))`: integers, zeros after `end_id`; the sum of log probabilities,
        divided by `length_penalty(length, alpha)`.

    Raises:
        ValueError: naming the argument and what was received.
    """
    check_search(max_length, start_id, end_id, alpha)

    def unfinished(index, last, tokens, scores, lengths, finished, cache):
        return ops.logical_and(index < max_length, ops.logical_not(ops.all(finished)))

    def body(index, last, tokens, scores, lengths, finished, cache):
        logits, cache = step(last[:, None], cache, index, index, None)
        logits = ops.cast(logits[:, 0], "float32")
        best, gained = _most_probable(logits)
        best = ops.where(finished, 0, best)
        scores = scores + ops.where(finished, 0.0, gained)
        lengths = lengths + ops.cast(ops.logical_not(finished), "int32")
        column = ops.equal(ops.arange(max_length, dtype="int32"), index)[None]
        tokens = ops.where(column, best[:, None], tokens)
        finished = ops.logical_or(finished, ops.equal(best, end_id))
        return index + 1, best, tokens, scores, lengths, finished, cache

    start = (
        ops.zeros((), "int32"),
        ops.full((batch_size,), start_id, "int32"),
        ops.zeros((batch_size, max_length), "int32"),
        ops.zeros((batch_size,), "float32"),
        ops.zeros((batch_size,), "int32"),
        ops.zeros((batch_size,), "bool"),
        cache,
    )
    _, _, tokens, scores, lengths, _, _ = ops.while_loop(unfinished, body, start)
    return tokens, scores / length_penalty(lengths, alpha)


def beam_search(step, cache, batch_size, max_length, start_id, end_id, beam_size=4, alpha=0.6, reorder=None):
    """The `beam_size` best translations found with a beam of that size.

    A hypothesis that ends leaves the beam for a pool of finished ones, where it is frozen with its score,
    the log probability divided by `length_penalty(length, alpha)`, the end token counted. The search
    stops when no open hypothesis can still beat the worst of a full pool (log probabilities only
    fall, and no hypothesis is longer than `max_length`). Open hypotheses that reach `max_length` fill the
    remaining places.

    The beam lies along the length axis of the cache: at each step K tokens are written to K new rows,
    and a mask says which rows are the ancestors of each beam. So nothing in the cache is ever moved. Where the
    rows of a cache must be in order, give `reorder`: then each hypothesis is a row of a batch of B * K, and its
    cache is moved when it gets another parent.

    Source: Wu et al. 2016, "Google's neural machine translation system", section 7.

    Args:
        step: function of `(tokens (B, K), cache, index, position, mask)` to `(logits (B, K, V), cache)`.
            The K tokens stand at the same `position` and are written to rows `index ... index + K - 1`;
            boolean `mask` `(B, K, max_length * K)` says what each may attend to. With `reorder` as in
            `greedy_search`, for B * K rows.
        cache: initial state, with room for `max_length * beam_size` rows; with `reorder`, of B * K hypotheses with
            room for `max_length` each, those of a source side by side.
        batch_size, max_length, start_id, end_id: as in `greedy_search`.
        beam_size: K, at most half the vocabulary.
        alpha: as in `greedy_search`.
        reorder: function of `(cache, rows (B * K,))` to the cache whose hypotheses are these rows of the other.

    Returns:
        `(tokens (B, K, max_length), scores (B, K))`, best first; zeros after `end_id`. Where fewer than K
        hypotheses exist the rest are zeros with a score of -1e9.

    Raises:
        ValueError: naming the argument and what was received; for `beam_size` also if the vocabulary has fewer than
            `2 * beam_size` tokens.
    """
    check_search(max_length, start_id, end_id, alpha, beam_size)
    k = beam_size

    def unfinished(index, beam, pool, cache):
        # Keras refuses the largest of an empty batch unless `initial` is given.
        best_open = ops.max(beam["scores"], axis=1, initial=NEVER) / length_penalty(max_length, alpha)
        worst_ended = ops.min(pool["scores"], axis=1, initial=-NEVER)
        hopeless = ops.all(best_open <= worst_ended)
        return ops.logical_and(index < max_length, ops.logical_not(hopeless))

    def body(index, beam, pool, cache):
        if reorder is None:
            rows = ancestry_mask(beam["ancestry"], index)
            logits, cache = step(beam["last"], cache, index * k, index, rows)
        else:
            logits, cache = step(ops.reshape(beam["last"], (-1, 1)), cache, index, index, None)
            logits = ops.reshape(logits, (-1, k, logits.shape[-1]))
        scores, parents, tokens = _best_continuations(logits, beam["scores"], 2 * k)
        ends = ops.equal(tokens, end_id)

        ended = ops.where(ends, scores / length_penalty(index + 1, alpha), NEVER)
        histories = _append(_take(beam["tokens"], parents), tokens, index)
        pool_scores, chosen = ops.top_k(ops.concatenate([pool["scores"], ended], axis=1), k)
        pool_tokens = _take(ops.concatenate([pool["tokens"], histories], axis=1), chosen)

        open_scores, chosen = ops.top_k(ops.where(ends, NEVER, scores), k)
        parents = ops.take_along_axis(parents, chosen, axis=1)
        if reorder is not None:
            firsts = k * ops.arange(batch_size, dtype="int32")[:, None]
            cache = reorder(cache, ops.reshape(firsts + parents, (-1,)))
        beam = {
            "scores": open_scores,
            "last": ops.take_along_axis(tokens, chosen, axis=1),
            "tokens": _take(histories, chosen),
            "ancestry": inherit(beam["ancestry"], parents, index),
        }
        return index + 1, beam, {"scores": pool_scores, "tokens": pool_tokens}, cache

    beam = {
        # Only one of the equal beams at the start may have descendants.
        "scores": ops.tile(ops.convert_to_tensor([[0.0] + [NEVER] * (k - 1)], "float32"), (batch_size, 1)),
        "last": ops.full((batch_size, k), start_id, "int32"),
        "tokens": ops.zeros((batch_size, k, max_length), "int32"),
        "ancestry": initial_ancestry(batch_size, k, max_length),
    }
    pool = {
        "scores": ops.full((batch_size, k), NEVER, "float32"),
        "tokens": ops.zeros((batch_size, k, max_length), "int32"),
    }
    index, beam, pool, _ = ops.while_loop(unfinished, body, (ops.zeros((), "int32"), beam, pool, cache))
    return _fill(pool, beam, length_penalty(index, alpha))


def _most_probable(logits):
    """Id and log probability, each `(B,)`, of the most probable token."""
    largest = ops.max(logits, axis=-1, keepdims=True)
    # XLA's argmax is slower: it takes one number after the other.
    last = logits.shape[-1] - 1
    best = ops.min(ops.where(logits == largest, ops.arange(last + 1, dtype="int32"), last), axis=-1)
    return best, -ops.log(ops.sum(ops.exp(logits - largest), axis=-1))


def _best_continuations(logits, scores, count):
    """Scores, parents and tokens, each `(B, count)`, of the best of all K * V continuations."""
    logits = ops.cast(logits, "float32")
    if logits.shape[-1] < count:
        raise ValueError(
            "`beam_size` must be at most half the vocabulary. "
            f"Received: beam_size={count // 2} for a vocabulary of {logits.shape[-1]}"
        )
    # The best of each beam first: the order within a beam does not need the normaliser.
    best, tokens = top_k(logits, count)
    best = best - ops.logsumexp(logits, axis=-1, keepdims=True) + scores[..., None]
    batch, k = ops.shape(scores)
    scores, chosen = ops.top_k(ops.reshape(best, (batch, k * count)), count)
    tokens = ops.take_along_axis(ops.reshape(tokens, (batch, k * count)), chosen, axis=1)
    return scores, ops.cast(ops.floor_divide(chosen, count), "int32"), ops.cast(tokens, "int32")


def _take(histories, chosen):
    """Rows `chosen` `(B, C)` of `(B, K, T)`."""
    return ops.take_along_axis(histories, chosen[..., None], axis=1)


def _append(histories, tokens, index):
    column = ops.equal(ops.arange(histories.shape[-1], dtype="int32"), index)
    return ops.where(column, tokens[..., None], histories)


def _fill(pool, beam, penalty):
    """Finished hypotheses by score, then open ones."""
    k = pool["scores"].shape[1]
    scores = ops.concatenate([pool["scores"], beam["scores"] / penalty], axis=1)
    # Both are in order already. Ranks all differ, as on PyTorch `top_k` puts equal numbers in any order.
    ranks = ops.arange(k, 0, -1, dtype="int32")
    ended = ops.where(ops.equal(pool["scores"], NEVER), ranks - k, ranks + k)
    _, chosen = ops.top_k(ops.concatenate([ended, ops.broadcast_to(ranks, ops.shape(ended))], axis=1), k)
    tokens = _take(ops.concatenate([pool["tokens"], beam["tokens"]], axis=1), chosen)
    scores = ops.maximum(ops.take_along_axis(scores, chosen, axis=1), EMPTY)
    return ops.where(scores[..., None] <= EMPTY, 0, tokens), scores

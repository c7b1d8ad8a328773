import dataclasses
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_headattn._types import Tensor
from keras_headattn._validation import as_python, check_boolean, check_number, check_positive

NEVER = float("-inf")
NO_TOKEN = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Constraints:
    """Rules for the tokens that a search produces.

    A prefix overrides all other rules. Where n-grams or `min_length` leave no token, `end_id` follows;
    without one, an n-gram is repeated.

    Args:
        suppress: token ids that are never produced, excluded before the softmax: list or int tensor. Default: none.
        min_length: int or int tensor, scalar or `(B,)`, below `max_length`: fewest tokens, without `end_id`. Default 0.
        no_repeat_ngram_size: int n: no n tokens occur twice in the same order. Default 0: no limit.
        repetition_penalty: number or scalar tensor above 0 that divides positive logits of earlier tokens and
            multiplies negative ones. Default 1.
        force_end: True to force `end_id` at `max_length`. Default False.
        prefix: token ids `(B, P)`, zeros after the last one, that start each row's hypotheses. They are part of the
            result and of its length. Default: none.
        context: token ids `(B, P)` before the first, -1 at padding, which n-grams and the repetition penalty count.
            Default: none.
        score_prefix: True to count the model's log probabilities of the prefix, without constraints. Default False:
            they count as 0.

    Source: Keskar et al. 2019, "CTRL: A conditional transformer language model for controllable generation", section
    4.1, for the repetition penalty.

    Raises:
        ValueError: if an argument is invalid.
    """

    suppress: Sequence[int] | Tensor = ()
    min_length: int | Tensor = 0
    no_repeat_ngram_size: int = 0
    repetition_penalty: float | Tensor = 1.0
    force_end: bool = False
    prefix: Tensor | None = None
    score_prefix: bool = False
    context: Tensor | None = None

    def __post_init__(self):
        if isinstance(self.suppress, (list, tuple, np.ndarray)):
            object.__setattr__(self, "suppress", tuple(map(as_python, self.suppress)))
        elif not ops.is_tensor(self.suppress):
            raise ValueError(
                f"`suppress` must be a list of token ids without `end_id`. Received: suppress={self.suppress!r}"
            )
        for name in ("min_length", "no_repeat_ngram_size"):
            value = getattr(self, name)
            if not ops.is_tensor(value) and value != 0:
                check_positive(name, value)
        if not ops.is_tensor(self.repetition_penalty):
            check_number("repetition_penalty", self.repetition_penalty, above=0)
        check_boolean("force_end", self.force_end)
        check_boolean("score_prefix", self.score_prefix)


NONE = Constraints()


def with_rows_repeated(constraints, repeats):
    """Returns the constraints of a batch with each row repeated."""
    rows = {name: getattr(constraints, name) for name in ("prefix", "min_length", "context")}
    rows = {name: value for name, value in rows.items() if ops.is_tensor(value) and len(value.shape)}
    rows = {name: ops.repeat(value, repeats, axis=0) for name, value in rows.items()}
    return dataclasses.replace(constraints, **rows)


def read_tokens(constraints):
    """Returns True if a next token depends on all tokens before."""
    return bool(constraints.no_repeat_ngram_size) or _is_on(constraints.repetition_penalty, 1)


def restrict(constraints, logits, tokens, index, end_id, max_length):
    """Returns float32 logits `(B, K, V)` of the next tokens, -inf for those that may not follow, but for the prefix.

    Args:
        tokens: `(B, K, T)`, of which those before `index` count; `None` unless `read_tokens`.
        end_id: id, or a tuple of ids, of which the first follows where nothing else may.
    """
    logits = ops.cast(logits, "float32")
    end_ids, read = (end_id if isinstance(end_id, tuple) else (end_id,)), index
    if tokens is not None and constraints.context is not None:
        context = ops.repeat(constraints.context[:, None], ops.shape(tokens)[1], axis=1)
        tokens, read = ops.concatenate([context, tokens], axis=2), index + ops.shape(context)[2]
    if _is_on(constraints.repetition_penalty, 1):
        logits = _penalize(constraints.repetition_penalty, logits, tokens, read)
    suppresses, has_least = _is_on(constraints.suppress, ()), _is_on(constraints.min_length, 0)
    if not (suppresses or has_least or constraints.force_end or constraints.no_repeat_ngram_size):
        return logits
    ids = ops.arange(ops.shape(logits)[-1], dtype="int32")
    if suppresses:
        logits = ops.where(_is_among(ids, constraints.suppress), NEVER, logits)
    if has_least:
        is_early = index < ops.reshape(ops.cast(constraints.min_length, "int32"), (-1, 1, 1))
        logits = ops.where(ops.logical_and(is_early, _is_among(ids, end_ids)), NEVER, logits)
    if constraints.force_end:
        is_last = ops.equal(index, max_length - 1)
        logits = ops.where(ops.logical_and(is_last, ops.logical_not(_is_among(ids, end_ids))), NEVER, logits)
    if constraints.no_repeat_ngram_size:
        is_repeated, repeated = _repeated_ngrams(tokens, read, constraints.no_repeat_ngram_size)
        allowed, logits = logits, _replace(logits, repeated, is_repeated, ops.full_like(logits[..., :1], NEVER))
        if end_ids in ((), (NO_TOKEN,)):  # nothing ends the text: n-grams are repeated where all are
            logits = ops.where(ops.all(ops.equal(logits, NEVER), axis=-1, keepdims=True), allowed, logits)
    if constraints.no_repeat_ngram_size or has_least:  # nothing else may follow
        is_stuck = ops.all(ops.equal(logits, NEVER), axis=-1, keepdims=True)
        logits = ops.where(ops.logical_and(is_stuck, _is_among(ids, end_ids[:1])), 0.0, logits)
    return logits


def _is_among(ids, others):
    """Returns a boolean `(V,)`: True = the id is one of the others."""
    others = ops.convert_to_tensor(others, "int32")
    return ops.any(ops.equal(ids[:, None], others), axis=1)


def follow_prefix(constraints, log_probabilities, logits, index):
    """Returns log probabilities `(B, K, V)` where the token of the prefix alone may follow, scored by `logits`."""
    forced = forced_tokens(constraints, index)[:, None, None]
    scores = ops.log_softmax(ops.cast(logits, "float32"), axis=-1) if constraints.score_prefix else 0.0
    is_forced = ops.equal(ops.arange(ops.shape(logits)[-1], dtype="int32"), forced)
    return ops.where(forced > 0, ops.where(is_forced, scores, NEVER), log_probabilities)


def _penalize(penalty, logits, tokens, index):
    values, penalty = ops.take_along_axis(logits, ops.maximum(tokens, 0), axis=-1), ops.cast(penalty, "float32")
    is_there = ops.arange(ops.shape(tokens)[-1], dtype="int32") < index
    return _replace(logits, tokens, is_there, ops.where(values > 0, values / penalty, values * penalty))


def forced_tokens(constraints, index):
    """Returns the token of the prefixes at a step, `(B,)`, 0 after their end."""
    prefix = ops.cast(constraints.prefix, "int32")
    return ops.sum(ops.where(ops.equal(ops.arange(ops.shape(prefix)[1], dtype="int32"), index), prefix, 0), axis=1)


def _is_on(value, default):
    return ops.is_tensor(value) or value != default


def _repeated_ngrams(tokens, index, size):
    """Returns where an n-gram begins whose first n - 1 tokens are the last ones before `index`, and its last token."""
    positions = ops.arange(ops.shape(tokens)[-1], dtype="int32")
    is_repeated = ops.broadcast_to(positions + (size - 1) < index, ops.shape(tokens))
    for i in range(size - 1):
        last = ops.sum(ops.where(ops.equal(positions, index - (size - 1 - i)), tokens, 0), axis=-1, keepdims=True)
        is_repeated = ops.logical_and(is_repeated, ops.equal(_shifted(tokens, i), last))
    return is_repeated, _shifted(tokens, size - 1)


def _shifted(tokens, count):
    """Returns the tokens without the first ones, and zeros."""
    return ops.concatenate([tokens[..., count:], ops.zeros_like(tokens[..., :count])], axis=-1)


def _replace(logits, tokens, where, values):
    """Writes `values` `(B, K, T)` to the logits `(B, K, V)` of tokens `(B, K, T)`, `where` it is so."""
    size = ops.shape(logits)[-1]
    where = ops.logical_and(where, tokens >= 0)
    columns = ops.reshape(ops.where(where, tokens, size), (-1, ops.shape(tokens)[-1]))
    values = ops.reshape(ops.broadcast_to(values, ops.shape(tokens)), (-1,))
    rows = ops.arange(ops.shape(columns)[0], dtype="int32")[:, None] + 0 * columns
    places = ops.stack([ops.reshape(rows, (-1,)), ops.reshape(columns, (-1,))], axis=-1)
    padded = ops.pad(ops.reshape(logits, (-1, size)), [(0, 0), (0, 1)])  # a column for tokens that are not replaced
    return ops.reshape(ops.scatter_update(padded, places, values)[:, :size], ops.shape(logits))

"""Step functions that look tokens up in tables, and slow searches in plain Python with the same rules.

A *log-probability function* maps a list of prefixes (tuples of tokens, the start token left out) to an array
with a row of log probabilities for each.
"""

import itertools

import numpy as np
import tensorflow as tf

from keras_headattn.decoding import beam_search

START, END = 0, 1


def random_tables(batch=3, vocabulary=11, seed=0, scale=2.0):
    """Logits of the next token given the last: `(B, V, V)`."""
    return np.random.default_rng(seed).normal(scale=scale, size=(batch, vocabulary, vocabulary)).astype("float32")


def table_step(table, calls=None):
    """The next token depends on the last alone. Every call is added to `calls`."""

    def step(tokens, cache, index, position, mask):
        if calls is not None:
            calls.append(int(position))
        return tf.gather(table, tokens, batch_dims=1), cache

    return step


def search_tables(table, beam_size, alpha, max_length, calls=None):
    """`beam_search` over tables as NumPy arrays."""
    step = table_step(tf.convert_to_tensor(table), calls)
    tokens, scores = beam_search(step, {}, len(table), max_length, START, END, beam_size, alpha)
    return tokens.numpy(), scores.numpy()


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def table_log_probs(table):
    log_probs = log_softmax(table)
    return lambda prefixes: log_probs[[prefix[-1] if prefix else START for prefix in prefixes]]


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def ended_tokens(tokens, end=END):
    """A hypothesis as a tuple up to and with its end token, from a row filled up with zeros."""
    tokens = [int(token) for token in tokens]
    return tuple(tokens[: tokens.index(end) + 1] if end in tokens else tokens)


def score(log_probs, hypothesis, alpha):
    """Its log probability, one token after the other, divided by the length penalty."""
    rows = log_probs([hypothesis[:i] for i in range(len(hypothesis))])
    return rows[range(len(hypothesis)), list(hypothesis)].sum() / penalty(len(hypothesis), alpha)


def naive_beam_search(log_probs, max_length, end, beam_size, alpha, reward=lambda hypothesis: 0.0):
    """By score: `[(hypothesis, score), ...]`. Open hypotheses have the places that finished ones leave.

    `reward` of a hypothesis is added to its score.
    """
    beam, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        rows = log_probs([prefix for prefix, _ in beam])
        candidates = [
            ((*prefix, token), total + rows[i][token])
            for i, (prefix, total) in enumerate(beam)
            for token in range(rows.shape[1])
            if rows[i][token] > -np.inf
        ]
        candidates = sorted(candidates, key=lambda item: -item[1])[: 2 * beam_size]
        finished += [(h, total / penalty(length, alpha) + reward(h)) for h, total in candidates if h[-1] == end]
        finished = sorted(finished, key=lambda item: -item[1])[:beam_size]
        beam = [item for item in candidates if item[0][-1] != end][:beam_size]
    still_open = [(h, total / penalty(max_length, alpha) + reward(h)) for h, total in beam]
    return sorted((finished + still_open)[:beam_size], key=lambda item: -item[1])


def every_hypothesis(log_probs, max_length, end, tokens, alpha):
    """All that end, made of `tokens` (which leave out `end`): `[(hypothesis, score), ...]`, best first."""
    prefixes = [prefix for length in range(max_length) for prefix in itertools.product(tokens, repeat=length)]
    next_token = dict(zip(prefixes, log_probs(prefixes), strict=True))

    def log_prob(hypothesis):
        return sum(next_token[hypothesis[:i]][token] for i, token in enumerate(hypothesis))

    found = [(*prefix, end) for prefix in prefixes]
    return sorted(((h, log_prob(h) / penalty(len(h), alpha)) for h in found), key=lambda item: -item[1])


def check_same(tokens, scores, expected, tolerance=2e-5, end=END):
    """One sentence's `(K, T)` tokens and `(K,)` scores against a list of hypotheses and scores."""
    np.testing.assert_allclose(scores, [value for _, value in expected], rtol=tolerance, atol=tolerance)
    assert [ended_tokens(row, end) for row in tokens] == [hypothesis for hypothesis, _ in expected]
    for row, (hypothesis, _) in zip(tokens, expected, strict=True):
        assert not row[len(hypothesis) :].any()

"""Constraints, samples and scores of tokens over tables of logits, against slow searches in plain Python."""

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.decoding import Constraints, beam_search, greedy_search, sample_search
from tests.decoding.tables import (
    END,
    START,
    check_same,
    ended_tokens,
    log_softmax,
    naive_beam_search,
    penalty,
    random_tables,
    score,
    table_step,
)

LENGTH, ALPHA = 7, 0.6
PREFIX = np.array([[5, 3, 0], [4, 0, 0], [0, 0, 0]])
CASES = {
    "suppress": dict(suppress=[5, 2]),
    "min_length": dict(min_length=4),
    "unigrams": dict(no_repeat_ngram_size=1),
    "bigrams": dict(no_repeat_ngram_size=2),
    "trigrams": dict(no_repeat_ngram_size=3),
    "long n-grams": dict(no_repeat_ngram_size=LENGTH + 3),
    "penalty": dict(repetition_penalty=1.7),
    "reward": dict(repetition_penalty=0.6),
    "prefix": dict(prefix=PREFIX),
    "all": dict(suppress=[6], min_length=3, no_repeat_ngram_size=2, repetition_penalty=1.3, prefix=PREFIX),
}


def constrained(table, suppress=(), min_length=0, no_repeat_ngram_size=0, repetition_penalty=1.0, prefix=()):
    """The log-probability function of a table, with one rule after the other."""
    n = no_repeat_ngram_size

    def row(hypothesis):
        made = len(hypothesis)
        if made < len(prefix):
            return np.where(np.arange(len(table)) == prefix[made], 0.0, -np.inf)
        logits = table[hypothesis[-1] if hypothesis else START].astype("float64")
        for token in set(hypothesis):
            logits[token] *= 1 / repetition_penalty if logits[token] > 0 else repetition_penalty
        for i in range(made - n + 1) if n else ():
            if hypothesis[i : i + n - 1] == hypothesis[made - n + 1 :]:
                logits[hypothesis[i + n - 1]] = -np.inf
        logits[list(suppress)] = -np.inf
        if made < min_length:
            logits[END] = -np.inf
        if np.isneginf(logits).all():
            logits[END] = 0.0
        return log_softmax(logits)

    return lambda hypotheses: np.array([row(tuple(each)) for each in hypotheses])


def oracles(tables, constraints):
    """A log-probability function for each row of a batch."""
    prefixes = constraints.get("prefix", np.zeros((len(tables), 0), "int32"))
    others = {name: value for name, value in constraints.items() if name != "prefix"}
    for table, prefix in zip(tables, prefixes, strict=True):
        yield constrained(table, prefix=[int(token) for token in prefix if token], **others)


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_beam_search(name, jit_compile):
    tables = random_tables(3, vocabulary=9, seed=12)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def search(tables):
        step = table_step(tables)
        return beam_search(step, {}, 3, LENGTH, START, END, 4, ALPHA, constraints=Constraints(**CASES[name]))

    tokens, scores = (each.numpy() for each in search(tf.constant(tables)))
    for i, log_probs in enumerate(oracles(tables, CASES[name])):
        expected = naive_beam_search(log_probs, LENGTH, END, 4, ALPHA)
        check_same(tokens[i, : len(expected)], scores[i, : len(expected)], expected)
        assert (scores[i, len(expected) :] == -1e9).all()


@pytest.mark.parametrize("name", CASES)
def test_greedy_search(name):
    tables = random_tables(3, vocabulary=9, seed=3)
    found = greedy_search(
        table_step(tf.constant(tables)), {}, 3, LENGTH, START, END, ALPHA, constraints=Constraints(**CASES[name])
    )
    tokens, scores = (each.numpy() for each in found)
    for i, log_probs in enumerate(oracles(tables, CASES[name])):
        expected = ()
        while len(expected) < LENGTH and END not in expected:
            expected += (int(log_probs([expected])[0].argmax()),)
        assert ended_tokens(tokens[i]) == expected
        np.testing.assert_allclose(scores[i], score(log_probs, expected, ALPHA), rtol=1e-5)


def test_caches_that_are_reordered():
    tables = random_tables(3, vocabulary=9, seed=2)
    constraints = Constraints(**CASES["all"])
    args = (3, LENGTH, START, END, 4, ALPHA)
    expected = beam_search(table_step(tf.constant(tables)), {}, *args, constraints=constraints)
    step = table_step(tf.repeat(tf.constant(tables), 4, axis=0))
    found = beam_search(step, {}, *args, reorder=lambda cache, rows: cache, constraints=constraints)
    np.testing.assert_array_equal(found[0], expected[0])


def test_constraints_of_a_call_may_be_tensors():
    tables = random_tables(3, vocabulary=9, seed=4)

    @tf.function(autograph=False)
    def search(least, strength, prefix):
        constraints = Constraints(min_length=least, repetition_penalty=strength, prefix=prefix)
        return greedy_search(table_step(tf.constant(tables)), {}, 3, LENGTH, START, END, constraints=constraints)

    for least, strength in ((0, 1.0), (4, 2.0)):
        known = Constraints(min_length=least, repetition_penalty=strength, prefix=PREFIX)
        expected = greedy_search(table_step(tf.constant(tables)), {}, 3, LENGTH, START, END, constraints=known)
        found = search(tf.constant(least), tf.constant(strength), tf.constant(PREFIX))
        np.testing.assert_array_equal(found[0], expected[0])


# Coverage


def cover(tables, attention):
    """A step that also returns the attention of each last token, from a table `(B, V, n)`."""
    step = table_step(tf.constant(tables))

    def covering(tokens, *args):
        return *step(tokens, *args), tf.gather(attention, tokens, batch_dims=1)

    return covering


def coverage_reward(attention, mask, beta):
    """Wu et al. 2016, eq. 14, of a hypothesis: each token is written while the one before it is read."""

    def reward(hypothesis):
        read = attention[[START, *hypothesis[:-1]]].sum(0)
        return beta * np.log(np.minimum(read, 1)[mask]).sum()

    return reward


@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("beta", [0.2, 1.5])
def test_coverage_penalty(beta, reordered):
    random, k = np.random.default_rng(8), 4
    tables = random_tables(3, vocabulary=9, seed=12)
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])
    attention = np.where(mask[:, None], random.dirichlet(0.3 * np.ones(5), size=(3, 9)), 0).astype("float32")
    step = cover(tables, attention)
    kwargs = {}
    if reordered:
        step = cover(np.repeat(tables, k, axis=0), np.repeat(attention, k, axis=0))
        kwargs = {"reorder": lambda cache, rows: cache}
    found = beam_search(
        step, {}, 3, LENGTH, START, END, k, ALPHA, coverage_penalty=beta, source_mask=tf.constant(mask),
        return_token_scores=True, **kwargs
    )  # fmt: skip
    tokens, scores, token_scores = (each.numpy() for each in found)
    changed = False
    for i in range(3):
        log_probs, reward = constrained(tables[i]), coverage_reward(attention[i], mask[i], beta)
        expected = naive_beam_search(log_probs, LENGTH, END, k, ALPHA, reward)
        check_same(tokens[i], scores[i], expected)
        changed |= [h for h, _ in expected] != [h for h, _ in naive_beam_search(log_probs, LENGTH, END, k, ALPHA)]
        for hypothesis, row in zip(expected, token_scores[i], strict=True):
            ids = hypothesis[0]
            np.testing.assert_allclose(row[: len(ids)], log_probs_of(tables[i], ids), rtol=1e-4, atol=1e-5)
    assert changed


# A scored prefix, and rows of their own


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
def test_scored_prefixes_and_minimum_lengths_of_rows(search):
    """The prefix has the scores of the model, though its tokens are suppressed; other tokens keep the constraints."""
    tables = random_tables(3, vocabulary=9, seed=6)
    least = np.array([0, 6, 3])
    constraints = Constraints([5, 4], tf.constant(least), prefix=PREFIX, score_prefix=True)
    run = dict(greedy=greedy_search, beam=beam_search, sample=sample_search)[search]
    step = table_step(tf.constant(tables))
    kwargs = dict(constraints=constraints, return_token_scores=True)
    tokens, scores, token_scores = (each.numpy() for each in run(step, {}, 3, LENGTH, START, END, alpha=0, **kwargs))
    if search == "beam":
        np.testing.assert_allclose(token_scores.sum(-1), scores, rtol=1e-4)
        tokens, scores, token_scores = tokens[:, 0], scores[:, 0], token_scores[:, 0]
    for i, table in enumerate(tables):
        ids, size = ended_tokens(tokens[i]), np.count_nonzero(PREFIX[i])
        assert ids[:size] == tuple(PREFIX[i][:size]) and END not in ids[: least[i]]
        expected = log_probs_of(table, ids)
        for place in range(size, len(ids)):
            expected[place] = constrained(table, [5, 4], least[i])([ids[:place]])[0][ids[place]]
        np.testing.assert_allclose(token_scores[i, : len(ids)], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(scores[i], expected.sum(), rtol=1e-4)


# Scores of tokens


def log_probs_of(table, tokens):
    rows = constrained(table)([tokens[:i] for i in range(len(tokens))])
    return rows[range(len(tokens)), list(tokens)]


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
def test_token_scores(search):
    tables = random_tables(3, vocabulary=9, seed=5)
    step, args = table_step(tf.constant(tables)), (3, LENGTH, START, END)
    if search == "beam":
        found = beam_search(step, {}, *args, 4, ALPHA, return_token_scores=True)
    else:
        function = greedy_search if search == "greedy" else sample_search
        found = (each[:, None] for each in function(step, {}, *args, alpha=ALPHA, return_token_scores=True))
    tokens, scores, token_scores = (np.asarray(each) for each in found)
    for i, k in np.ndindex(scores.shape):
        hypothesis = ended_tokens(tokens[i, k])
        expected = log_probs_of(tables[i], hypothesis)
        np.testing.assert_allclose(token_scores[i, k, : len(hypothesis)], expected, atol=2e-5)
        assert not token_scores[i, k, len(hypothesis) :].any()
        np.testing.assert_allclose(scores[i, k], expected.sum() / penalty(len(hypothesis), ALPHA), rtol=1e-5)


def test_a_prefix_scores_nothing():
    tables = random_tables(3, vocabulary=9, seed=6)
    constraints = Constraints(prefix=PREFIX)
    step = table_step(tf.constant(tables))
    *_, found = beam_search(step, {}, 3, LENGTH, START, END, 2, constraints=constraints, return_token_scores=True)
    for row, prefix in zip(np.asarray(found), PREFIX, strict=True):
        assert not row[0, : np.count_nonzero(prefix)].any() and row[0, np.count_nonzero(prefix)] < 0


# Samples

DRAWS = 20_000
LOGITS = np.random.default_rng(0).normal(scale=1.5, size=9).astype("float32")


def drawn(**options):
    """Shares of the first tokens of many samples."""

    def step(tokens, cache, *rest):
        return tf.reshape(tf.tile(LOGITS, [DRAWS]), (DRAWS, 1, 9)), cache

    tokens, _ = sample_search(step, {}, DRAWS, 2, START, END, **options)
    return np.bincount(np.asarray(tokens)[:, 0], minlength=9) / DRAWS


def softmax(logits):
    return np.exp(log_softmax(logits))


def nucleus(share, probabilities):
    order = np.argsort(-probabilities)
    kept = order[: np.searchsorted(np.cumsum(probabilities[order]), share) + 1]
    return np.where(np.isin(np.arange(len(probabilities)), kept), probabilities, 0.0)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, softmax(LOGITS)),
        ({"temperature": 2.0}, softmax(LOGITS / 2)),
        ({"top_k": 3}, np.where(LOGITS >= np.sort(LOGITS)[-3], softmax(LOGITS), 0)),
        ({"top_k": 1}, np.eye(9)[LOGITS.argmax()]),
        ({"top_k": 100}, softmax(LOGITS)),
        ({"top_p": 0.7}, nucleus(0.7, softmax(LOGITS))),
        ({"top_p": 1.0}, softmax(LOGITS)),
        ({"top_k": 4, "top_p": 0.8}, nucleus(0.8, softmax(np.where(LOGITS >= np.sort(LOGITS)[-4], LOGITS, -np.inf)))),
        (
            {"constraints": Constraints(suppress=[int(LOGITS.argmax())])},
            softmax(np.where(LOGITS == LOGITS.max(), -np.inf, LOGITS)),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_frequencies_of_samples(options, expected):
    expected = expected / expected.sum()
    found = drawn(**options)
    assert not found[expected == 0].any()
    np.testing.assert_allclose(found, expected, atol=4 * np.sqrt(0.25 / DRAWS))


def test_samples_are_repeatable():
    step, args = table_step(tf.constant(random_tables(8, seed=7))), ({}, 8, LENGTH, START, END)
    one, again, other = (np.asarray(sample_search(step, *args, seed=seed)[0]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()

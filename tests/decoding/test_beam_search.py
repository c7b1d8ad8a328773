"""Greedy and beam search over tables of logits, against slow searches in plain Python."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_headattn.decoding import Constraints, beam_search, greedy_search, length_penalty
from tests.decoding.tables import (
    END,
    START,
    check_same,
    ended_tokens,
    every_hypothesis,
    log_softmax,
    naive_beam_search,
    penalty,
    random_tables,
    score,
    search_tables,
    table_log_probs,
    table_step,
)

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.5])


def compiled(beam_size, max_length, jit_compile=False):
    """A graph of beam search over tables, for any table and alpha."""

    @tf.function(jit_compile=jit_compile)
    def search(table, alpha):
        return beam_search(table_step(table), {}, table.shape[0], max_length, START, END, beam_size, alpha)

    return lambda table, alpha: [x.numpy() for x in search(tf.constant(table), tf.constant(alpha, tf.float32))]


# -------------------------------------------------------------------------------------------------- greedy


def greedy_tables(table, max_length, calls=None):
    step = table_step(tf.convert_to_tensor(table), calls)
    tokens, scores = greedy_search(step, {}, len(table), max_length, START, END)
    return tokens.numpy(), scores.numpy()


def test_greedy_search_takes_the_best_token_each_time():
    tables = random_tables(8, seed=1)
    tokens, scores = greedy_tables(tables, 6)
    lengths = set()
    for b, table in enumerate(tables):
        log_probs, expected = table_log_probs(table), ()
        while len(expected) < 6 and END not in expected:
            expected += (int(log_probs([expected])[0].argmax()),)
        assert ended_tokens(tokens[b]) == expected
        assert not tokens[b, len(expected) :].any()
        np.testing.assert_allclose(scores[b], score(log_probs, expected, 0.0), rtol=1e-5)
        lengths.add(len(expected))
    assert len(lengths) > 2  # some end early, some late


def test_greedy_search_ends_with_the_last_row():
    tables = random_tables(2, seed=2)
    tables[0, :, END] = 30.0
    calls = []
    tokens, scores = greedy_tables(tables[:1], 50, calls)
    assert calls == [0]
    assert ended_tokens(tokens[0]) == (END,)
    calls = []
    tables[1, :, END] = -30.0
    greedy_tables(tables, 7, calls)
    assert calls == list(range(7))


# ---------------------------------------------------------------------------------------------- exhaustive

# A beam, which is wide enough that nothing is ever dropped: three live tokens in a vocabulary of dead ones.
LIVE, MAX_LENGTH, BEAM = (END, 2, 3), 4, 12


def sparse_table(logits, vocabulary=2 * BEAM, dead=-1e4):
    """`(3, 3)` logits of the live tokens after START, 2 and 3 as a whole table."""
    table = np.full((vocabulary, vocabulary), dead, "float32")
    for row, after in enumerate((START, 2, 3)):
        table[after, list(LIVE)] = logits[row]
    return table


@quick
@given(st.data())
def test_finds_what_exhaustive_search_finds(data):
    """With ties too: the scores are the same, and each belongs to its hypothesis."""
    logits = data.draw(arrays(np.float32, (2, 3, 3), elements=st.integers(-3, 3) | st.floats(-12, 12, width=32)))
    alpha = data.draw(alphas)
    tables = np.stack([sparse_table(x) for x in logits])
    tokens, scores = exhaustive(tables, alpha)
    for b in range(2):
        log_probs = table_log_probs(tables[b])
        expected = every_hypothesis(log_probs, MAX_LENGTH, END, LIVE[1:], alpha)
        assert len(expected) == 15
        np.testing.assert_allclose(scores[b], [value for _, value in expected[:BEAM]], rtol=1e-4, atol=1e-4)
        found = [ended_tokens(row) for row in tokens[b]]
        assert len(set(found)) == BEAM
        for hypothesis, value in zip(found, scores[b], strict=True):
            assert hypothesis[-1] == END
            np.testing.assert_allclose(value, score(log_probs, hypothesis, alpha), rtol=1e-4, atol=1e-4)


exhaustive = compiled(BEAM, MAX_LENGTH)


# --------------------------------------------------------------------------------------------- naive search


STATES, FACTOR = 97, 13


def history_step(tables):
    """The next token depends on all tokens so far, which are read from the cache through the mask."""

    def step(tokens, cache, index, position, mask):
        width = tokens.shape[1]
        rows = tf.range(cache["written"].shape[1])
        new = tf.pad((position + 1) * FACTOR + tokens, [[0, 0], [index, len(rows) - index - width]])
        written = tf.where((rows >= index) & (rows < index + width), new, cache["written"])
        state = tf.reduce_sum(tf.where(mask, written[:, None], 0), axis=-1) % STATES
        return tf.gather(tables, state, batch_dims=1), {"written": written}

    return step


def history_log_probs(table):
    """The same for `naive_beam_search`, with nothing but the prefix to read."""
    log_probs = log_softmax(table)

    def rows(prefixes):
        read = [(START, *prefix) for prefix in prefixes]
        return log_probs[[sum((i + 1) * FACTOR + token for i, token in enumerate(p)) % STATES for p in read]]

    return rows


@tf.function
def search_histories(tables, alpha):
    cache = {"written": tf.zeros((len(tables), 7 * 3), tf.int32)}
    return beam_search(history_step(tables), cache, len(tables), 7, START, END, 3, alpha)


@quick
@given(st.integers(0, 2**31), st.sampled_from([0.3, 1.0, 3.0, 10.0]), alphas)
def test_same_as_the_naive_search(seed, scale, alpha):
    tables = np.random.default_rng(seed).normal(scale=scale, size=(2, STATES, 9)).astype("float32")
    tokens, scores = search_histories(tf.constant(tables), tf.constant(alpha, tf.float32))
    for table, sentence_tokens, sentence_scores in zip(tables, tokens.numpy(), scores.numpy(), strict=True):
        expected = naive_beam_search(history_log_probs(table), 7, END, 3, alpha)
        check_same(sentence_tokens, sentence_scores, expected, 1e-4)


# ---------------------------------------------------------------------------------------------- its results


def test_scores_fall_and_belong_to_their_hypotheses():
    tables = random_tables(6, seed=5)
    for alpha in (0.0, 0.6, 1.0):
        tokens, scores = search_tables(tables, 4, alpha, 7)
        for b in range(6):
            found = [ended_tokens(row) for row in tokens[b]]
            assert len(set(found)) == 4
            assert scores[b].tolist() == sorted(scores[b], reverse=True)
            for hypothesis, value in zip(found, scores[b], strict=True):
                expected = score(table_log_probs(tables[b]), hypothesis, alpha)
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def probabilities(rows, vocabulary=8):
    """Logits of a table given by its probabilities. What is not named is next to impossible, END most so."""
    table = np.full((1, vocabulary, vocabulary), -80.0, "float32")
    table[..., END] = -300.0
    for last, row in rows.items():
        for token, probability in row.items():
            table[0, last, token] = np.log(probability)
    return table


def test_finished_hypotheses_are_frozen():
    """The first ends at once; the other grows for as long as it may."""
    table = probabilities({START: {END: 0.6, 2: 0.4}, 2: {2: 0.5, END: 0.5}})
    for max_length in (2, 3, 6):
        tokens, scores = search_tables(table, 2, 1.0, max_length)
        assert tokens[0, 0].tolist() == [END] + [0] * (max_length - 1)
        np.testing.assert_allclose(scores[0, 0], np.log(0.6), rtol=1e-5)
        assert ended_tokens(tokens[0, 1]) == (2, END)
        np.testing.assert_allclose(scores[0, 1], np.log(0.2) / (7 / 6), rtol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_length_penalty_decides(beam_size):
    """Short and worth -0.69, or four tokens and worth -0.97: long wins from alpha 0.9 on.

    The short one fills a pool of one at once: the search goes on as the other may still win by its length.
    """
    table = probabilities({START: {END: 0.5, 2: 0.4, 3: 0.1}, 2: {3: 0.95, END: 0.05}, 3: {4: 1.0}, 4: {END: 1.0}})
    for alpha, best in ((0.0, (END,)), (0.6, (END,)), (1.2, (2, 3, 4, END))):
        tokens, scores = search_tables(table, beam_size, alpha, 6)
        assert ended_tokens(tokens[0, 0]) == best
    np.testing.assert_allclose(scores[0, 0], np.log(0.38) / 1.5**1.2, rtol=1e-5)


def test_length_penalty_equation():
    for length in (1, 7):
        for alpha in (0.0, 0.6, 1.0):
            np.testing.assert_allclose(length_penalty(length, alpha), penalty(length, alpha), rtol=1e-6)


def test_open_hypotheses_fill_the_places_left():
    """Their places are those of their scores; but where enough have ended, none is left for them."""
    table = probabilities({START: {2: 0.9, END: 0.1}, 2: {2: 1.0 - 1e-9}})
    tokens, scores = search_tables(table, 2, 0.0, 3)
    assert [ended_tokens(row) for row in tokens[0]] == [(2, 2, 2), (END,)]
    np.testing.assert_allclose(scores[0], np.log([0.9, 0.1]), rtol=1e-5)
    table = probabilities({START: {2: 0.9, END: 0.1}, 2: {2: 0.99, END: 0.01}})
    tokens, _ = search_tables(table, 2, 0.0, 3)
    assert [ended_tokens(row) for row in tokens[0]] == [(END,), (2, END)]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_finished_and_open_hypotheses_by_brute_force(alpha):
    """All hypotheses of three live tokens, where fewer end than there are places; the wide beam drops none."""
    logits = np.random.default_rng(4).normal(scale=2, size=(4, 3, 3)) - [2, 0, 0]
    tables = np.stack([sparse_table(x, dead=-np.inf) for x in logits])
    tables[:, [END, *range(4, 2 * BEAM)]] = 0.0  # never reached
    tokens, scores = search_tables(tables, BEAM, alpha, 3)
    mixed = False
    for b, table in enumerate(tables):
        log_probs = table_log_probs(table)
        ended = every_hypothesis(log_probs, 3, END, LIVE[1:], alpha)
        still_open = [(h, score(log_probs, h, alpha)) for h in itertools.product(LIVE[1:], repeat=3)]
        still_open = sorted(still_open, key=lambda item: -item[1])[: BEAM - len(ended)]
        expected = sorted(ended + still_open, key=lambda item: -item[1])
        assert len(ended) == 7 and len(expected) == BEAM
        check_same(tokens[b], scores[b], expected, 1e-4)
        is_open = [hypothesis[-1] != END for hypothesis, _ in expected]
        mixed = mixed or is_open != sorted(is_open)
    assert mixed  # an open one comes before one that ended


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_suppressed_tokens(beam_size, alpha):
    """As if their logits were minus infinity: probabilities of the others sum to 1."""
    tables = random_tables(3, 11, seed=11)
    tables[:, :, 5] += 6
    without = tables.copy()
    without[:, :, [0, 5]] = -np.inf
    for search in (greedy_search, beam_search):
        own = {} if search is greedy_search else {"beam_size": beam_size}
        found, expected = (
            search(table_step(tf.constant(each)), {}, 3, 6, START, END, alpha=alpha, **own, **suppress)
            for each, suppress in ((tables, {"constraints": Constraints(suppress=[5, 0])}), (without, {}))
        )
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
        assert not (np.asarray(found[0]) == 5).any()


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_fewer_hypotheses_than_places(alpha):
    """What a step function forbids with minus infinity is no hypothesis."""
    table = np.full((1, 8, 8), -np.inf, "float32")
    table[0, :, END] = 0.0
    table[0, START, 2] = -1.0
    tokens, scores = search_tables(table, 3, alpha, 5)
    first, second = -np.log1p(np.exp(-1)), -np.log1p(np.exp(1))
    assert tokens[0].tolist() == [[END, 0, 0, 0, 0], [2, END, 0, 0, 0], [0] * 5]
    np.testing.assert_allclose(scores[0], [first, second / penalty(2, alpha), -1e9], rtol=1e-5)


def test_beam_of_one():
    """Not greedy search: what ends on the way is kept."""
    table = probabilities({START: {2: 0.55, END: 0.45}, 2: {3: 0.6, END: 0.4}, 3: {END: 0.5, 4: 0.5}})
    tokens, _ = search_tables(table, 1, 0.0, 3)
    assert ended_tokens(tokens[0, 0]) == (END,)
    assert ended_tokens(greedy_tables(table, 2)[0][0]) == (2, 3)


# ----------------------------------------------------------------------------------- batches and early exit


def test_rows_are_independent():
    tables = random_tables(5, seed=6)
    tables[0, :, END] = -30.0
    tables[1, :, END] = 9.0
    tokens, scores = search_tables(tables, 3, 0.6, 6)
    for b in range(5):
        alone_tokens, alone_scores = search_tables(tables[b : b + 1], 3, 0.6, 6)
        np.testing.assert_array_equal(alone_tokens[0], tokens[b])
        np.testing.assert_allclose(alone_scores[0], scores[b], rtol=1e-6)


@pytest.mark.parametrize("beam_size, steps", [(1, 1), (2, 2)])
def test_ends_when_nothing_better_can_come(beam_size, steps):
    table = random_tables(1, seed=7)
    table[0, :, END] = 30.0
    calls = []
    search_tables(table, beam_size, 0.0, 50, calls)
    assert calls == list(range(steps))


def test_the_slowest_row_decides_how_long_it_takes():
    tables = random_tables(4, seed=8)
    tables[:, :, END] += np.array([-30.0, 1.0, 3.0, 6.0], "float32")[:, None]
    steps = []
    for b in range(4):
        calls = []
        search_tables(tables[b : b + 1], 3, 0.6, 20, calls)
        steps.append(len(calls))
    assert steps[0] == 20 and steps[1] > steps[2] > steps[3]
    calls = []
    search_tables(tables[1:], 3, 0.6, 20, calls)
    assert len(calls) == max(steps[1:])


def test_early_exit_of_a_graph():
    counter = tf.Variable(0)
    table = tf.constant(sparse_table(np.array([[9.0, 0, 0]] * 3), 8))[None]

    def step(tokens, cache, index, position, mask):
        counter.assign_add(1)
        return tf.gather(table, tokens, batch_dims=1), cache

    tf.function(lambda: beam_search(step, {}, 1, 30, START, END, 2, 0.0))()
    assert int(counter) == 2


# -------------------------------------------------------------------------------- eager, graph and compiled


def test_eager_equals_graph_equals_xla():
    tables = random_tables(3, 9, seed=9)
    expected = search_tables(tables, 3, 0.6, 6)
    for jit_compile in (False, True):
        tokens, scores = compiled(3, 6, jit_compile)(tables, 0.6)
        np.testing.assert_array_equal(tokens, expected[0])
        np.testing.assert_allclose(scores, expected[1], rtol=1e-5)


def test_greedy_graph_and_xla():
    tables = random_tables(3, 9, seed=9)
    expected = greedy_tables(tables, 6)
    for jit_compile in (False, True):

        @tf.function(jit_compile=jit_compile)
        def search(table):
            return greedy_search(table_step(table), {}, 3, 6, START, END)

        tokens, scores = search(tf.constant(tables))
        np.testing.assert_array_equal(tokens, expected[0])
        np.testing.assert_allclose(scores, expected[1], rtol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_forced_ends(beam_size):
    """The last token is the end, which costs nothing there: all hypotheses have ended, none with another score."""
    tables = random_tables(3, 9, seed=12)
    tables[:, :, END] -= 30
    step = table_step(tf.constant(tables))
    tokens, scores = greedy_search(step, {}, 3, 5, START, END, constraints=Constraints(force_end=True))
    longer, expected = greedy_search(step, {}, 3, 4, START, END)
    np.testing.assert_array_equal(tokens[:, :4], longer)
    np.testing.assert_array_equal(tokens[:, 4], [END] * 3)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    tokens, scores = beam_search(step, {}, 3, 5, START, END, beam_size, 0.0, constraints=Constraints(force_end=True))
    longer, expected = beam_search(step, {}, 3, 4, START, END, beam_size, 0.0)
    np.testing.assert_array_equal(tokens[:, :, :4], longer)
    np.testing.assert_array_equal(tokens[:, :, 4], np.full((3, beam_size), END))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_half_precision_logits():
    tables = random_tables(3, 9, seed=10)
    tables = tables.astype("float16")
    tokens, scores = search_tables(tables, 3, 0.6, 6)
    assert scores.dtype == "float32"
    expected = search_tables(tables.astype("float32"), 3, 0.6, 6)
    np.testing.assert_array_equal(tokens, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=1e-5)

"""Beam search against `official.nlp.modeling.ops.beam_search` of tf-models-official, from golden vectors.

Three things differ on purpose. Where nothing has ended, that library returns log probabilities as they are,
this one divides them by the length penalty too. It stops when the worst of what has ended cannot be beaten,
this one when the worst of a full pool cannot. And it leaves places empty, which open hypotheses fill here, among the
others by their scores.
"""

import numpy as np
import pytest

from tests.decoding.tables import (
    END,
    check_same,
    ended_tokens,
    penalty,
    score,
    search_tables,
    table_log_probs,
)

STEPS = 8
EMPTY = -1e6


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_same_hypotheses_and_scores(golden, beam_size, alpha):
    data = golden("beam_search.npz")
    name = f"tfm.beam{beam_size}.alpha{alpha}"
    tokens, scores = search_tables(data["table"], beam_size, alpha, STEPS)
    for b in range(3):
        compare(data["table"][b], tokens[b], scores[b], data[f"{name}.seq"][b], data[f"{name}.scores"][b], alpha)


@pytest.mark.parametrize("sentence", range(3))
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_single_sentences(golden, beam_size, alpha, sentence):
    data = golden("beam_search.npz")
    name = f"tfm.beam{beam_size}.alpha{alpha}.single{sentence}"
    tokens, scores = search_tables(data["table"][sentence : sentence + 1], beam_size, alpha, STEPS)
    table = data["table"][sentence]
    compare(table, tokens[0], scores[0], data[f"{name}.seq"][0], data[f"{name}.scores"][0], alpha)


def compare(table, tokens, scores, their_tokens, their_scores, alpha):
    has_ended = END in their_tokens
    if not has_ended:
        their_scores = their_scores / penalty(STEPS, alpha)
    count = (their_scores > EMPTY).sum()
    expected = [(ended_tokens(row[1:]), value) for row, value in zip(their_tokens[:count], their_scores, strict=False)]
    theirs = [place for place, row in enumerate(tokens) if END in row or not has_ended][:count]
    check_same(tokens[theirs], scores[theirs], expected)
    log_probs = table_log_probs(table)
    for row, value in zip(tokens, scores, strict=True):
        np.testing.assert_allclose(value, score(log_probs, ended_tokens(row), alpha), rtol=1e-5)
    assert scores.tolist() == sorted(scores, reverse=True)


def test_the_golden_vectors_have_an_empty_place(golden):
    """Else the end of `compare` would test nothing."""
    scores = golden("beam_search.npz")["tfm.beam4.alpha0.6.scores"]
    assert (scores[1] < EMPTY).any()

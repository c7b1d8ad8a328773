"""Options of the searcher with real Transformers: constraints, coverage, samples, scores."""

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.decoding import Searcher
from tests.decoding.tables import check_same, ended_tokens, naive_beam_search, score
from tests.decoding.test_searcher import END, START, STEPS, one_shot_log_probs, search, sources, usual
from tests.layers.harness import randomize
from tests.models.small import array, each_path, make


def test_constraints_reach_the_search():
    model, source = usual(), sources()
    plain = Searcher(model, 3, max_length=STEPS, start_id=START, end_id=END)(source)
    first = array(plain["tokens"])[:, 0]
    searcher = Searcher(model, 3, max_length=STEPS, start_id=START, end_id=END, min_length=STEPS - 1)
    assert (array(searcher(source)["tokens"])[:, :, : STEPS - 1] != END).all()
    prefix = np.array([[7, 9], [8, 0], [0, 0]])
    found = array(Searcher(model, 3, max_length=STEPS, start_id=START, end_id=END)(source, prefix=prefix)["tokens"])
    assert (found[0, :, :2] == [7, 9]).all() and (found[1, :, 0] == 8).all()
    np.testing.assert_array_equal(found[2, 0], first[2])


@pytest.mark.parametrize("beam_size", [1, 2])
def test_search_with_the_weights_of_another_model(beam_size):
    searcher, other = (Searcher(model, beam_size, max_length=STEPS) for model in (usual(), randomize(make(), 77)))
    other.build()
    weights = [(own, value.value) for own, value in zip(searcher.variables, other.variables, strict=True)]
    found, expected = searcher.search(sources(), weights=weights), other(sources())
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-5)


def coverage(model, source, beta):
    """Penalty of a hypothesis by the attention of the whole model, run once."""

    def reward(hypothesis):
        target = np.array([[START, *hypothesis[:-1]]])
        with layers.capture_intermediates() as found:
            model({"source": source[None], "target": target})
        maps = [array(each["weights"])[0] for path, each in found.items() if path.endswith("cross_attention")]
        maps = [each.reshape(-1, *each.shape[-2:]).mean(0) for each in maps]  # of heads, or of their pairs
        read = np.mean(maps, axis=0).sum(0)[source > 0]
        return beta * np.log(np.clip(read, 1e-30, 1)).sum()

    return reward


@each_path
def test_coverage_penalty(case):
    model, source = usual(case.name), sources(2)
    source[1, -2:] = 0
    found = search(model, source, coverage_penalty=0.5)
    for b in range(2):
        reward = coverage(model, source[b], 0.5)
        expected = naive_beam_search(one_shot_log_probs(model, source[b]), STEPS, END, 3, 0.6, reward)
        check_same(found["tokens"][b], found["scores"][b], expected, 1e-3, END)


@each_path
def test_samples_of_each_source(case):
    model, source = usual(case.name), sources()
    options = dict(max_length=STEPS, start_id=START, end_id=END, num_samples=4, temperature=1.5, seed=3)
    found = Searcher(model, return_token_scores=True, **options)(source)
    assert found["tokens"].shape == found["token_scores"].shape == (3, 4, STEPS)
    for i in range(3):
        log_probs = one_shot_log_probs(model, source[i])
        for k in range(4):
            hypothesis = ended_tokens(array(found["tokens"])[i, k], END)
            assert array(found["scores"])[i, k] == pytest.approx(score(log_probs, hypothesis, 0.6), rel=1e-3)


def test_scores_of_given_translations_are_those_of_the_search():
    model, source = usual(), sources()
    searcher = Searcher(model, 1, 0.0, STEPS, START, END, suppress=[5], return_token_scores=True)
    found = searcher(source)
    scored = searcher.score(source, found["tokens"][:, 0])
    np.testing.assert_allclose(array(scored["token_scores"]), array(found["token_scores"])[:, 0], atol=1e-4)
    np.testing.assert_allclose(array(scored["scores"]), array(found["scores"])[:, 0], rtol=1e-4)


def test_options_are_kept_in_files(tmp_path):
    options = dict(min_length=2, no_repeat_ngram_size=2, repetition_penalty=1.2, num_samples=2, top_k=4, top_p=0.9)
    options |= {"score_prefix": True}
    assert Searcher(usual(), suppress=np.array([5, 0])).get_config()["suppress"] == [5, 0]
    assert Searcher(usual(), coverage_penalty=0.3).get_config()["coverage_penalty"] == 0.3
    searcher = Searcher(usual(), max_length=STEPS, seed=5, temperature=0.7, return_token_scores=True, **options)
    config = Searcher.from_config(searcher.get_config()).get_config()
    assert config.items() >= options.items() and (config["seed"], config["temperature"]) == (5, 0.7)

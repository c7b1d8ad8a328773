"""Continued texts against a plain Python loop that runs the whole model on every prefix, and draws against shares."""

import functools

import keras
import numpy as np
import pytest

from keras_headattn._random import sample
from keras_headattn.decoding import Generator
from keras_headattn.models import CausalLM
from tests.decoding.tables import check_same, log_softmax, naive_beam_search
from tests.layers.harness import array, check_close, randomize
from tests.models.test_causal_lm import VOCABULARY, make

PROMPTS = np.array([[1, 2, 3, 4], [5, 6, 0, 0], [7, 8, 9, 0]], "int32")
LENGTHS = np.array([4, 2, 3])
END, STEPS = 3, 6
NEVER = -np.inf


@functools.cache
def language_model(name="multi_head", positions="learned"):
    return make(name, positions, max_length=50)


def generated(model, prompts=PROMPTS, lengths=LENGTHS, **options):
    results = Generator(model, **{"max_length": STEPS, **options})(prompts, lengths)
    return {name: keras.ops.convert_to_numpy(value) for name, value in results.items()}


def next_logits(model, text):
    return array(model(np.array([text], "int32")))[0, -1].astype("float64")


def constrained(logits, text, answer, end_ids, suppress=(), min_length=0, repetition_penalty=1.0, ngram=0):
    """Logits under the rules, one after the other."""
    logits = logits.copy()
    for token in {*text}:
        logits[token] *= repetition_penalty if logits[token] < 0 else 1 / repetition_penalty
    for i in range(len(text) - ngram + 1) if ngram else ():
        if text[i : i + ngram - 1] == text[len(text) - ngram + 1 :]:
            logits[text[i + ngram - 1]] = NEVER
    logits[[*suppress, *(end_ids if len(answer) < min_length else ())]] = NEVER
    return logits


def greedy(model, prompt, steps, end_ids=(), stop=(), **rules):
    """An answer and the log probabilities of its tokens."""
    text, answer, scores = [*prompt], [], []
    while len(answer) < steps:
        logits = next_logits(model, text)
        answer.append(int(constrained(logits, text, answer, end_ids, **rules).argmax()))
        scores.append(log_softmax(logits)[answer[-1]])
        text = [*prompt, *answer]
        if answer[-1] in end_ids or any(answer[-len(each) :] == list(each) for each in stop):
            break
    return answer, scores


ENDS = {"end_ids": (4, 9), "min_length": 3}
PENALTY = {"repetition_penalty": 1.4, "suppress": (4,)}
STOP = {"stop": ((9, 5), (5,)), "end_ids": (8,)}
RULES = [({}, {}), (ENDS, ENDS), (PENALTY, PENALTY), ({**STOP, "no_repeat_ngram_size": 2}, {**STOP, "ngram": 2})]


@pytest.mark.parametrize("options, rules", RULES, ids=["plain", "ends", "penalty", "ngrams"])
def test_greedy_search_is_the_loop_over_argmax(options, rules):
    """Of prompts of unequal length, all of which begin with one more token."""
    model = language_model()
    results = generated(model, temperature=0, start_ids=(2,), return_token_scores=True, max_length=8, **options)
    for row, (prompt, length) in enumerate(zip(PROMPTS, LENGTHS, strict=True)):
        answer, scores = greedy(model, [2, *prompt[:length]], 8, **rules)
        count = len(answer)
        assert results["lengths"][row] == [count]
        fill = rules.get("end_ids", (0,))[0]
        assert results["tokens"][row, 0].tolist() == answer + [fill] * (8 - count)
        check_close(results["token_scores"][row, 0], np.array(scores + [0.0] * (8 - count), "float32"), 1e-5)
        assert results["scores"][row, 0] == pytest.approx(sum(scores), rel=1e-5)


@pytest.mark.parametrize("options", [{"temperature": 0}, {"beam_size": 2}], ids=str)
def test_padding_of_all_prompts_needs_no_positions(options):
    """Of which the model has 50."""
    model = language_model()
    expected = generated(model, **options)
    for name, values in generated(model, np.pad(PROMPTS, [(0, 0), (0, 60)]), **options).items():
        np.testing.assert_array_equal(values, expected[name])


def test_ngrams_are_repeated_where_nothing_else_may_follow():
    """Without a token that ends the text."""
    model, count = language_model(), 2 * VOCABULARY
    for options in ({"temperature": 0}, {"beam_size": 2}):
        results = generated(model, PROMPTS[:1], LENGTHS[:1], max_length=count, no_repeat_ngram_size=1, **options)
        text = [*PROMPTS[0], *results["tokens"][0, 0]]
        assert len({*text[:VOCABULARY]}) == VOCABULARY and len({*text[VOCABULARY:]}) > 1
        assert np.isfinite(results["scores"]).all() and (results["scores"] > -1e5).all()


@pytest.mark.parametrize("name", ["evolving", "synthesizer", "real_former"])
def test_prompts_of_one_length_and_a_cache_that_grows(name):
    model, prompts = language_model(name), PROMPTS[:2, :1]
    results = generated(model, prompts, np.array([1, 1]), temperature=0, max_length=40)
    tokens = results["tokens"][:, 0]
    logits = array(model(np.concatenate([prompts, tokens[:, :-1]], axis=1)))
    np.testing.assert_array_equal(tokens, logits.argmax(axis=-1))


def test_answers_end_each_by_itself():
    """Else the tests above would say little."""
    lengths = generated(language_model(), temperature=0, start_ids=(2,), max_length=8, **RULES[3][0])["lengths"]
    assert lengths.min() < lengths.max()


# ------------------------------------------------------------------------------------------------------- beams


def log_probs(model, prompt, penalty=1.0):
    """Of any answers to one prompt, by running the whole model."""

    def of_prefixes(prefixes):
        texts = [[*prompt, *prefix] for prefix in prefixes]
        logits = [constrained(next_logits(model, text), text, (), (), repetition_penalty=penalty) for text in texts]
        return log_softmax(np.stack(logits))

    return of_prefixes


@pytest.mark.parametrize("name, lengths, penalty", [("multi_head", [4, 1, 3], 1.3), ("evolving", [4, 4, 4], 1.0)])
def test_same_as_the_naive_beam_search(name, lengths, penalty):
    """With a cache that beams share, and with one that is reordered."""
    model = language_model(name)
    options = dict(end_ids=(END,), beam_size=3, repetition_penalty=penalty)
    results = generated(model, PROMPTS, np.array(lengths), **options)
    for row, (prompt, length) in enumerate(zip(PROMPTS, lengths, strict=True)):
        expected = naive_beam_search(log_probs(model, prompt[:length], penalty), STEPS, END, 3, 0.0)
        after_end = np.arange(STEPS) >= results["lengths"][row][:, None]
        assert (results["tokens"][row][after_end] == END).all()
        tokens = np.where(after_end, 0, results["tokens"][row])
        check_same(tokens, results["scores"][row], expected, 1e-4, END)


def test_beams_of_prompts_of_one_token():
    model, prompts = language_model(), PROMPTS[:2, :1]
    results = generated(model, prompts, None, beam_size=2)
    for row in range(2):
        expected = naive_beam_search(log_probs(model, prompts[row]), STEPS, VOCABULARY, 2, 0.0)
        check_same(results["tokens"][row], results["scores"][row], expected, 1e-4, VOCABULARY)


# ---------------------------------------------------------------------------------------------------- sampling

DRAWS = 4000
# 99.9 % quantiles of the chi-squared distribution, by degrees of freedom from 1.
QUANTILES = (10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32)


def shares(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    """Probabilities after each filter, in the order of the likeliest tokens."""
    order = np.argsort(-logits)
    probabilities = np.exp(log_softmax(logits[order] / temperature))
    kept = np.arange(len(logits)) < (top_k or len(logits))
    probabilities = np.where(kept, probabilities, 0) / probabilities[kept].sum()
    if top_p is not None:
        kept = np.arange(len(logits)) <= (np.cumsum(probabilities) < top_p).sum()
    if min_p is not None:
        kept = kept & (probabilities >= min_p * probabilities[0])
    probabilities = np.where(kept, probabilities, 0)
    return dict(zip(order.tolist(), probabilities / probabilities.sum(), strict=True))


@pytest.mark.parametrize("options", [
    {}, {"temperature": 0.5}, {"temperature": 2.5}, {"top_k": 3}, {"top_p": 0.6}, {"top_p": 1e-6}, {"min_p": 0.3},
    {"temperature": 1.5, "top_k": 6, "top_p": 0.8, "min_p": 0.2},
], ids=str)  # fmt: skip
def test_frequencies(options):
    model = small_model()
    expected = shares(next_logits(model, [1, 2, 3]), **options)
    tokens = generated(model, np.array([[1, 2, 3]]), None, num_samples=DRAWS, max_length=1, **options)["tokens"]
    counts = np.bincount(tokens.ravel(), minlength=8)
    possible = [token for token, share in expected.items() if share]
    assert counts[possible].sum() == DRAWS
    if len(possible) > 1:
        wanted = DRAWS * np.array([expected[token] for token in possible])
        assert (np.square(counts[possible] - wanted) / wanted).sum() < QUANTILES[len(possible) - 2]


def test_impossible_tokens_are_never_drawn():
    """Not even with a share where sums of probabilities are rounded."""
    logits = np.random.default_rng(5).normal(size=256).astype("float32") * 2
    logits[127::128] = NEVER
    weights = np.exp(logits.astype("float64"))
    edge = weights[:128].sum() / weights.sum() * 2**23
    shares = ((np.round(edge) + np.arange(-9, 10)) / 2**23).astype("float32")
    drawn = keras.ops.convert_to_numpy(sample(np.tile(logits, (19, 1)), shares))
    assert np.isfinite(logits[drawn]).all()


@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"top_p": 0.5}, {"beam_size": 2}], ids=str)
def test_no_prompts(options):
    assert len(generated(small_model(), PROMPTS[:0], LENGTHS[:0], **options)["tokens"]) == 0


def test_a_temperature_near_zero_takes_the_likeliest():
    cold = generated(language_model(), temperature=1e-42)["tokens"]
    np.testing.assert_array_equal(cold, generated(language_model(), temperature=0)["tokens"])


@functools.cache
def small_model():
    return make(vocabulary_size=8, hidden_dim=8)


def test_filters_leave_different_tokens():
    """Else the test above would say little."""
    logits = next_logits(small_model(), [1, 2, 3])
    given = ({}, {"top_k": 3}, {"top_p": 0.6}, {"min_p": 0.3}, {"top_p": 1e-6})
    counts = [sum(share > 0 for share in shares(logits, **options).values()) for options in given]
    assert counts[0] == 8 and counts[-1] == 1 and len({*counts}) >= 4


def test_samples_are_those_of_repeated_prompts():
    """One prefill for all samples of a prompt; the seed of a call in place of the generator's."""
    model = language_model("talking_heads")
    one = generated(model, num_samples=3, top_k=5, end_ids=(1, 4))
    repeated = generated(model, np.repeat(PROMPTS, 3, axis=0), np.repeat(LENGTHS, 3), top_k=5, end_ids=(1, 4))
    for name, values in one.items():
        np.testing.assert_allclose(values.reshape(repeated[name].shape), repeated[name], rtol=1e-5)
    assert len({tuple(row) for row in one["tokens"].reshape(9, -1).tolist()}) > 3
    generator = Generator(model, STEPS, seed=5)
    expected = array(Generator(model, STEPS)(PROMPTS, LENGTHS, seed=5)["tokens"])
    np.testing.assert_array_equal(array(generator(PROMPTS, LENGTHS)["tokens"]), expected)
    assert not np.array_equal(array(generator(PROMPTS, LENGTHS, seed=6)["tokens"]), expected)


def test_a_stream_yields_what_a_call_returns():
    generator = Generator(language_model(), 20, end_ids=(1, 4), stop=((9,),), num_samples=2)
    expected = generator(PROMPTS, LENGTHS)
    steps = [*generator.stream(PROMPTS, LENGTHS)]
    assert len(steps) == array(expected["lengths"]).max() < 20
    np.testing.assert_array_equal(np.stack(steps, axis=-1), array(expected["tokens"])[..., : len(steps)])


def test_compiled_and_saved(tmp_path):
    """The same tokens from XLA, whose random numbers are others, in all three loops; the same draws from a file."""
    model = CausalLM(VOCABULARY, 1, 16, 8, num_heads=4, positions="learned", max_length=140, suppress=(2,), seed=1)
    model.build()
    randomize(model)
    options = dict(end_ids=(1,), repetition_penalty=1.1, return_token_scores=True)
    compiled = Generator(model, 130, temperature=0, **options)
    expected = {name: array(value) for name, value in compiled(PROMPTS[:, :2]).items()}
    assert not (expected["tokens"] == 2).any()
    compiled.compile(jit_compile=True)
    for name, value in compiled.predict(PROMPTS[:, :2], verbose=0).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
    generator = Generator(model, 4, top_k=4, num_samples=2, **options)
    expected = array(generator(PROMPTS, LENGTHS)["tokens"])
    generator.save(tmp_path / "generator.keras")
    loaded = keras.saving.load_model(tmp_path / "generator.keras")
    np.testing.assert_array_equal(array(loaded(PROMPTS, LENGTHS)["tokens"]), expected)

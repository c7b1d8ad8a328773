import math

import pytest

from keras_headattn.metrics import cider


def test_by_hand():
    # Words a and b are in one reference each, so both weigh log 2; no longer n-grams exist.
    # First pair: counts (2, 0) clipped to (1, 0), over norms 2 and 1; one word too many. Second pair: equal.
    expected = 10 / 4 * (math.exp(-1 / 72) * 1 / 2 + 1) / 2
    assert cider(["a a", "b"], ["a", "b"]).value == pytest.approx(expected)


def test_equals_the_public_implementation():
    hypotheses = [
        "A black dog runs across the grass .",
        "Two men are talking on the street .",
        "A child sits .",
    ]
    references = [
        "A black dog is running over the green grass .",
        "Two men talk on a street corner .",
        "A small child sits on a red swing .",
    ]
    # Measured with pycocoevalcap 1.2, on the words without punctuation.
    assert cider(hypotheses, references).value == pytest.approx(1.967144215262098, abs=1e-12)


def test_what_every_reference_has_weighs_nothing():
    references = ["the cat", "the dog", "the bird"]
    assert cider(["the", "the", "the"], references).value == 0
    assert cider(["cat", "dog", "bird"], references).value > 1


def test_repeating_a_word_does_not_pay():
    references = ["black cat", "brown dog"]
    assert cider(["cat cat cat", "dog dog dog"], references).value < cider(["cat", "dog"], references).value


def test_single_pair_scores_zero():
    assert cider(["a b c d"], ["a b c d"]).value == 0

import pytest

from keras_headattn.metrics import chrf


def test_by_hand():
    # Both are 2/3 for characters, 1/2 for bigrams, 0 for the one trigram; F-score of the means.
    assert chrf(["abx"], ["abc"]).value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_recall_weighs_more_than_precision():
    assert chrf(["abcdef"], ["abc"]).value > chrf(["abc"], ["abcdef"]).value


def test_several_references():
    assert chrf(["abc", "d"], [["x", "abc"], ["d"]]).value == pytest.approx(100)


def test_is_signed():
    score = chrf(["a"], ["a"])
    assert score.name == "chrF2" and "nc:6" in score.signature

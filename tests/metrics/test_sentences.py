import pytest

from keras_headattn.metrics import words
from keras_headattn.metrics._sentences import check_sentences


def test_words():
    assert words("Don't  stop_here: 3.5 Ärzte!") == ["don", "t", "stop", "here", "3", "5", "ärzte"]
    assert words(" ...") == []


def test_composed_and_decomposed_letters_are_the_same():
    assert words("u\u0308ber") == words("über") == ["über"]


def test_check_returns_lists():
    assert check_sentences(a=iter(["x"]), b=("y",)) == [["x"], ["y"]]


@pytest.mark.parametrize("value", [b"bytes", None, 3])
def test_sentences_that_are_not_strings(value):
    with pytest.raises(ValueError, match="`b` must hold str.*Received: "):
        check_sentences(a=["x", "y"], b=["y", value])

import pytest

from keras_headattn.metrics import ter, wer


@pytest.mark.parametrize(
    ("hypothesis", "edits"),
    [
        ("a b c d", 0),
        ("a x c d", 1),
        ("a b d", 1),
        ("a b b c d", 1),
        ("b c d x", 2),
        ("", 4),
        ("x x x x x x", 6),
    ],
)
def test_by_hand(hypothesis, edits):
    assert wer([hypothesis], ["a b c d"]).value == pytest.approx(100 * edits / 4)


def test_edits_are_summed_over_the_corpus_before_dividing():
    assert wer(["x", "a b c"], ["a", "a b c"]).value == pytest.approx(25)


def test_empty_reference_among_others_counts_insertions():
    assert wer(["a", "a b"], ["", "a b"]).value == pytest.approx(50)


def test_case_and_punctuation_count_and_spaces_do_not():
    assert wer(["A", "a."], ["a", "a"]).value == pytest.approx(100)
    assert wer(["  a   b "], ["a b"]).value == 0


def test_of_ter_a_shift_of_words_is_one_edit():
    assert ter(["c d a b"], ["a b c d"]).value == pytest.approx(25)
    assert wer(["c d a b"], ["a b c d"]).value == pytest.approx(100)
    assert ter(["A b x d"], ["a b c d"]).value == pytest.approx(25)
    assert ter(["A b x d"], ["a b c d"], lowercase=False).value == pytest.approx(50)


def test_ter_takes_the_closest_of_several_references():
    assert ter(["a b"], [["c d", "a b"]]).value == 0

import pytest

from recipes.graphs.metrics import entities_named, repeated_clauses


def test_entities_by_hand():
    """Of all graphs together, without regard to case and punctuation; parts of words are no names."""
    texts = ["anna's sister lives in St. Louis .", "nobody ."]
    score = entities_named(texts, [["Anna", "st . louis", "Ann", "sister Anna"], ["Bo"]])
    assert score.value == pytest.approx(100 * 2 / 5)
    assert score.name == "entities named" and "of:all" in score.signature


def test_entities_without_words_do_not_count():
    assert entities_named(["a b"], [["b", "-"]]).value == 100
    assert entities_named(["a b"], [[]]).value == 0


def test_repetition_by_hand():
    text = "we show , that it works well ; that it works well . It works . that it, works well !"
    # Three words or more: "that it works well" twice. 3.5 ends no clause.
    assert repeated_clauses([text]).value == pytest.approx(50)
    assert repeated_clauses(["it is 3.5 . it is 3.5 ."]).value == pytest.approx(50)
    assert repeated_clauses([text], min_words=2).value == pytest.approx(100 * 1 / 6)


def test_repetition_is_within_a_text():
    assert repeated_clauses(["a b c .", "a b c ."]).value == 0
    assert repeated_clauses(["", "."]).value == 0

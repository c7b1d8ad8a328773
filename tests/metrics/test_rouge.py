import pytest

from keras_headattn.metrics import rouge_l, rouge_n


def test_by_hand():
    # Longest common subsequence "a c e": precision 3/4, recall 3/5.
    score = rouge_l(["a c x e"], ["a b c d e"])
    assert score.value == pytest.approx(100 * 2 * 3 / 4 * 3 / 5 / (3 / 4 + 3 / 5))


def test_is_the_mean_over_sentences():
    assert rouge_l(["a", "b"], ["a", "c"]).value == pytest.approx(50)


def test_umlauts_are_letters():
    """With rouge-score's own tokenizer these would be equal."""
    assert rouge_l(["über öde"], ["ber de"]).value == 0
    assert rouge_l(["ä"], ["ä"]).value == pytest.approx(100)


def test_signature_says_which_words():
    assert "tok:unicode-words" in rouge_l(["a"], ["a"]).signature


def test_ngrams_by_hand():
    """Of "a b a c" and "a b d": two words of four and of three; one pair of three and of two."""
    assert rouge_n(["a b a c"], ["a b d"]).value == pytest.approx(100 * 2 * 2 / 4 * 2 / 3 / (2 / 4 + 2 / 3))
    score = rouge_n(["a b a c"], ["a b d"], n=2)
    assert score.value == pytest.approx(100 * 2 * 1 / 3 * 1 / 2 / (1 / 3 + 1 / 2)) and score.name == "ROUGE-2"
    assert rouge_n(["a"], ["a"], n=2).value == 0


def test_the_best_of_several_references_counts():
    score = rouge_l(["a b", "c"], [["x y", "a b z"], ["c"]])
    assert score.value == pytest.approx((rouge_l(["a b"], ["a b z"]).value + 100) / 2)


def test_logs_nothing(caplog, capsys):
    rouge_l(["a"], ["a"])
    assert not caplog.records and not capsys.readouterr().err

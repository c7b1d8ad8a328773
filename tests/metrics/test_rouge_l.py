import pytest

from keras_headattn.metrics import rouge_l


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


def test_logs_nothing(caplog, capsys):
    rouge_l(["a"], ["a"])
    assert not caplog.records and not capsys.readouterr().err

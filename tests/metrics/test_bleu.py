import math

import pytest

from keras_headattn.metrics import bleu, tokenized_bleu


def test_by_hand():
    # n-grams of orders 1 to 4 that match: 5 of 6, 4 of 5, 3 of 4, 2 of 3; no brevity penalty.
    score = bleu(["a b c d e x"], ["a b c d e f"])
    assert score.value == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)


def test_brevity_penalty_by_hand():
    assert bleu(["a b c d e"], ["a b c d e f"]).value == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_case_counts_unless_lowercased():
    hypotheses, references = ["A DOG RUNS FAST"], ["a dog runs fast"]
    assert bleu(hypotheses, references).value < 1
    score = bleu(hypotheses, references, lowercase=True)
    assert score.value == pytest.approx(100)
    assert "case:lc" in score.signature


def test_tokenizer_is_used_and_signed():
    hypotheses, references = ["a dog runs fast ."], ["a dog runs fast."]
    assert bleu(hypotheses, references).value == pytest.approx(100)
    score = bleu(hypotheses, references, tokenize="none")
    assert score.value < 100
    assert "tok:none" in score.signature


def test_shorter_ngrams_by_hand():
    hypotheses, references = ["a b c d e x"], ["a b c d e f"]
    for order, expected in ((1, 5 / 6), (2, (5 / 6 * 4 / 5) ** 0.5), (3, (5 / 6 * 4 / 5 * 3 / 4) ** (1 / 3))):
        score = bleu(hypotheses, references, max_ngram_order=order)
        assert score.value == pytest.approx(100 * expected) and score.name == f"BLEU-{order}"
    assert bleu(hypotheses, references).name == "BLEU"


def test_several_references():
    """An n-gram counts where any reference has it; the length is that of the nearest."""
    hypotheses, references = ["a b c d e x", "k l m n"], [["a b c d e f", "z x", "q r"], ["k l m n"]]
    score = bleu(hypotheses, references)
    assert score.value == pytest.approx(100 * (10 / 10 * 7 / 8 * 5 / 6 * 3 / 4) ** 0.25)
    assert "nrefs:var" in score.signature


def test_tokenized_text_is_not_warned_about(caplog):
    lines = ["a dog runs ."] * 200
    bleu(lines, lines, tokenize="none")
    tokenized_bleu(lines, lines)
    assert not caplog.records


def test_tokenized_bleu_lowers_normalises_and_tokenizes():
    score = tokenized_bleu(["“Der Hund”, sagt sie, läuft."], ['" der hund " , sagt sie , läuft .'], language="de")
    assert score.value == pytest.approx(100)
    assert "case:lc" in score.signature and "tok:none" in score.signature and "moses:norm-tok-de" in score.signature


def test_split_compounds_are_several_words():
    """As the scripts of Vaswani et al. 2017 have it, with case."""
    how = dict(language="de", lowercase=False, split_compounds=True)
    hypotheses, references = ["Der Vor-Ort-Termin ist a-b-c ."], ["Der Vor-Ort-Plan ist a-b-c ."]
    split = "Der Vor ##AT##-##AT## Ort ##AT##-##AT## {} ist a ##AT##-##AT## b-c ."
    score = tokenized_bleu(hypotheses, references, **how)
    assert score.name == "compound-split BLEU" and "case:mixed" in score.signature
    assert score.value == bleu([split.format("Termin")], [split.format("Plan")], tokenize="none").value
    assert tokenized_bleu(hypotheses, [references[0].lower()], **how).value < score.value


def test_tokenized_bleu_counts_punctuation_as_words():
    # 4 of 5 tokens, 3 of 4, 2 of 3, 1 of 2.
    score = tokenized_bleu(["a dog runs fast!"], ["a dog runs fast."])
    assert score.value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)

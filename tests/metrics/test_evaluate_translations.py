import functools

import pytest

from keras_headattn.metrics import Score, bleu, evaluate_translations, meteor, wer

HYPOTHESES, REFERENCES = ["a dog runs fast", "a cat sat"], ["a dog runs fast", "the cat sat"]


def test_default_metrics():
    scores = evaluate_translations(HYPOTHESES, REFERENCES)
    assert list(scores) == ["BLEU", "chrF2", "WER", "ROUGE-L", "CIDEr-D"]
    assert scores["BLEU"] == bleu(HYPOTHESES, REFERENCES)


def test_own_metrics_and_partial_ones():
    def length(hypotheses, references):
        return Score("length", float(sum(map(len, hypotheses))), "of:characters")

    scores = evaluate_translations(HYPOTHESES, REFERENCES, [length, functools.partial(meteor, language="cs")])
    assert scores["length"].value == 24
    assert "stem:no" in scores["METEOR"].signature


def test_generators_are_read_once():
    scores = evaluate_translations(iter(HYPOTHESES), iter(REFERENCES), metrics=[bleu, wer])
    assert scores["WER"].value == pytest.approx(100 / 7)


def test_several_references():
    references = [[REFERENCES[0], "x"], [REFERENCES[1]]]
    scores = evaluate_translations(HYPOTHESES, references, [bleu, meteor])
    assert scores["BLEU"] == bleu(HYPOTHESES, references) and "METEOR" in scores


def test_two_scores_of_one_name():
    with pytest.raises(ValueError, match="Give each metric once. Received: BLEU.*tok:13a.*BLEU.*tok:none"):
        evaluate_translations(HYPOTHESES, REFERENCES, [bleu, functools.partial(bleu, tokenize="none")])


def test_unequal_counts():
    with pytest.raises(ValueError, match="Received: 1 hypotheses, 2 references"):
        evaluate_translations(HYPOTHESES[:1], REFERENCES)

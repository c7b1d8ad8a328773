import functools

from keras_headattn.metrics import Score, bleu, meteor
from recipes.engine.generation import score_texts

HYPOTHESES, REFERENCES = ["a dog runs fast", "a cat sat"], ["a dog runs fast", "the cat sat"]


def test_own_metrics_and_partial_ones():
    def length(hypotheses, references):
        return Score("length", float(sum(map(len, hypotheses))), "of:characters")

    scores = score_texts(HYPOTHESES, REFERENCES, [length, functools.partial(meteor, language="cs")])
    assert scores["length"].value == 24
    assert "stem:no" in scores["METEOR"].signature


def test_several_references():
    references = [[REFERENCES[0], "x"], [REFERENCES[1]]]
    scores = score_texts(HYPOTHESES, references, [bleu, meteor])
    assert scores["BLEU"] == bleu(HYPOTHESES, references) and "METEOR" in scores

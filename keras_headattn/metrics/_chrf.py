from collections.abc import Sequence

from keras_headattn._optional import optional_import
from keras_headattn.metrics._bleu import as_streams, by_sentence
from keras_headattn.metrics._score import Score
from keras_headattn.metrics._sentences import check_references


def chrf(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> Score:
    """Computes corpus chrF2, from 0 to 100, with sacrebleu: F-score of character 6-grams that weighs recall double.

    Source: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".

    Args:
        hypotheses, references: see `bleu`, also for errors.

    >>> round(chrf(["the cat"], ["the cat"]).value)
    100
    """
    hypotheses, references = check_references(hypotheses, references)
    metric = optional_import("sacrebleu.metrics", "metrics").CHRF()
    score = metric.corpus_score(hypotheses, as_streams(references))
    return Score(score.name, score.score, metric.get_signature().format(), by_sentence(metric, hypotheses, references))

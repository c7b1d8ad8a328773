import math
from collections import Counter
from collections.abc import Sequence

from keras_headattn.metrics._score import Score
from keras_headattn.metrics._sentences import check_sentences, words

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0


def cider(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Computes CIDEr-D, from 0 to 10: agreement in n-grams, in which rare ones weigh more.

    With the vector `g(s)` of the count of each n-gram in `s` times `log(N / N_g)`, where `N_g` of `N` references have
    it,

        CIDEr-D = 10 / 4 sum_{n = 1..4} exp(-(|h| - |r|)^2 / (2 * 6^2))
                  min(g(h), g(r)) . g(r) / (||g(h)|| ||g(r)||),

    averaged over hypotheses `h` and their references `r`, as in COCO and nlg-eval. Words are those of `words`,
    unstemmed. N-grams in every reference weigh nothing; a corpus of one pair scores 0.

    Source: Vedantam et al. 2015, "CIDEr: consensus-based image description evaluation".

    Args:
        hypotheses, references: see `bleu`, also for errors; a single reference for each hypothesis.

    >>> sentences = ["two black dogs run fast", "a man rides his bike"]
    >>> round(cider(sentences, sentences).value, 6)
    10.0
    """
    hypotheses, references = check_sentences(hypotheses=hypotheses, references=references)
    hypotheses, references = [words(text) for text in hypotheses], [words(text) for text in references]
    scores = [0.0] * len(references)
    for order in ORDERS:
        counts = [_ngrams(reference, order) for reference in references]
        frequency = Counter(ngram for count in counts for ngram in count)
        for index, (hypothesis, reference, count) in enumerate(zip(hypotheses, references, counts, strict=True)):
            penalty = math.exp(-((len(hypothesis) - len(reference)) ** 2) / (2 * SIGMA**2))
            hypothesis = _weighted(_ngrams(hypothesis, order), frequency, len(references))
            cosine = _clipped_cosine(hypothesis, _weighted(count, frequency, len(references)))
            scores[index] += 10 * penalty * cosine / len(ORDERS)
    signature = "n:4|sigma:6|idf:references|case:lc|tok:unicode-words|stem:no"
    return Score("CIDEr-D", sum(scores) / len(scores), signature, tuple(scores))


def _ngrams(tokens, order):
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def _weighted(counts, frequency, total):
    return {ngram: count * math.log(total / max(1, frequency[ngram])) for ngram, count in counts.items()}


def _clipped_cosine(hypothesis, reference):
    norm = math.hypot(*hypothesis.values()) * math.hypot(*reference.values())
    if norm == 0:
        return 0.0
    shared = [ngram for ngram in hypothesis if ngram in reference]
    return sum(min(hypothesis[ngram], reference[ngram]) * reference[ngram] for ngram in shared) / norm

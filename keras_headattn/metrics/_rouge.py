import types
from collections.abc import Sequence

from keras_headattn._optional import optional_import
from keras_headattn._validation import check_positive
from keras_headattn.metrics._score import Score, mean_score, package_version
from keras_headattn.metrics._sentences import check_references, words


def rouge_l(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> Score:
    """Computes ROUGE-L in percent with rouge-score: F1 of longest common word subsequences, averaged over sentences.

    Words are those of `words`, as rouge-score's own tokenizer drops letters outside a to z. COCO's caption evaluation
    differs: its beta is 1.2. A sentence without words scores 0.

    Source: Lin 2004, "ROUGE: a package for automatic evaluation of summaries".

    Args:
        hypotheses, references: see `bleu`, also for errors. The best of several references counts.

    >>> rouge_l(["the black cat"], ["the big black cat is here"]).value
    66.66666666666666
    """
    return _rouge("L", hypotheses, references)


def rouge_n(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], n: int = 1) -> Score:
    """Computes ROUGE-N in percent with rouge-score: F1 of n-grams of `words`, averaged over sentences.

    Source: Lin 2004, "ROUGE: a package for automatic evaluation of summaries".

    Args:
        hypotheses, references: see `bleu`, also for errors. The best of several references counts.
        n: length of the n-grams. Shorter sentences score 0.

    >>> round(rouge_n(["the black cat"], ["the big black cat is here"], n=2).value, 2)
    28.57
    """
    return _rouge(check_positive("n", n), hypotheses, references)


def _rouge(kind, hypotheses, references):
    hypotheses, references = check_references(hypotheses, references)
    name, tokenizer = f"rouge{kind}", types.SimpleNamespace(tokenize=words)
    scorer = optional_import("rouge_score.rouge_scorer", "metrics").RougeScorer([name], tokenizer=tokenizer)
    scores = [scorer.score_multi(*pair)[name].fmeasure for pair in zip(references, hypotheses, strict=True)]
    signature = f"f:1|case:lc|tok:unicode-words|stem:no|{package_version('rouge_score')}"
    return mean_score(f"ROUGE-{kind}", scores, signature)

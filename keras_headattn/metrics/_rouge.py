import types
from collections.abc import Sequence

from headattn_io.optional import optional_import
from keras_headattn._validation import check_positive
from keras_headattn.metrics._score import Score, package_version
from keras_headattn.metrics._sentences import check_references, words


def rouge_l(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> Score:
    """ROUGE-L by rouge-score: F1 of the longest common subsequence of words, averaged over sentences.

    Words are those of `words`, as rouge-score's own tokenizer drops every letter outside a to z. F1 weighs
    precision and recall alike; COCO's caption evaluation has a beta of 1.2: another figure.

    Source: Lin 2004, "ROUGE: a package for automatic evaluation of summaries".

    Args:
        hypotheses: list of str.
        references: list of str, one for each hypothesis; or of lists of str, of which the best counts.

    Returns:
        `Score`, in percent. A sentence without words scores 0.

    Raises:
        ValueError: if there are no sentences, or not as many hypotheses as references.
        ImportError: if rouge-score is missing.

    >>> rouge_l(["the black cat"], ["the big black cat is here"]).value
    66.66666666666666
    """
    return _rouge("L", hypotheses, references)


def rouge_n(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], n: int = 1) -> Score:
    """ROUGE-N by rouge-score: F1 of the n-grams of words, averaged over sentences.

    Words are those of `words`, as in `rouge_l`.

    Source: Lin 2004, "ROUGE: a package for automatic evaluation of summaries".

    Args:
        hypotheses: list of str.
        references: list of str, one for each hypothesis; or of lists of str, of which the best counts.
        n: int, words of an n-gram. Default 1.

    Returns:
        `Score`, in percent. A sentence with fewer than `n` words scores 0.

    Raises:
        ValueError: if there are no sentences, not as many hypotheses as references, or for an `n` below 1.
        ImportError: if rouge-score is missing.

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
    return Score(f"ROUGE-{kind}", 100 * sum(scores) / len(scores), signature)

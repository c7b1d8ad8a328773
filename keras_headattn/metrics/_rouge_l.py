import types

from keras_headattn._optional import optional_import
from keras_headattn.metrics._score import Score, package_version
from keras_headattn.metrics._sentences import check_sentences, words


def rouge_l(hypotheses, references):
    """ROUGE-L by rouge-score: F1 of the longest common subsequence of words, averaged over sentences.

    Words are those of `words`, as rouge-score's own tokenizer drops every letter outside a to z. F1 weighs
    precision and recall alike; COCO's caption evaluation has a beta of 1.2: another figure.

    Source: Lin 2004, "ROUGE: a package for automatic evaluation of summaries".

    Args:
        hypotheses: list of str.
        references: list of str, one for each hypothesis.

    Returns:
        `Score`, in percent. A sentence without words scores 0.

    Raises:
        ValueError: if there are no sentences, or not as many hypotheses as references.
        ImportError: if rouge-score is missing.

    >>> rouge_l(["the black cat"], ["the big black cat is here"]).value
    66.66666666666666
    """
    hypotheses, references = check_sentences(hypotheses=hypotheses, references=references)
    tokenizer = types.SimpleNamespace(tokenize=words)
    scorer = optional_import("rouge_score.rouge_scorer", "metrics").RougeScorer(["rougeL"], tokenizer=tokenizer)
    scores = [scorer.score(*pair)["rougeL"].fmeasure for pair in zip(references, hypotheses, strict=True)]
    signature = f"f:1|case:lc|tok:unicode-words|stem:no|{package_version('rouge_score')}"
    return Score("ROUGE-L", 100 * sum(scores) / len(scores), signature)

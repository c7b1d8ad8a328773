from collections.abc import Sequence

from keras_headattn._optional import optional_import
from keras_headattn.metrics._score import Score, package_version
from keras_headattn.metrics._sentences import check_sentences


def wer(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Computes the word error rate of the corpus in percent with jiwer: word edits per reference word.

    Words are separated by spaces: case and punctuation count. Lower is better; it may exceed 100.

    Args:
        hypotheses, references: see `bleu`, also for errors; a single reference for each hypothesis, not all empty.

    >>> wer(["the cat sat down"], ["the cat is down"]).value
    25.0
    """
    hypotheses, references = check_sentences(hypotheses=hypotheses, references=references)
    if not any(reference.split() for reference in references):
        raise ValueError(f"`references` must have at least one word. Received: {len(references)} empty references")
    rate = optional_import("jiwer", "metrics").wer
    single = tuple(
        100 * rate(reference, hypothesis) if reference.split() else 100.0 * len(hypothesis.split())
        for reference, hypothesis in zip(references, hypotheses, strict=True)
    )
    signature = f"case:mixed|tok:spaces|{package_version('jiwer')}"
    return Score("WER", 100 * rate(references, hypotheses), signature, single)

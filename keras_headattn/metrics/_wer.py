from collections.abc import Sequence

from headattn_io.optional import optional_import
from keras_headattn.metrics._score import Score, package_version
from keras_headattn.metrics._sentences import check_sentences


def wer(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Word error rate of the corpus by jiwer: word edits per word of the references.

    Words are what spaces separate, so case and punctuation count. Lower is better, and more than 100 is
    possible.

    Args:
        hypotheses: list of str.
        references: list of str, one for each hypothesis.

    Returns:
        `Score`, in percent.

    Raises:
        ValueError: if there are no sentences, not as many hypotheses as references, or no word in any
            reference.
        ImportError: if jiwer is missing.

    >>> wer(["the cat sat down"], ["the cat is down"]).value
    25.0
    """
    hypotheses, references = check_sentences(hypotheses=hypotheses, references=references)
    if not any(reference.split() for reference in references):
        raise ValueError(f"No reference has words. Received: {len(references)} empty references")
    value = 100 * optional_import("jiwer", "metrics").wer(references, hypotheses)
    return Score("WER", value, f"case:mixed|tok:spaces|{package_version('jiwer')}")

from collections.abc import Sequence

from keras_headattn._optional import optional_import
from keras_headattn.metrics._bleu import as_streams, by_sentence
from keras_headattn.metrics._score import Score
from keras_headattn.metrics._sentences import check_references


def ter(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], lowercase: bool = True
) -> Score:
    """Computes the translation edit rate of the corpus in percent with sacrebleu: edits per reference word.

    Edits are those of `wer`, and shifts of several words at once. Words are separated by spaces. Lower is better; it
    may exceed 100.

    Source: Snover et al. 2006, "A study of translation edit rate with targeted human annotation".

    Args:
        hypotheses, references: see `bleu`, also for errors; not all references empty.
        lowercase: False to count differences in case. Default True, as in sacrebleu.

    >>> ter(["sat down the cat"], ["the cat sat down"]).value  # one shift; four edits of `wer`
    25.0
    """
    hypotheses, references = check_references(hypotheses, references)
    if not any(reference.split() for several in references for reference in several):
        raise ValueError(f"`references` must have at least one word. Received: {len(references)} empty references")
    metric = optional_import("sacrebleu.metrics", "metrics").TER(case_sensitive=not lowercase)
    score = metric.corpus_score(hypotheses, as_streams(references))
    return Score(score.name, score.score, metric.get_signature().format(), by_sentence(metric, hypotheses, references))

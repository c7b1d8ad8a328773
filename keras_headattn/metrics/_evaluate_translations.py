from collections.abc import Callable, Iterable, Sequence

from keras_headattn.metrics._bleu import bleu
from keras_headattn.metrics._chrf import chrf
from keras_headattn.metrics._cider import cider
from keras_headattn.metrics._rouge import rouge_l
from keras_headattn.metrics._score import Score
from keras_headattn.metrics._sentences import check_references
from keras_headattn.metrics._wer import wer


def evaluate_translations(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    metrics: Iterable[Callable[..., Score]] = (bleu, chrf, wer, rouge_l, cider),
) -> dict[str, Score]:
    """Scores translations with several metrics.

    Args:
        hypotheses: list of str, the translations as plain text.
        references: list of str, one for each hypothesis; or of lists of str, where all metrics take several.
        metrics: functions from `(hypotheses, references)` to a `Score`. Default: those of this package that
            need to know neither the language nor an embedding. Give the others their arguments with
            `functools.partial`: `partial(meteor, language="de")`.

    Returns:
        Dict from the name of a metric to its `Score`.

    Raises:
        ValueError: if there are no sentences, not as many hypotheses as references, or two scores have one
            name.
        ImportError: if the package of a metric is missing.

    >>> scores = evaluate_translations(["a dog runs fast"], ["a dog runs fast"], metrics=[bleu, wer])
    >>> {name: round(score.value) for name, score in scores.items()}
    {'BLEU': 100, 'WER': 0}
    """
    hypotheses, references = check_references(hypotheses, references)
    if all(len(several) == 1 for several in references):
        references = [reference for [reference] in references]
    scores = {}
    for metric in metrics:
        score = metric(hypotheses, references)
        if score.name in scores:
            raise ValueError(f"Give each metric once. Received: {scores[score.name]} and {score}")
        scores[score.name] = score
    return scores

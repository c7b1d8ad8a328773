"""The result of every translation metric."""

import dataclasses
import importlib.metadata


@dataclasses.dataclass(frozen=True)
class Score:
    """Score with the settings that make it comparable.

    Args:
        name, value: name of the metric, and its value.
        signature: settings in sacrebleu's form: `"key:value|key:value"`.
        by_sentence: the scores of single sentences, where the metric has them. Their mean is the value, but for BLEU,
            chrF and WER. Default `()`.

    >>> print(Score("BLEU", 27.305, "case:mixed|tok:13a"))
    BLEU|case:mixed|tok:13a = 27.30
    """

    name: str
    value: float
    signature: str
    by_sentence: tuple[float, ...] = dataclasses.field(default=(), repr=False, compare=False)

    def __str__(self):
        return f"{self.name}|{self.signature} = {self.value:.2f}"


def mean_score(name, scores, signature):
    """Returns the `Score` of the mean of scores of sentences from 0 to 1, in percent."""
    scores = tuple(100 * float(score) for score in scores)
    return Score(name, sum(scores) / len(scores), signature, scores)


def package_version(package):
    """Returns the last part of a signature, such as `"version:nltk-3.9.1"`."""
    return f"version:{package}-{importlib.metadata.version(package)}"

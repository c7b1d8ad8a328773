"""Leaves sentence pairs out of training data, and says which and why."""

from dataclasses import dataclass, field

from recipes.data.parallel import ParallelCorpus


def count_words(sentence):
    """Number of tokens of a sentence, split at white space."""
    return len(sentence.split())


@dataclass(frozen=True)
class CleaningReport:
    """What `clean` dropped; `print` it.

    Args:
        name: str, the corpus.
        total: int, pairs before.
        empty_source: list of int, line numbers (from 1) that were empty on the source side.
        empty_target: list of int, the same for the target side. A line empty on both sides is in both lists.
        too_long: list of int, line numbers of pairs with a side longer than `max_length`.
        out_of_ratio: list of int, line numbers of pairs whose sides differ in length by more than
            `max_ratio`.
    """

    name: str
    total: int
    empty_source: list = field(default_factory=list)
    empty_target: list = field(default_factory=list)
    too_long: list = field(default_factory=list)
    out_of_ratio: list = field(default_factory=list)

    @property
    def dropped(self):
        """int, pairs left out."""
        return len({*self.empty_source, *self.empty_target, *self.too_long, *self.out_of_ratio})

    def __str__(self):
        lines = [f"{self.name}: kept {self.total - self.dropped:,} of {self.total:,} pairs"]
        for reason in ("empty_source", "empty_target", "too_long", "out_of_ratio"):
            if numbers := getattr(self, reason):
                first = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
                lines.append(f"  {reason.replace('_', ' ')}: {len(numbers):,} (line {first})")
        return "\n".join(lines)


def clean(corpus, max_length=80, max_ratio=None, count=count_words):
    """Drops pairs with an empty, too long or suspiciously unequal side.

    For training data. The interacting-head paper (sec. 4.1) discards pairs longer than 80 tokens for IWSLT16
    German- English and WMT17 English-Czech, and 100 for WMT17 English-German.

    Args:
        corpus: `ParallelCorpus`.
        max_length: int, tokens allowed on either side, or `None` for any number. Default 80.
        max_ratio: float, at least 1, how many times as long one side may be as the other, or `None` for any.
            Default `None`, as in the paper.
        count: callable str -> int, the number of tokens of a sentence. Default `count_words`.

    Returns:
        Tuple (`ParallelCorpus`, `CleaningReport`).

    Raises:
        ValueError: if nothing is left.

    >>> corpus, report = clean(ParallelCorpus(["a b c", "", "d"], ["e", "f", "g"], "demo"), max_length=2)
    >>> corpus.source
    ['d']
    >>> print(report)
    demo: kept 1 of 3 pairs
      empty source: 1 (line 2)
      too long: 1 (line 1)
    """
    report = CleaningReport(corpus.name, len(corpus))
    source, target = [], []
    for number, (source_line, target_line) in enumerate(zip(corpus.source, corpus.target, strict=True), 1):
        source_length, target_length = count(source_line), count(target_line)
        shorter, longer = sorted((source_length, target_length))
        if not shorter:
            if not source_length:
                report.empty_source.append(number)
            if not target_length:
                report.empty_target.append(number)
        elif max_length is not None and longer > max_length:
            report.too_long.append(number)
        elif max_ratio is not None and longer > max_ratio * shorter:
            report.out_of_ratio.append(number)
        else:
            source.append(source_line)
            target.append(target_line)
    if not source:
        raise ValueError(
            f"No sentence pair is left after cleaning.\n{report}\n"
            f"Received: max_length={max_length}, max_ratio={max_ratio}"
        )
    return ParallelCorpus(source, target, corpus.name), report

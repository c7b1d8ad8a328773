"""Cleaning of training data, with a report of what was left out and why."""

import collections
import re
from dataclasses import dataclass, field

from keras_headattn.data._parallel import ParallelCorpus

REASONS = ("empty_source", "empty_target", "too_long", "out_of_ratio")
SHOWN = 5
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def count_words(sentence):
    """Counts the words of a sentence, split at white space; each kana and Chinese character is a word.

    >>> count_words("two cats"), count_words("两只 cats")
    (2, 3)
    """
    return len(CJK.sub(" x ", sentence).split())


@dataclass
class CleaningReport:
    """Counts of what cleaning dropped; `print` it. It stays small, however large the corpus.

    Args:
        name: str, the corpus.
        total, dropped: ints, pairs before, and pairs left out.
        counts: dict of str to int, pairs dropped for each of `REASONS`: an empty source, an empty target (a pair
            empty on both sides counts for both), a side longer than `max_words`, sides that differ in length by
            more than `max_ratio`.
        first: dict of str to list of int, the numbers (from 1) of the first pairs of each reason. In files with
            metadata they are not those of the lines.
    """

    name: str
    total: int = 0
    dropped: int = 0
    counts: collections.Counter = field(default_factory=collections.Counter)
    first: dict = field(default_factory=lambda: {reason: [] for reason in REASONS})

    def drop(self, reasons):
        """Notes the reasons, some of `REASONS`, to leave out pair number `total`."""
        self.dropped += 1
        for reason in reasons:
            self.counts[reason] += 1
            if len(self.first[reason]) < SHOWN:
                self.first[reason].append(self.total)

    def __str__(self):
        lines = [f"{self.name}: kept {self.total - self.dropped:,} of {self.total:,} pairs"]
        for reason in REASONS:
            if count := self.counts[reason]:
                first = ", ".join(map(str, self.first[reason])) + (", ..." if count > SHOWN else "")
                lines.append(f"  {reason.replace('_', ' ')}: {count:,} (pair {first})")
        return "\n".join(lines)


def clean(corpus, max_words=80, max_ratio=None, count=count_words):
    """Drops pairs with an empty, too long or suspiciously unequal side; returns the others, and a `CleaningReport`.

    The interacting-head paper (sec. 4.1) discards pairs longer than 80 tokens for IWSLT16 German-English and WMT17
    English-Czech, and 100 for WMT17 English-German. Nothing left is a `ValueError`.

    Args:
        corpus: `ParallelCorpus`.
        max_words: int, tokens allowed on either side, or `None` for any number. Default 80.
        max_ratio: float, at least 1, how many times as long one side may be as the other, or `None` for any.
            Default `None`, as in the paper.
        count: callable str -> int, the number of tokens of a sentence. Default `count_words`.

    >>> corpus, report = clean(ParallelCorpus(["a b c", "", "d"], ["e", "f", "g"], "demo"), max_words=2)
    >>> corpus.source
    ['d']
    >>> print(report)
    demo: kept 1 of 3 pairs
      empty source: 1 (pair 2)
      too long: 1 (pair 1)
    """
    report = CleaningReport(corpus.name)
    kept = list(clean_pairs(corpus, report, max_words, max_ratio, count))
    if not kept:
        raise ValueError(
            f"No sentence pair is left after cleaning.\n{report}\n"
            f"Received: max_words={max_words}, max_ratio={max_ratio}"
        )
    source, target = map(list, zip(*kept, strict=True))
    return ParallelCorpus(source, target, corpus.name), report


def empty_pairs(corpus):
    """Describes pairs with an empty side in a line, for data that is not cleaned; `""` if there are none.

    >>> empty_pairs(ParallelCorpus(["a", "", "b"], ["c", "d", ""], "demo"))
    'demo: 2 pairs with an empty side are kept (pair 2, 3)'
    """
    numbers = [index for index, pair in enumerate(corpus, 1) if not all(map(count_words, pair))]
    if not numbers:
        return ""
    first = ", ".join(map(str, numbers[:SHOWN])) + (", ..." if len(numbers) > SHOWN else "")
    pairs = "1 pair with an empty side is" if len(numbers) == 1 else f"{len(numbers):,} pairs with an empty side are"
    return f"{corpus.name}: {pairs} kept (pair {first})"


def clean_pairs(pairs, report, max_words=80, max_ratio=None, count=count_words):
    """Cleans as `clean` does, pair by pair: nothing is held in memory. Several calls may share a report."""
    for source, target in pairs:
        report.total += 1
        shorter, longer = sorted((count(source), count(target)))
        if not shorter:
            empty = [not count(source), not count(target)]
            report.drop([reason for reason, is_empty in zip(REASONS, empty, strict=False) if is_empty])
        elif max_words is not None and longer > max_words:
            report.drop(["too_long"])
        elif max_ratio is not None and longer > max_ratio * shorter:
            report.drop(["out_of_ratio"])
        else:
            yield source, target

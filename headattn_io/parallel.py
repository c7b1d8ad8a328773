"""Parallel corpora: two lists of sentences, read from files."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headattn_io.files import Path, read_lines
from headattn_io.sentences import METADATA, has_segments, read_segments, read_sentences, unescape


@dataclass(frozen=True)
class ParallelCorpus:
    """Sentences and their translations, in the same order. It iterates over pairs.

    Args:
        source: list of str, or `Sentences`.
        target: the same, as many.
        name: str, where they come from: the two files, or the data set. Messages show it.

    Raises:
        ValueError: if the two lists differ in length.

    >>> len(ParallelCorpus(["a cat"], ["eine Katze"], "demo"))
    1
    """

    source: "list[str] | Sentences"
    target: "list[str] | Sentences"
    name: str

    def __post_init__(self):
        if len(self.source) != len(self.target):
            raise ValueError(
                "The two sides of a parallel corpus must have the same number of lines. "
                f"Received: {len(self.source)} source and {len(self.target)} target lines in {self.name}"
            )

    def __len__(self):
        return len(self.source)

    def __iter__(self):
        return zip(self.source, self.target, strict=True)


class Sentences:
    """Sentences that are read anew whenever they are gone through, and never all in memory.

    Args:
        read: function without arguments that returns an iterator of str.
        length: int, how many there are. Default `None`: counted when first asked for.

    >>> sentences = Sentences(lambda: iter(["a cat", "a dog"]))
    >>> len(sentences), list(sentences), list(sentences)
    (2, ['a cat', 'a dog'], ['a cat', 'a dog'])
    """

    def __init__(self, read: Callable[[], Iterator[str]], length: int | None = None):
        self._read = read
        self._length = length

    def __iter__(self):
        return self._read()

    def __len__(self):
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length


def read_text(
    source_path: Path, target_path: Path, max_sentences: int | None = None, stream: bool = False
) -> ParallelCorpus:
    """Reads two text files, plain or `.gz`, whose lines translate each other.

    Every line is kept, empty ones too, so that scores refer to the whole test set; `clean` drops and reports
    them. Of the XML and SGML of WMT and IWSLT the `<seg>` elements are read: files named .xml, .sgm or .sgml, or that
    begin as these do.

    Args:
        source_path: str or path.
        target_path: str or path.
        max_sentences: int, only the first so many pairs. Default `None`: all.
        stream: bool, whether both sides are `Sentences`, which hold no line in memory. Default False: lists.

    Returns:
        `ParallelCorpus`. Its lines have been counted and found to be UTF-8.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the line counts differ (names both files and counts), a line is not UTF-8, or XML is damaged, has
            no `<seg>`, or other ids of these than that of the other side.
    """
    if has_segments(source_path) and has_segments(target_path):
        corpus = _matching(source_path, target_path, read_segments)
        return ParallelCorpus(corpus.source[:max_sentences], corpus.target[:max_sentences], corpus.name)

    def read(path):
        return itertools.islice(read_sentences(path), max_sentences)

    sides = [Sentences(functools.partial(read, path)) for path in (source_path, target_path)]
    source, target = sides if stream else map(list, sides)
    return ParallelCorpus(source, target, f"{source_path} and {target_path}")


def read_pairs(
    path: Path, columns: tuple[int, int] = (1, 2), max_sentences: int | None = None, stream: bool = False
) -> ParallelCorpus:
    """Reads a file of pairs, plain or `.gz`: a sentence and its translation a line, separated by a tab.

    So are the files of ManyThings and Anki, and exports of Tatoeba. Other columns are passed over, as are empty lines.
    Quotation marks mean nothing.

    Args:
        path: str or path.
        columns: two ints, from 1: the columns of source and target. Default `(1, 2)`.
        max_sentences, stream: as of `read_text`.

    Returns:
        `ParallelCorpus`.

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if a line has too few columns (names file and line), or is not UTF-8; or if the column of the source
            has numbers, as of an export whose first column is an id.
    """

    def read(column):
        return itertools.islice((pair[column] for pair in _pairs(path, columns)), max_sentences)

    sides = [Sentences(functools.partial(read, column)) for column in (0, 1)]
    source, target = sides if stream else map(list, sides)
    return ParallelCorpus(source, target, str(path))


def _pairs(path, columns):
    """Yields the source and the target of each line."""
    for number, line in enumerate(read_lines(path, strip=False), 1):
        fields = [field.strip() for field in line.split("\t")]
        if not any(fields):
            continue
        if len(fields) < max(columns):
            raise ValueError(
                f"{path}, line {number} must have {max(columns)} columns or more, with tabs between, as a file of "
                f"pairs. Received: {line.strip()[:60]!r}"
            )
        pair = [fields[column - 1] for column in columns]
        if number == 1 and len(fields) > 3 and all(fields[column - 1].isdecimal() for column in (1, 3)):
            if not {1, 3}.isdisjoint(columns):  # ids, as in exports of Tatoeba
                raise ValueError(
                    f"{path} has numbers in columns 1 and 3. Name those of source and target, say by --columns 2 4. "
                    f"Received: columns={tuple(columns)}"
                )
        yield pair


def read_tagged(source_path: Path, target_path: Path) -> ParallelCorpus:
    """Reads two files of IWSLT's training data, `train.tags.de-en.de` and `.en`, without their lines of metadata.

    Args:
        source_path: str or path.
        target_path: str or path.

    Returns:
        `ParallelCorpus`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the two sides do not match talk by talk, or a line is not UTF-8.
    """
    return _matching(source_path, target_path, _tagged_lines)


def _matching(source_path, target_path, read):
    """The corpus of two files that `read` gives as (id, text), whose ids must agree."""
    source, target = list(read(source_path)), list(read(target_path))
    for number, ((source_id, _), (target_id, _)) in enumerate(zip(source, target, strict=False), 1):
        if source_id != target_id:
            raise ValueError(
                "The segments of the two files must have the same ids, or be of the same talk, in the same order. "
                f"Received: as number {number}, "
                f"{source_id!r} in {source_path} and {target_id!r} in {target_path}"
            )
    name = f"{source_path} and {target_path}"
    return ParallelCorpus([text for _, text in source], [text for _, text in target], name)


def _tagged_lines(path):
    """Yields the (number of the talk, text) of each line of training data; a talk begins with its `<url>`."""
    talk = 0
    for line in read_lines(path):
        tag = METADATA.match(line)
        if not tag:
            yield talk, unescape(line).strip()
        elif tag[1] == "url":
            talk += 1

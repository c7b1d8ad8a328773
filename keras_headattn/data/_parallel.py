"""Parallel corpora."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keras_headattn._files import Path, read_lines
from keras_headattn._sentences import METADATA, has_segments, read_segments, read_sentences, unescape


@dataclass(frozen=True)
class ParallelCorpus:
    """Sentences and their translations; iterates over pairs.

    Args:
        source, target: list of str, or `Sentences`, as many.
        name: origin of the sentences, for messages.

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
                "`source` and `target` must have the same number of lines. "
                f"Received: {len(self.source)} source and {len(self.target)} target lines in {self.name}"
            )

    def __len__(self):
        return len(self.source)

    def __iter__(self):
        return zip(self.source, self.target, strict=True)


class Sentences:
    """Sentences that are read anew at each iteration and never all in memory.

    Args:
        read: function without arguments that returns an iterator of str.
        length: number of sentences. Default `None`: counted on demand.

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
    """Reads two text files, plain or `.gz`, whose lines translate each other, as a `ParallelCorpus`.

    All lines are kept, empty ones too. Of WMT's and IWSLT's XML and SGML (by ending .xml, .sgm or .sgml, or first
    line), the `<seg>` elements are read.

    Args:
        source_path, target_path: paths of the files.
        max_sentences: number of first pairs to read. Default `None`: all.
        stream: True for `Sentences`, which hold no line in memory, instead of lists.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the line counts differ, a line is not UTF-8, or XML is damaged or has no or unequal `<seg>` ids.
    """
    if has_segments(source_path) and has_segments(target_path):
        corpus = _matching(source_path, target_path, read_segments)
        return ParallelCorpus(corpus.source[:max_sentences], corpus.target[:max_sentences], corpus.name)

    def read(path):
        return itertools.islice(read_sentences(path), max_sentences)

    return _corpus(read, (source_path, target_path), stream, f"{source_path} and {target_path}")


def _corpus(read, sides, stream, name):
    sides = [Sentences(functools.partial(read, side)) for side in sides]
    return ParallelCorpus(*(sides if stream else map(list, sides)), name)


def read_pairs(
    path: Path, columns: tuple[int, int] = (1, 2), max_sentences: int | None = None, stream: bool = False
) -> ParallelCorpus:
    """Reads a file, plain or `.gz`, of tab-separated sentences and translations, as a `ParallelCorpus`.

    ManyThings, Anki and Tatoeba use this format. Other columns and empty lines are skipped; quotation marks mean
    nothing.

    Args:
        path: path of the file.
        columns: columns of source and target, from 1.
        max_sentences, stream: see `read_text`.

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if a line has too few columns or is not UTF-8, or the source column has numbers, such as ids.
    """

    def read(column):
        return itertools.islice((pair[column] for pair in _pairs(path, columns)), max_sentences)

    return _corpus(read, (0, 1), stream, str(path))


def _pairs(path, columns):
    """Yields source and target of each line."""
    for line_number, line in enumerate(read_lines(path, strip=False), 1):
        fields = [field.strip() for field in line.split("\t")]
        if not any(fields):
            continue
        if len(fields) < max(columns):
            raise ValueError(
                f"{path}, line {line_number} must have {max(columns)} columns or more, with tabs between, as a file of "
                f"pairs. Received: {line.strip()[:60]!r}"
            )
        pair = [fields[column - 1] for column in columns]
        if line_number == 1 and len(fields) > 3 and all(fields[column - 1].isdecimal() for column in (1, 3)):
            if not {1, 3}.isdisjoint(columns):  # ids, as in exports of Tatoeba
                raise ValueError(
                    f"{path} has numbers in columns 1 and 3. Name those of source and target, say by --columns 2 4. "
                    f"Received: columns={tuple(columns)}"
                )
        yield pair


def read_tagged(source_path: Path, target_path: Path) -> ParallelCorpus:
    """Reads IWSLT's training data, `train.tags.de-en.de` and `.en`, without metadata, as a `ParallelCorpus`.

    Args:
        source_path, target_path: paths of the files.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the two sides do not match talk by talk, or a line is not UTF-8.
    """
    return _matching(source_path, target_path, _tagged_lines)


def _matching(source_path, target_path, read):
    """Returns the corpus of two files that `read` gives as (id, text), with equal ids."""
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
    """Yields (talk number, text) of each line; a talk begins with its `<url>`."""
    talk = 0
    for line in read_lines(path):
        tag = METADATA.match(line)
        if not tag:
            yield talk, unescape(line).strip()
        elif tag[1] == "url":
            talk += 1

"""Sentences of text files: lines, or `<seg>` elements of WMT's and IWSLT's XML and SGML."""

import html
import itertools
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

from keras_headattn._files import Path, read_lines

SEGMENTS = re.compile(
    r"\s*<(\?xml|mteval|(!doctype\s+)?(src|ref|tst)set|!doctype\s+mteval|doc\s+docid)\b", re.IGNORECASE
)
# What stands between the talks of IWSLT training data, in one language or in both.
METADATA = re.compile(r"</?(url|talkid|title|description|keywords|speaker|reviewer|translator|doc|transcript)\b[^>]*>")
TAG = re.compile(r"<(/?)(seg|src|ref|hyp)\b([^<>]*)>", re.IGNORECASE)
ENDINGS = (".xml", ".sgm", ".sgml")
WORD_END = re.compile(r"[^\W_](?= )")


def read_sentences(path: Path, encoding: str | None = None) -> Iterator[str]:
    """Yields the stripped sentences of a text file, plain or `.gz`.

    These are the `<seg>` elements of XML and SGML (by ending, or as in WMT and IWSLT by first line), otherwise lines,
    without the metadata of IWSLT's training data.

    Args:
        path: path of the file.
        encoding: str. Default `None`: UTF-8.

    Raises:
        ValueError: for XML that is damaged or has no `<seg>`, and see `read_lines`.
    """
    return sentences_of(read_lines(path, strip=False, encoding=encoding), path, is_named_markup(path))


def has_segments(path: Path) -> bool:
    """Returns True if a file's sentences are `<seg>` elements, by its name or first line."""
    return is_named_markup(path) or bool(SEGMENTS.match(next(read_lines(path), "")))


def is_named_markup(path: Path) -> bool:
    """Returns True if a file has the ending of XML or SGML."""
    return str(path).removesuffix(".gz").lower().endswith(ENDINGS)


def sentences_of(lines: Iterator[str], name: Path, is_markup: bool = False) -> Iterator[str]:
    """Yields the sentences of lines with line ends, see `read_sentences`; `is_markup` if they are XML, however they
    begin.
    """
    first = next(lines, "")
    lines = itertools.chain([first] if first else [], lines)
    if is_markup or SEGMENTS.match(first):
        return (text for _, text in segments_of(lines, name))
    if first.startswith("<url>"):
        return (unescape(line).strip() for line in lines if not METADATA.match(line))
    return (line.strip() for line in lines)


def read_segments(path: Path) -> Iterator[tuple[str, str]]:
    """Yields id and text of each `<seg>` of an XML or SGML file, plain or `.gz`."""
    return segments_of(read_lines(path, strip=False), path)


def segments_of(lines: Iterable[str], name: Path) -> Iterator[tuple[str, str]]:
    """Yields id and text of each `<seg>`, found by a pattern, as these files are often not well-formed XML.

    Raises:
        ValueError: if a `<seg>` does not end, there is none, or sources and references are in one file.
    """
    text, start, count = "".join(lines), None, 0
    for tag in TAG.finditer(text):
        closes, element, attributes = tag[1] == "/", tag[2].lower(), tag[3]
        if element != "seg":
            raise ValueError(
                f"{_location(text, tag, name)}: source and translations must be in files of their own; split them "
                f"first. Received: {tag[0]}"
            )
        if closes == (start is None):
            raise ValueError(
                f"{_location(text, start or tag, name)}: every <seg> must end with </seg>. Received: {tag[0]}"
            )
        if closes or attributes.endswith("/"):
            inner = text[start.end() : tag.start()] if closes and start else ""
            yield _id(start or tag), re.sub(r"\s*\n\s*", " ", unescape(inner)).strip()
            start, count = None, count + 1
        else:
            start = tag
    if start:
        raise ValueError(f"{_location(text, start, name)}: every <seg> must end with </seg>. Received: {start[0]}")
    if not count:
        raise ValueError(f"An XML file of sentences must have <seg> elements. Received: {name}, which has none")


def unescape(text: str) -> str:
    """Resolves the entities of XML; an ampersand that begins none stays.

    >>> unescape("R&D &amp; AT&T&#39;s")
    "R&D & AT&T's"
    """
    return re.sub(r"&#?\w+;", lambda entity: html.unescape(entity[0]), text)


def _id(tag):
    match = re.search(r"""\bid\s*=\s*["']?([^"'\s>]*)""", tag[3], re.IGNORECASE)
    return match[1] if match else ""


def _location(text, tag, name):
    return f"{name}, line {1 + text.count(chr(10), 0, tag.start())}"


def sample_lines(lines: Iterable[Any], size: int, seed: int = 0) -> list[Any]:
    """Draws a uniform sample of a stream, with only the sample in memory (reservoir sampling).

    Args:
        lines: iterable of str, or of anything else.
        size, seed: largest size of the sample, and its seed; shorter streams are kept whole and in order.

    >>> sample_lines(iter("abcdef"), 6)
    ['a', 'b', 'c', 'd', 'e', 'f']
    """
    rng = random.Random(seed)
    kept = []
    for seen, line in enumerate(lines):
        if seen < size:
            kept.append(line)
        elif (slot := rng.randrange(seen + 1)) < size:
            kept[slot] = line
    return kept


def cut_text(text: str, size: int) -> Iterator[str]:
    """Yields parts of a text of `size` characters and the rest of a word, or the whole of a text without spaces.

    A cut is before a space after a letter or digit: all pre-tokenizers end a word there, so that parts have the words
    of the text.

    >>> list(cut_text("one, two three", 4))
    ['one, two', ' three']
    """
    begin = 0
    while len(text) - begin > size and (end := WORD_END.search(text, begin + size - 1)):
        yield text[begin : end.end()]
        begin = end.end()
    yield text[begin:]

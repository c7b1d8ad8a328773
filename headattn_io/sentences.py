"""Sentences of text files: lines or, in the XML and SGML of WMT and IWSLT, `<seg>` elements."""

import html
import itertools
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

from headattn_io.files import Path, read_lines

SEGMENTS = re.compile(
    r"\s*<(\?xml|mteval|(!doctype\s+)?(src|ref|tst)set|!doctype\s+mteval|doc\s+docid)\b", re.IGNORECASE
)
# What stands between the talks of IWSLT training data, in one language or in both.
METADATA = re.compile(r"</?(url|talkid|title|description|keywords|speaker|reviewer|translator|doc|transcript)\b[^>]*>")
TAG = re.compile(r"<(/?)(seg|src|ref|hyp)\b([^<>]*)>", re.IGNORECASE)
ENDINGS = (".xml", ".sgm", ".sgml")


def read_sentences(path: Path, encoding: str | None = None) -> Iterator[str]:
    """Reads the sentences of a text file, plain or `.gz`, stripped.

    They are its lines. Of files whose names end in .xml, .sgm or .sgml, or that begin as those of WMT and IWSLT do,
    they are the `<seg>` elements in their order; of IWSLT's training data, the lines without those of metadata.

    Args:
        path: str or path.
        encoding: str. Default `None`: UTF-8.

    Yields:
        str, the sentences.

    Raises:
        FileNotFoundError, IsADirectoryError: if there is no such file.
        ValueError: for XML that is damaged or has no `<seg>`, and as of `read_lines`.
    """
    return sentences_of(read_lines(path, strip=False, encoding=encoding), path, is_named_markup(path))


def has_segments(path: Path) -> bool:
    """True if the sentences of a text file are `<seg>` elements, by its name or by its first line."""
    return is_named_markup(path) or bool(SEGMENTS.match(next(read_lines(path), "")))


def is_named_markup(path: Path) -> bool:
    """True if the name of a file is that of XML or SGML."""
    return str(path).removesuffix(".gz").lower().endswith(ENDINGS)


def sentences_of(lines: Iterator[str], name: Path, is_markup: bool = False) -> Iterator[str]:
    """Yields the sentences of lines, as `read_sentences` does.

    Args:
        lines: iterator of str, with their line ends.
        name: of the file, for errors.
        is_markup: bool, whether they are XML, however they begin. Default False.
    """
    first = next(lines, "")
    lines = itertools.chain([first] if first else [], lines)
    if is_markup or SEGMENTS.match(first):
        return (text for _, text in segments_of(lines, name))
    if first.startswith("<url>"):
        return (unescape(line).strip() for line in lines if not METADATA.match(line))
    return (line.strip() for line in lines)


def read_segments(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the id and the text of each `<seg>` of an XML or SGML file, plain or `.gz`."""
    return segments_of(read_lines(path, strip=False), path)


def segments_of(lines: Iterable[str], name: Path) -> Iterator[tuple[str, str]]:
    """Yields the id and the text of each `<seg>`. By a pattern, as these files are often not well-formed XML.

    Raises:
        ValueError: if a `<seg>` does not end, there is none, or sources and references are in one file.
    """
    text, start, count = "".join(lines), None, 0
    for tag in TAG.finditer(text):
        closes, element, attributes = tag[1] == "/", tag[2].lower(), tag[3]
        if element != "seg":
            raise ValueError(
                f"{_place(text, tag, name)} has <{element}>: source and translations are in one file. Write each to a "
                "file of its own first"
            )
        if closes == (start is None):
            raise ValueError(
                f"{_place(text, start or tag, name)}: every <seg> must end with </seg>. Received: {tag[0]}"
            )
        if closes or attributes.endswith("/"):
            inner = text[start.end() : tag.start()] if closes and start else ""
            yield _id(start or tag), re.sub(r"\s*\n\s*", " ", unescape(inner)).strip()
            start, count = None, count + 1
        else:
            start = tag
    if start:
        raise ValueError(f"{_place(text, start, name)}: every <seg> must end with </seg>. Received: {start[0]}")
    if not count:
        raise ValueError(f"An XML file of sentences must have <seg> elements. Received: {name}, which has none")


def unescape(text: str) -> str:
    """The text of XML; an ampersand that begins no entity stays as it is.

    >>> unescape("R&D &amp; AT&T&#39;s")
    "R&D & AT&T's"
    """
    return re.sub(r"&#?\w+;", lambda entity: html.unescape(entity[0]), text)


def _id(tag):
    found = re.search(r"""\bid\s*=\s*["']?([^"'\s>]*)""", tag[3], re.IGNORECASE)
    return found[1] if found else ""


def _place(text, tag, name):
    return f"{name}, line {1 + text.count(chr(10), 0, tag.start())}"


def sample_lines(lines: Iterable[Any], size: int, seed: int = 0) -> list[Any]:
    """Uniform sample of a stream of any length, of which no more than the sample is kept in memory.

    Line number i replaces a kept one with probability size / i.

    Args:
        lines: iterable of str, or of anything else, such as pairs of sentences.
        size: int, how many are kept at most. All are, in their order, if there are no more.
        seed: int. Default 0.

    Returns:
        List.

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

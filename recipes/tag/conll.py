"""Tagged sentences: CoNLL files, and the entities that tags mark."""

import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Self

from keras_headattn._files import Path, read_lines
from keras_headattn.data._labelled_text import Examples
from keras_headattn.serving._tagger import OUTSIDE, PREFIXES, marks_entities

DOCUMENT = "-DOCSTART-"  # stands between documents
BLANKS = " \t\r\n"  # other white space, such as a no-break space, is part of words


@dataclasses.dataclass(frozen=True)
class TaggedText(Examples):
    """Sentences whose words have tags.

    Args:
        words, tags: lists of sentences, lists of str, as many in each.
        name: origin of the sentences, for messages.

    >>> len(TaggedText([["Ada", "slept"]], [["B-PER", "O"]], "demo"))
    1
    """

    words: list[list[str]]
    tags: list[list[str]]
    name: str

    def __len__(self):
        return len(self.words)

    def take(self, indices: Iterable[int]) -> Self:
        """Returns the sentences at some indices.

        Args:
            indices: sequence of ints.
        """
        indices = list(indices)
        words, tags = ([side[index] for index in indices] for side in (self.words, self.tags))
        return type(self)(words, tags, self.name)

    def _keys(self):
        return map(tuple, self.words)


def read_conll(
    files: Sequence[Path],
    word_column: int = 1,
    tag_column: int | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> TaggedText:
    """Reads sentences from CoNLL files, plain or `.gz`: a word a line, in columns, with an empty line after a sentence.

    Lines of `-DOCSTART-` and comments (`# text = ...`) are left out. Where the word is not in the first column, so are
    all lines before a sentence that begin with `#`, as GermEval has them, and the ranges and empty nodes of CoNLL-U.
    Entities may be tagged by IOB1, IOB2, IOBES or BILOU, and are returned in IOB2; tags without such prefixes stay as
    they are.

    Args:
        files: paths, read one after the other.
        word_column, tag_column: numbers of the columns, from 1. Default of the tag `None`: the last.
        delimiter: str between columns, such as a tab. Default `None`: spaces and tabs.
        encoding: str. Default UTF-8.

    Raises:
        ValueError: for a line that lacks a column, or whose tag marks no entity while most do, which is named with its
            file; or for files without sentences.

    >>> with open("a.conll", "w") as file:
    ...     _ = file.write("Ada NNP I-PER\\nslept VBD O\\n")
    >>> read_conll(["a.conll"]).tags
    [['B-PER', 'O']]
    """
    sentences: list[list[tuple[str, str]]] = [[]]
    places: dict[str, str] = {}  # where each tag is first
    for file in files:
        for row in _rows(file, word_column, tag_column, delimiter, encoding):
            if row:
                location, *columns = row
                sentences[-1].append(columns)
                places.setdefault(columns[1], location)
            else:
                sentences.append([])
    sentences = list(filter(None, sentences))
    if not sentences:
        raise ValueError(f"There are no sentences. Received: {' '.join(map(str, files))}")
    words, tags = ([[row[side] for row in rows] for rows in sentences] for side in (0, 1))
    return TaggedText(words, list(map(to_iob2, tags)) if _mark_entities(tags, places) else tags, str(files[0]))


def _rows(file, word_column, tag_column, delimiter, encoding):
    """Yields place, word and tag of each word, and `None` after sentences and the file."""
    is_first = True
    for line_number, line in enumerate(read_lines(file, strip=False, encoding=encoding), 1):
        line = line.strip("\r\n") if delimiter else line.strip(BLANKS)
        columns = line.split(delimiter) if delimiter else re.split(r"[ \t]+", line)
        if not line.strip(BLANKS) or columns[0] == DOCUMENT:
            is_first = True
            yield None
        elif not _is_no_word(line, columns[0], word_column, is_first):
            is_first = False
            least = max(word_column, tag_column or 2)
            if len(columns) < least or not columns[word_column - 1] or not columns[(tag_column or 0) - 1]:
                raise ValueError(
                    f"{file}, line {line_number} must have a word in column {word_column} and a tag in column "
                    f"{tag_column or 'last'}. Received: {line[:60]!r}"
                )
            yield f"{file}, line {line_number}", columns[word_column - 1], columns[(tag_column or 0) - 1]
    yield None


def _is_no_word(line, first, word_column, is_first):
    """Returns True for comments before a sentence, and for CoNLL-U's ranges (`1-2`) and empty nodes (`1.1`)."""
    if word_column == 1:
        return is_first and bool(re.match(r"# \w.*=", line))
    return is_first and line.startswith("#") or bool(re.fullmatch(r"\d+[-.]\d+", first))


def _mark_entities(tags, places):
    """Returns True if tags mark entities; a few others among such tags are an error."""
    counts = collections.Counter(tag for row in tags for tag in row)
    others = [tag for tag in counts if not marks_entities([tag])]
    if others and counts.keys() - {OUTSIDE, *others} and 2 * sum(map(counts.get, others)) < counts.total():
        raise ValueError(
            f"{places[others[0]]} must have a tag of an entity, as most lines have: {OUTSIDE}, or one that begins "
            f"with B- I- E- S- L- U-. Received: {others[0]!r}"
        )
    return not others


def entities_of(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Finds the entities of a sentence as `(type, first word, one after the last)`, as conlleval does.

    An entity begins at a `B` or `S`, after an `E` or `S`, and where the type changes. So `I` may begin one.

    Args:
        tags: of the words, by IOB1, IOB2, IOBES or BILOU.

    Raises:
        ValueError: for a tag without prefix.

    >>> entities_of(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [('PER', 0, 2), ('LOC', 3, 4), ('LOC', 4, 5)]
    """
    entities: list[tuple[str, int, int]] = []
    is_open = False
    for index, tag in enumerate(tags):
        if tag == OUTSIDE:
            is_open = False
            continue
        if not marks_entities([tag]):
            raise ValueError(f"`tags` must be O or begin with one of B- I- E- S- L- U-. Received: {tag!r}")
        prefix, kind = PREFIXES[tag[0]], tag[2:]
        if is_open and prefix in "IE" and entities[-1][0] == kind:
            entities[-1] = (kind, entities[-1][1], index + 1)
        else:
            entities.append((kind, index, index + 1))
        is_open = prefix in "BI"
    return entities


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Writes the tags of a sentence in IOB2: each entity begins with `B`.

    >>> to_iob2(["I-PER", "E-PER", "S-LOC"])
    ['B-PER', 'I-PER', 'B-LOC']
    """
    result = [OUTSIDE] * len(tags)
    for kind, first, end in entities_of(tags):
        result[first:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - first - 1)
    return result


def tag_names(tags: Collection[Sequence[str]]) -> list[str]:
    """Returns the tags that a model chooses from: of entities `O` and two of each type, sorted; others as they are.

    >>> tag_names([["O", "B-PER"], ["B-LOC"]])
    ['O', 'B-LOC', 'I-LOC', 'B-PER', 'I-PER']
    """
    known = {tag for row in tags for tag in row}
    if not marks_entities(known):
        return sorted(known)
    kinds = sorted({tag[2:] for tag in known if tag != OUTSIDE})
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")]


def tag_scores(tags: Collection[Sequence[str]], predicted: Collection[Sequence[str]]) -> dict[str, float]:
    """Compares predicted tags with those of the same sentences, as conlleval does.

    Args:
        tags, predicted: sentences, lists of str.

    Returns:
        Dictionary of `accuracy`, the share of words with the right tag, and for tags that mark entities also
        `precision`, `recall` and `f1` of whole entities, and of each type `f1.TYPE`. All are from 0 to 1.

    Raises:
        ValueError: if a sentence has another number of predicted tags.

    Source: Tjong Kim Sang & De Meulder 2003, "Introduction to the CoNLL-2003 shared task".

    >>> tag_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
    {'accuracy': 0.75, 'precision': 0.5, 'recall': 0.5, 'f1': 0.5, 'f1.LOC': 1.0, 'f1.PER': 0.0}
    """
    if list(map(len, tags)) != list(map(len, predicted)):
        raise ValueError(
            "`predicted` must have a tag for each of `tags`. "
            f"Received: {sum(map(len, predicted))} for {sum(map(len, tags))} tags in {len(tags)} sentences"
        )
    pairs = [pair for rows in zip(tags, predicted, strict=True) for pair in zip(*rows, strict=True)]
    scores = {"accuracy": _share(sum(one == other for one, other in pairs), len(pairs))}
    if not marks_entities(tag for pair in pairs for tag in pair):
        return scores
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])  # right, predicted, true
    for row, guess in zip(tags, predicted, strict=True):
        true, guesses = set(entities_of(row)), set(entities_of(guess))
        for index, some in enumerate((true & guesses, guesses, true)):
            for kind, _, _ in some:
                counts[kind][index] += 1
    right, guessed, real = (sum(count[index] for count in counts.values()) for index in range(3))
    scores |= {"precision": _share(right, guessed), "recall": _share(right, real), "f1": _f1(right, guessed, real)}
    return scores | {f"f1.{kind}": _f1(*counts[kind]) for kind in sorted(counts)}


def _share(part, whole):
    return part / whole if whole else 0.0


def _f1(right, guessed, real):
    return _share(2 * right, guessed + real)

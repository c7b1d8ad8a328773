"""Tagged sentences: CoNLL files, and the entities that tags mark."""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Self

from headattn_io.files import Path, read_lines
from headattn_io.labelled_text import Examples

OUTSIDE = "O"
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}  # L and U are those of BILOU
DOCUMENT = "-DOCSTART-"  # stands between documents


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
        return type(self)(*([side[index] for index in indices] for side in (self.words, self.tags)), self.name)


def read_conll(
    files: Sequence[Path],
    word_column: int = 1,
    tag_column: int | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> TaggedText:
    """Reads sentences from CoNLL files, plain or `.gz`: a word a line, in columns, with an empty line after a sentence.

    Lines of `-DOCSTART-` and comments of CoNLL-U (`# text = ...`) are left out. Entities may be tagged by IOB1, IOB2,
    IOBES or BILOU, and are returned in IOB2; tags without such prefixes stay as they are.

    Args:
        files: paths, read one after the other.
        word_column, tag_column: numbers of the columns, from 1. Default of the tag `None`: the last.
        delimiter: str between columns, such as a tab. Default `None`: white space.
        encoding: str. Default UTF-8.

    Raises:
        ValueError: for a line that lacks a column, which is named with its file, or files without sentences.

    >>> with open("a.conll", "w") as file:
    ...     _ = file.write("Ada NNP I-PER\\nslept VBD O\\n")
    >>> read_conll(["a.conll"]).tags
    [['B-PER', 'O']]
    """
    words: list[list[str]] = [[]]
    tags: list[list[str]] = [[]]
    for file in files:
        for number, line in enumerate(read_lines(file, strip=False, encoding=encoding), 1):
            columns = line.rstrip("\r\n").split(delimiter)
            if not line.strip() or line.startswith(DOCUMENT):
                if words[-1]:
                    words.append([])
                    tags.append([])
                continue
            if line.startswith("# ") and "=" in line and not words[-1]:
                continue
            least = max(word_column, tag_column or 2)
            if len(columns) < least or not columns[word_column - 1] or not columns[(tag_column or 0) - 1]:
                raise ValueError(
                    f"{file}, line {number} must have a word in column {word_column} and a tag in column "
                    f"{tag_column or 'last'}. Received: {line.strip()[:60]!r}"
                )
            words[-1].append(columns[word_column - 1])
            tags[-1].append(columns[(tag_column or 0) - 1])
        if words[-1]:
            words.append([])
            tags.append([])
    if not words[0]:
        raise ValueError(f"There are no sentences. Received: {' '.join(map(str, files))}")
    name = str(files[0])
    if marks_entities(tag for row in tags for tag in row):
        tags = list(map(to_iob2, tags))
    return TaggedText(words[:-1], tags[:-1], name)


def marks_entities(tags: Iterable[str]) -> bool:
    """Returns True if tags are `O` or have a prefix such as `B-`: others, parts of speech say, mark no entities.

    >>> marks_entities(["O", "B-PER"]), marks_entities(["NN", "VB"])
    (True, False)
    """
    return all(tag == OUTSIDE or (tag[:1] in PREFIXES and tag[1:2] == "-") for tag in tags)


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
    found: list[tuple[str, int, int]] = []
    is_open = False
    for place, tag in enumerate(tags):
        if tag == OUTSIDE:
            is_open = False
            continue
        if not marks_entities([tag]):
            raise ValueError(f"`tags` must be O or begin with one of B- I- E- S- L- U-. Received: {tag!r}")
        prefix, kind = PREFIXES[tag[0]], tag[2:]
        if is_open and prefix in "IE" and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1], place + 1)
        else:
            found.append((kind, place, place + 1))
        is_open = prefix in "BI"
    return found


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

    Source: Tjong Kim Sang & De Meulder 2003, "Introduction to the CoNLL-2003 shared task".

    >>> tag_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
    {'accuracy': 0.75, 'precision': 0.5, 'recall': 0.5, 'f1': 0.5, 'f1.LOC': 1.0, 'f1.PER': 0.0}
    """
    pairs = [pair for rows in zip(tags, predicted, strict=True) for pair in zip(*rows, strict=True)]
    scores = {"accuracy": _share(sum(one == other for one, other in pairs), len(pairs))}
    if not marks_entities(tag for pair in pairs for tag in pair):
        return scores
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])  # right, predicted, true
    for row, guess in zip(tags, predicted, strict=True):
        true, found = set(entities_of(row)), set(entities_of(guess))
        for place, some in enumerate((true & found, found, true)):
            for kind, _, _ in some:
                counts[kind][place] += 1
    right, guessed, real = (sum(count[place] for count in counts.values()) for place in range(3))
    scores |= {"precision": _share(right, guessed), "recall": _share(right, real), "f1": _f1(right, guessed, real)}
    return scores | {f"f1.{kind}": _f1(*counts[kind]) for kind in sorted(counts)}


def _share(part, whole):
    return part / whole if whole else 0.0


def _f1(right, guessed, real):
    return _share(2 * right, guessed + real)

"""Labelled texts from tables or line-aligned files."""

import csv
import dataclasses
import itertools
import pathlib
import textwrap
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Self

import numpy as np

from keras_headattn._files import Path, read_json_lines, read_lines
from keras_headattn._sentences import read_sentences

DELIMITERS = ",;\t"  # of csv, one of which is found
HEAD = 50  # lines that it is found in
MOST_CHARACTERS = 2**31 - 1  # of a field of csv; Python's own limit is less than a long document has


class Examples:
    """Base of data sets in memory: a subclass has a length and `take`."""

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self, indices: Iterable[int]) -> Self:
        """Returns the examples at some indices.

        Args:
            indices: sequence of ints.
        """
        raise NotImplementedError

    def _keys(self) -> Iterable[Hashable]:
        """Returns a key for each example; examples of one key stay together in `split`."""
        return range(len(self))

    def sample(self, size: int | None, seed: int = 0) -> Self:
        """Returns a random sample of the examples, in their order.

        Args:
            size: number of examples, or `None` for all.
            seed: of the sample.
        """
        if size is None or size >= len(self):
            return self
        return self.take(sorted(np.random.default_rng(seed).permutation(len(self))[:size]))

    def split(self, shares: Sequence[float], seed: int = 0) -> list[Self]:
        """Splits the examples at random into disjoint parts, in their order. Copies of a text stay together.

        Args:
            shares: share of each part but the first, which gets the rest, of the different texts.
            seed: int.

        Raises:
            ValueError: if the shares leave nothing for the first part, or a part would be empty.
        """
        if sum(shares) >= 1:
            raise ValueError(f"`shares`, without the first part's, must add up to less than 1. Received: {shares}")
        copies: dict[Hashable, list[int]] = {}
        for index, key in enumerate(self._keys()):
            copies.setdefault(key, []).append(index)
        groups = list(copies.values())
        order = np.random.default_rng(seed).permutation(len(groups))
        ends = np.cumsum([0, *(max(1, round(share * len(groups))) for share in shares)])
        parts = [order[ends[-1] :], *(order[start:end] for start, end in zip(ends, ends[1:], strict=False))]
        if not all(map(len, parts)):
            raise ValueError(
                "The examples are too few to be split: give more, or files for validation and test. "
                f"Received: {len(groups)} different texts for shares of {shares}"
            )
        return [self.take(sorted(itertools.chain(*(groups[index] for index in part)))) for part in parts]


@dataclasses.dataclass(frozen=True)
class LabelledText(Examples):
    """Texts, or pairs of texts, with labels.

    Args:
        texts, labels, second_texts: lists of str, as many in each; `second_texts` is `None` for single texts.
        name: origin of the texts, for messages.

    >>> len(LabelledText(["a good film"], ["positive"], "demo"))
    1
    """

    texts: list[str]
    labels: list[str]
    name: str
    second_texts: list[str] | None = None

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[str]], name: str) -> Self:
        """Makes a `LabelledText` of rows.

        Args:
            rows: iterable of `(text, label)` or `(text, label, second text)`.
            name: origin of the rows.

        Raises:
            ValueError: if there are none.

        >>> LabelledText.from_rows([("a good film", "positive"), ("a bore", "negative")], "demo").labels
        ['positive', 'negative']
        """
        columns = [list(values) for values in zip(*rows, strict=True)]
        if not columns:
            raise ValueError(f"There are no examples. Received: {name}")
        texts, labels, *second_texts = columns
        return cls(texts, labels, name, *second_texts)

    def __len__(self):
        return len(self.texts)

    def take(self, indices: Iterable[int]) -> Self:
        """Returns the examples at some indices.

        Args:
            indices: sequence of ints.
        """

        def some(values):
            return None if values is None else [values[index] for index in indices]

        return type(self)(some(self.texts), some(self.labels), self.name, some(self.second_texts))

    def _keys(self):
        return zip(*filter(None, (self.texts, self.second_texts)), strict=True)

    def without(self, labels: Collection[str]) -> "LabelledText":
        """Returns the examples that have none of these labels.

        Args:
            labels: collection of str.
        """
        return self.take([index for index, label in enumerate(self.labels) if label not in labels])


def read_labelled(
    files: Sequence[Path],
    text: str,
    label: str,
    second: str | None = None,
    format: str | None = None,
    header: bool = True,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    allow_unlabelled: bool = False,
) -> LabelledText:
    """Reads examples from files, plain or `.gz`.

    | format | |
    |---|---|
    | csv | separated by commas, semicolons or tabs, quoted as spreadsheets do; a field may have line feeds |
    | tsv | separated by tabs; quotation marks mean nothing |
    | jsonl | one JSON object a line; only its strings, numbers and booleans are columns |
    | label_text | the label, a space, the text; its columns are called label and text |
    | aligned | one file a column, whose lines belong together |

    Args:
        files: paths, read one after the other; of `aligned`, one for each column.
        text, label: names of the columns; numbers from 1 if columns have no names.
        second: column of the second text. Default `None`: single texts.
        format: see the table. Default `None`: by the file's ending.
        header: True if the first line of csv and tsv names the columns.
        encoding: encoding of the files.
        delimiter: delimiter of csv. Default `None`: the comma, semicolon or tab that gives the columns asked for.
        allow_unlabelled: True to read examples without label as "".

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: for an invalid line, a missing column or label (naming file and line), or no examples.
    """
    columns = {"text": text, "label": label, "second": second}
    columns = {name: column.strip() for name, column in columns.items() if column is not None}
    if format == "aligned":
        rows = _aligned(files, columns, encoding)
    else:
        rows = (row for path in files for row in _rows(path, format, header, columns, encoding, delimiter))
    return LabelledText.from_rows(_checked(rows, columns["label"], allow_unlabelled), " and ".join(map(str, files)))


def _checked(rows, column, allow_unlabelled):
    """Yields the values of rows, whose labels are checked."""
    for location, values in rows:
        if not values[1] and not allow_unlabelled:
            raise ValueError(
                f"{location} must have a label. --drop-labels '' (`allow_unlabelled`) leaves such examples out. "
                f"Received: {column}=''"
            )
        yield values


def _rows(path, format, header, columns, encoding, delimiter):
    """Yields the location of each row and the values of its columns, the label second."""
    readers = {"csv": read_csv, "tsv": _tsv, "jsonl": _jsonl, "label_text": _label_text}
    format = format or pathlib.Path(str(path).removesuffix(".gz")).suffix[1:].lower()
    if format not in readers:
        raise ValueError(
            "The file's name must end in .csv, .tsv or .jsonl, .gz too, or `format` be given, one of "
            f"{', '.join(readers)}, aligned. Received: {path}, {format!r}"
        )
    if format == "csv":
        rows = read_csv(path, encoding, delimiter, set(columns.values()), header)
    else:
        rows = readers[format](path, encoding)
    if format in ("csv", "tsv"):
        rows = _named(path, rows, header)
    for location, row in rows:
        for name, column in columns.items():
            if column not in row and header and format in ("csv", "tsv"):
                raise ValueError(
                    f"Line 1 of {path} must name the column {column!r}. Give --{name}-column (`{name}`), or for "
                    "a file without names --no-header (`header=False`) with --text-column 1 --label-column 2, say. "
                    f"Received: the columns {textwrap.shorten(', '.join(row), 200, placeholder=' ...')}"
                )
            if column not in row:
                raise ValueError(
                    f"Give --{name}-column (`{name}`): {location} has the columns {', '.join(row)}. "
                    f"Received: no {column!r}"
                )
        yield location, [row[column] for column in columns.values()]


def read_csv(
    path: Path, encoding: str, delimiter: str | None, columns: Collection[str], header: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields `(file and line number, fields)` for each row of a CSV file, with the header; empty lines are skipped.

    Args:
        path, encoding: see `read_lines`, also for errors.
        delimiter: str between fields. Default `None`: the comma, semicolon or tab that gives the columns asked for.
        columns: set of names that columns must have, numbers from 1 without a header, to find the delimiter.
        header: True if the first row names the columns.

    Raises:
        ValueError: for a row that is not CSV (names the line).
    """
    csv.field_size_limit(MOST_CHARACTERS)
    lines = read_lines(path, False, encoding)
    first = next(lines, "")
    if first[:4].lower() == "sep=" and len(first.rstrip("\r\n")) == 5:  # a line of Excel's
        delimiter, skipped = delimiter or first[4], 1
    else:
        lines, skipped = itertools.chain([first], lines), 0
    head = list(itertools.islice(lines, HEAD))
    delimiter = delimiter or _delimiter(head, set(columns), header)
    reader = csv.reader(itertools.chain(head, lines), strict=True, delimiter=delimiter)
    try:
        for fields in reader:
            if fields:  # an empty line has none
                yield f"{path}, line {reader.line_num + skipped}", [field.strip() for field in fields]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num + skipped} must be CSV. Received: {error}") from error


def _delimiter(lines, columns, header):
    """Returns the delimiter that gives the columns asked for, or else most columns."""
    num_columns = {}
    for delimiter in DELIMITERS:
        try:
            rows = list(filter(None, csv.reader(lines, delimiter=delimiter)))
        except csv.Error:
            continue
        rows = rows[: 1 if header else -1 if len(lines) == HEAD else None]  # the last one may have been cut
        counts = set(map(len, rows))
        names = (
            {field.strip() for field in rows[0]}
            if header and rows
            else set(map(str, range(1, min(counts, default=0) + 1)))
        )
        if len(counts) == 1 and columns <= names:
            return delimiter
        num_columns[delimiter] = len(rows[0]) if rows else 0
    return max(num_columns, key=num_columns.get, default=DELIMITERS[0])


def _tsv(path, encoding):
    for line_number, line in enumerate(read_lines(path, False, encoding), 1):
        if line.strip():
            yield f"{path}, line {line_number}", [field.strip() for field in line.split("\t")]


def _named(path, rows, header):
    """Yields rows as dictionaries by the names in the first one, or by numbers."""
    names = None
    for location, fields in rows:
        if names is None:
            names = fields if header else [str(column) for column in range(1, len(fields) + 1)]
            if len({*names, ""}) <= sum(map(bool, names)):  # columns without a name may be several
                raise ValueError(f"{path}: every column needs a name of its own. Received: {', '.join(names)}")
            if header:
                continue
        if len(fields) != len(names):
            raise ValueError(f"{location} must have {len(names)} columns, as the first line. Received: {len(fields)}")
        yield location, dict(zip(names, fields, strict=True))


def _jsonl(path, encoding):
    for location, row in read_json_lines(path, encoding):
        yield (
            location,
            {name.strip(): str(value).strip() for name, value in row.items() if isinstance(value, (str, int, float))},
        )


def _label_text(path, encoding):
    for line_number, line in enumerate(read_lines(path, False, encoding), 1):
        if line.strip():
            label, _, text = line.rstrip().partition(" ")
            yield f"{path}, line {line_number}", {"label": label, "text": text.strip()}


def _aligned(files, columns, encoding):
    """Returns rows, with their locations, of line-aligned files; columns are file numbers."""
    numbers = [str(number) for number in range(1, len(files) + 1)]
    unknown = [column for column in columns.values() if column not in numbers]
    if unknown:
        raise ValueError(f"Columns of aligned files are their numbers, {', '.join(numbers)}. Received: {unknown[0]!r}")
    chosen = [files[int(column) - 1] for column in columns.values()]
    sides = [list(read_sentences(path, encoding)) for path in chosen]
    if len(set(map(len, sides))) > 1:
        counts = ", ".join(f"{len(side)} in {path}" for side, path in zip(sides, chosen, strict=True))
        raise ValueError(f"Files whose lines belong together must have the same number of them. Received: {counts}")
    return ((f"{chosen[1]}, line {line_number}", row) for line_number, row in enumerate(zip(*sides, strict=True), 1))

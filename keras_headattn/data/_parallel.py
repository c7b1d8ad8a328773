"""Parallel corpora: two lists of sentences, read from text files, the IWSLT layout or TensorFlow Datasets."""

import functools
import itertools
import pathlib
from dataclasses import dataclass

from keras_headattn._files import read_lines
from keras_headattn._segments import METADATA, has_segments, read_segments, read_sentences, unescape
from keras_headattn.data._tfds import getting


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

    source: list
    target: list
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

    def __init__(self, read, length=None):
        self._read = read
        self._length = length

    def __iter__(self):
        return self._read()

    def __len__(self):
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length


def read_text(source_path, target_path, max_sentences=None, stream=False):
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
    return ParallelCorpus(*(sides if stream else map(list, sides)), f"{source_path} and {target_path}")


def read_iwslt(folder, source_language, target_language, split):
    """Reads a split from the files of an IWSLT evaluation campaign, as unpacked.

    Training data are `train.tags.de-en.de` and `.en`, without their lines of metadata (`METADATA`). The other splits
    are `IWSLT16.TED.tst2014.de-en.de.xml` and `.en.xml`, of which only the `<seg>` elements are text.

    Args:
        folder: str or path, the folder with those files.
        source_language: str, for instance "de".
        target_language: str, for instance "en". A folder made for the opposite direction serves too.
        split: str, "train", or for instance "tst2014": the TED set, or the TEDX set where there is no TED set
            of that year. "TEDX.tst2014" asks for one of the two; "tst2013+tst2014" joins two.

    Returns:
        `ParallelCorpus`.

    Raises:
        FileNotFoundError: if the folder has no such files.
        ValueError: if the two sides do not match talk by talk or segment by segment, the folder holds several
            releases, or a line is not UTF-8 or not as expected.
    """
    if "+" in split:
        parts = [read_iwslt(folder, source_language, target_language, part) for part in split.split("+")]
        sides = ([line for part in parts for line in getattr(part, side)] for side in ("source", "target"))
        return ParallelCorpus(*sides, f"{split} in {folder}")
    files = iwslt_files(folder, source_language, target_language, split)
    return _matching(*files, _tagged_lines if split == "train" else read_segments)


def read_pairs(path, columns=(1, 2), max_sentences=None, stream=False):
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
    return ParallelCorpus(*(sides if stream else map(list, sides)), str(path))


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


def iwslt_files(folder, source_language, target_language, split):
    """The two files of a split, as `read_iwslt` finds them.

    Args:
        folder, source_language, target_language, split: as `read_iwslt` takes them; one split.

    Returns:
        Tuple of two paths.

    Raises:
        FileNotFoundError: if the folder has no such files.
        ValueError: if it holds several releases.
    """
    folder = pathlib.Path(folder)
    pairs = (f"{source_language}-{target_language}", f"{target_language}-{source_language}")
    if split == "train":
        patterns = [f"train.tags.{pair}." for pair in pairs]
    else:
        names = [split] if "." in split else [f"TED.{split}", f"TEDX.{split}"]
        patterns = [f"IWSLT*.{name}.{pair}." for pair in pairs for name in names]
    endings = [language if split == "train" else f"{language}.xml" for language in (source_language, target_language)]
    for pattern in patterns:
        sources = sorted(folder.glob(pattern + endings[0]))
        targets = [source.with_name(source.name.removesuffix(endings[0]) + endings[1]) for source in sources]
        found = [both for both in zip(sources, targets, strict=True) if both[1].exists()]
        if len(found) > 1:
            raise ValueError(
                "Keep one release in the folder, or move the other elsewhere. "
                f"Received: {' and '.join(str(source) for source, _ in found)}"
            )
        if found:
            return found[0]
    wanted = ", ".join(pattern + endings[0] for pattern in patterns)
    raise FileNotFoundError(
        f"The folder needs one of {wanted} and the same for {target_language!r}. Received: folder={str(folder)!r}"
    )


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


def read_tfds(name, split, source_language, target_language, max_sentences=None, stream=False):
    """Reads a translation data set from TensorFlow Datasets, which downloads it on first use.

    Args:
        name: str, for instance "wmt14_translate/de-en", "wmt17_translate/cs-en" or
            "ted_hrlr_translate/pt_to_en".
        split: str, for instance "train", "validation", "test" or "train[:1%]".
        source_language: str, for instance "en".
        target_language: str, for instance "de".
        max_sentences: int, only the first so many pairs are read. Default `None`: all.
        stream: bool, whether both sides are `Sentences`, which hold no sentence in memory. Default False: lists.

    Returns:
        `ParallelCorpus`.

    Raises:
        ImportError: if tensorflow-datasets is not installed.
        ValueError: if the data set has no such language.
        OSError: if it is not on this machine and cannot be downloaded.
    """
    with getting(name) as tfds:
        dataset, info = tfds.load(name, split=split, with_info=True)
    languages = source_language, target_language
    for language in languages:
        if language not in info.features:
            raise ValueError(f"{name} has the languages {sorted(info.features)}. Received: {language!r}")
    dataset = dataset.take(-1 if max_sentences is None else max_sentences)

    def read(language):
        return (pair[language].decode("utf-8").strip() for pair in dataset.as_numpy_iterator())

    length = int(dataset.cardinality())
    sides = [Sentences(functools.partial(read, language), length) for language in languages]
    if not stream:
        from tqdm import tqdm  # comes with tensorflow-datasets

        sides = [list(tqdm(side, desc=f"{name}, {split}", delay=5, disable=None)) for side in sides]
    return ParallelCorpus(*sides, f"{name}, {split}, {source_language}-{target_language}")

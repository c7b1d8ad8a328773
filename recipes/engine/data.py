"""Data sets of a run: reading, names of test sets, checksums, vocabularies."""

import bz2
import collections.abc
import contextlib
import dataclasses
import gzip
import hashlib
import itertools
import json
import lzma
import pathlib
import re
import tarfile
import zlib

from keras_headattn._files import write_atomically
from keras_headattn._optional import optional_import
from keras_headattn.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
    learn_wordpieces,
    learn_words,
    train_sentencepiece,
)

CACHED = "sacrebleu:"  # begins the name of a test set in sacreBLEU's cache
ROWS = 1000  # hashed together
COMPRESSED = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ": lzma.open, b"BZh": bz2.open}  # by the first bytes
TAR_BLOCK = 512
DAMAGE = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError)
TOKENIZERS = {"words": WordTokenizer, "pieces": SentencePieceTokenizer, "wordpieces": WordPieceTokenizer}


@dataclasses.dataclass(frozen=True)
class Corpora:
    """Training, validation and named test sets. There is no training set here where it is read from elsewhere."""

    train: object
    validation: object
    tests: dict


def named_files(files, ending, size=1):
    r"""Returns the files of test sets by name, `size` of them a set, in this order; two sets of one name are an error.

    A set is named after its first file, without `.gz` and then what matches the pattern `ending`.

    >>> named_files(["data/test.en.gz", "data/test.de.gz"], "[.][a-z]+", 2)
    {'test': ['data/test.en.gz', 'data/test.de.gz']}
    """
    if len(files) % size:
        raise ValueError(f"--test takes {size} files a test set. Received: {' '.join(files)}")
    return named_sets([list(files[begin : begin + size]) for begin in range(0, len(files), size)], ending)


def is_cached(file):
    """True for the name of a test set in sacreBLEU's cache, such as `sacrebleu:wmt14/full`, in place of a file."""
    return str(file).startswith(CACHED)


def named_sets(sets, ending):
    """Names test sets, lists of files, as `named_files` does."""
    tests = {}
    for files in sets:
        name = re.sub(f"(?:{ending})$", "", pathlib.Path(files[0]).name.removesuffix(".gz"))
        if name in tests:
            raise ValueError(
                f"Test sets are told apart by the names of their files. Received: {tests[name][0]} and {files[0]}"
            )
        tests[name] = files
    return tests


def named_apart(tests, names):
    """Returns test sets of other files by names that are not those of the run's own.

    >>> named_apart({"test": 1, "test-2": 2, "other": 3}, ["test"])
    {'test-3': 1, 'test-2': 2, 'other': 3}
    """
    taken, renamed = {*names, *tests}, {}
    for name, test in tests.items():
        apart = (candidate for number in itertools.count(2) if (candidate := f"{name}-{number}") not in taken)
        renamed[next(apart) if name in names else name] = test
    return renamed


def check_batch_size(batch_size, num_replicas):
    """Checks that a batch can be split evenly over the replicas."""
    if batch_size % num_replicas:
        raise ValueError(f"--batch-size must be a multiple of the {num_replicas} replicas. Received: {batch_size}")


def fingerprint(corpora):
    """Sizes and checksums of the training and validation sets of a `Corpora`, under `"training"` and `"validation"`.

    All of their content counts but the names of files. A set of a type that JSON cannot express is left out.

    >>> from recipes.engine.data import Corpora
    >>> data = fingerprint(Corpora(["a", "b"], ["c"], {}))
    >>> data["training"]["examples"], data["validation"]["examples"]
    (2, 1)
    """
    parts = {"training": corpora.train, "validation": corpora.validation}
    fingerprints = {}
    for name, part in parts.items():
        try:
            if part is not None:
                fingerprints[name] = {"examples": len(part), "sha256": checksum(part)}
        except TypeError:
            pass
    return fingerprints


def checksum(value):
    """SHA-256 of values that JSON can express, and of dataclasses and sequences of them. Others are a `TypeError`."""
    digest = hashlib.sha256()
    parts = _as_json(value) if dataclasses.is_dataclass(value) else {"value": value}
    for name, part in parts.items():
        digest.update(name.encode())
        rows = list(part.items()) if isinstance(part, dict) else part
        if isinstance(rows, str) or not isinstance(rows, collections.abc.Sequence):
            rows = [rows]
        for begin in range(0, len(rows), ROWS):
            digest.update(json.dumps(list(rows[begin : begin + ROWS]), default=_as_json).encode())
    return digest.hexdigest()


def _as_json(value):
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in ("name", "damaged")]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    raise TypeError(f"Not JSON: {type(value)}")


def decompressed(file):
    """Returns an open file at its beginning, decompressed if its first bytes are those of a compressed file."""
    head = file.peek(512)
    return next((opened(file) for magic, opened in COMPRESSED.items() if head.startswith(magic)), file)


def files_below(path):
    """Returns `(path, name)` of a file, or of those in a folder and below it, in order, but for hidden ones."""
    path = pathlib.Path(path)
    if not path.is_dir():
        if not path.is_file():
            raise FileNotFoundError(f"No such file. Give text files, folders of them or archives. Received: {path}")
        return [(path, path.name)]
    files = sorted(file for file in path.rglob("*") if file.is_file())
    named = [(file, file.relative_to(path)) for file in files]
    named = [(file, str(name)) for file, name in named if not any(part.startswith(".") for part in name.parts)]
    if not named:
        raise ValueError(f"A folder of text files must have some. Received: {path}, which has none")
    return named


def is_tar(head):
    """Returns True for the first 512 bytes of a tar archive."""
    return head[257:262] == b"ustar"


@contextlib.contextmanager
def damage_reported(path):
    """Context that words what a damaged archive or compressed file raises."""
    try:
        yield
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # bzip2's errors have no number
            raise
        raise ValueError(f"The file is damaged; get it again. Received: {path} ({error})") from error


@contextlib.contextmanager
def open_archive(file):
    """Opens a file as a tar archive, read from beginning to end and checked to the checksum of its compression."""
    content = decompressed(file)
    with tarfile.open(fileobj=content, mode="r|", tarinfo=_Member) as archive:
        yield archive
    while content.read(2**20):
        pass


class _Member(tarfile.TarInfo):
    """Member of an archive. A damaged header is an error; `tarfile` would take it for the end."""

    @classmethod
    def fromtarfile(cls, archive):
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:
            raise tarfile.ReadError(f"{error} at byte {archive.offset:,} of the archive") from error


@contextlib.contextmanager
def load_tfds(name):
    """Context with the module `tensorflow_datasets`, to get the data set `name`, which is downloaded on first use.

    Without the package there is an `ImportError`, without the data set an `OSError`.
    """
    tfds = optional_import("tensorflow_datasets", "datasets")
    try:
        yield tfds
    except (AssertionError, OSError, tfds.download.DownloadError) as error:  # AssertionError: a file to get by hand
        raise OSError(
            "The data set is not on this machine and could not be downloaded. Connect to the network, or download it "
            f"by hand as its page says. Received: {name} ({error})"
        ) from error


def learn_tokenizer(path, texts=None, kind="words", vocabulary_size=None, min_count=1, lowercase=True):
    """Learns a vocabulary if its file is missing, and loads it.

    Args:
        path: str or path, the file of the vocabulary: a word a line, or a SentencePiece model.
        texts: iterable of str. Default `None`: the vocabulary has been learned.
        kind: "words" (default), "pieces" of SentencePiece, or "wordpieces" of BERT, whose file is `vocab.txt`.
        vocabulary_size: int, number of ids; words may be fewer. Default `None`: all words; pieces need a number.
        min_count: int, how often a word must occur. Default 1.
        lowercase: True to lower-case text.

    >>> tokenizer = learn_tokenizer("vocabulary.txt", ["a cat sat", "a dog"], vocabulary_size=4)
    >>> tokenizer.vocabulary
    ('a', 'cat')
    """
    if kind not in TOKENIZERS:
        raise ValueError(f"`kind` must be one of {', '.join(TOKENIZERS)}. Received: kind={kind!r}")
    path = pathlib.Path(path)
    if not path.exists():
        if texts is None:
            raise ValueError(
                f"The folder {path.parent} is not complete: it has no {path.name}. Give the text to learn it from. "
                "Received: texts=None"
            )
        if kind == "pieces":
            train_sentencepiece(map(str.lower, texts) if lowercase else texts, path, vocabulary_size, "unigram")
        else:
            is_word = kind == "words"
            words = (
                learn_words(texts, vocabulary_size, min_count, lowercase)
                if is_word
                else learn_wordpieces(texts, vocabulary_size, lowercase)
            )
            write_atomically(path, "".join(f"{word}\n" for word in words).encode("utf-8"))
    return TOKENIZERS[kind](path, lowercase=lowercase)

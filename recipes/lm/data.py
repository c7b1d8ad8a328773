"""Texts of a run, their tokenizer, and files of their tokens."""

import contextlib
import hashlib
import io
import itertools
import pathlib
import re
import sys
import tarfile
import tempfile

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_headattn._files import decode_lines, parse_json, read_json
from keras_headattn.data import TokenFile, write_tokens
from keras_headattn.interop import tokenizer_of
from keras_headattn.interop._checkpoints import check_checkpoint
from keras_headattn.text import (
    ByteFallbackTokenizer,
    BytePairTokenizer,
    ByteTokenizer,
    CharacterTokenizer,
    train_byte_pairs,
)
from recipes.engine.data import (
    TAR_BLOCK,
    Corpora,
    checksum,
    damage_reported,
    decompressed,
    files_below,
    is_tar,
    named_apart,
    named_files,
    open_archive,
)
from recipes.engine.encoders import saved_tokenizer
from recipes.engine.number_words import number_documents
from recipes.engine.settings import VALIDATION_SHARE
from recipes.lm.settings import ENDING, LEARNED, VALIDATION
from recipes.lm.synthetic import COUNTS, TASKS
from recipes.lm.tasks import read_tasks

DOCUMENTS = {"train": 400, "validation": 40, "test": 40}  # of the synthetic task
BLOCKS, BLOCK = 256, 4_096  # blocks of a token file that its checksum covers, and ids of each
CHECKED = 2**20  # ids that are compared with the vocabulary before training


def read_corpora(config):
    """Reads what settings name as `Corpora` of documents, lists of str, or of `TokenFile`s."""
    if config.synthetic:
        train, validation, test = ([TASKS[config.synthetic].text(COUNTS[name], i)] for i, name in enumerate(COUNTS))
        return Corpora(train, validation, {"test": test})
    if config.built_in:
        lines = ([f"{line}\n" for line in number_documents(DOCUMENTS[name], i)] for i, name in enumerate(DOCUMENTS))
        train, validation, test = (list(split_lines(some, config.documents or "file")) for some in lines)
        return Corpora(train, validation, {"test": test})
    train = read_source(config, config.train)
    if config.validation_files:
        validation = read_source(config, config.validation_files)
    else:
        train, validation = split_off(train, config.validation_share or VALIDATION_SHARE)
    return Corpora(train, validation, {VALIDATION: validation} | read_tests(config))


def read_tests(config, files=None, tokenizer=None):
    """Reads the test sets of files, or for `None` those of the settings: dictionary by name."""
    if files is None and not config.train:
        return {"test": read_corpora(config).tests["test"]}
    taken = [VALIDATION] if files is None else config.names_of_tests
    selected = named_apart(named_files(config.test if files is None else files, ENDING), taken)
    return {name: read_source(config, paths, tokenizer) for name, paths in selected.items()}


def read_source(config, paths, tokenizer=None):
    """Reads text files as a list of documents, or a token file as `TokenFile`."""
    check_marks(config, tokenizer or given_tokenizer(config), paths)
    if is_tokens(*paths):
        if len(paths) > 1:
            raise ValueError(f"Give text files, or one token file. Received: {' '.join(paths)}")
        return open_tokens(paths[0], tokenizer or given_tokenizer(config))
    return list(itertools.chain.from_iterable(read_documents(path, config.documents) for path in paths))


def is_tokens(*paths):
    """Returns True if one of the files is a token file, by its name."""
    return any(str(path).endswith(".bin") for path in paths)


def open_tokens(path, tokenizer):
    """Opens a token file, which must be of this tokenizer."""
    if tokenizer is None:
        raise ValueError(
            "A token file needs its tokenizer: give --tokenizer bytes or a tokenizer.json, or --checkpoint. "
            f"Received: {path} and a tokenizer that is learned"
        )
    tokens = TokenFile(path, tokenizer)
    if (largest := tokens.tokens[:CHECKED].max()) >= tokenizer.vocabulary_size:
        raise ValueError(
            f"The tokenizer must be that of the token file, whose ids are below {tokenizer.vocabulary_size:,}. "
            f"Received: {largest:,} in {path}"
        )
    return tokens


def read_documents(path, kind=None):
    """Yields the documents of text files, plain or compressed, but for empty ones.

    U+FFFD replaces bytes that are not UTF-8, which is said.

    Args:
        path: str or path of a text file, a tar archive of some, a TFRecord file whose examples have a `"text"`, or a
            folder of such files.
        kind: `"line"`, `"blank_line"`, `"file"`, or `"record"`, the `"text"` of a JSON object a line. Default `None`:
            records of `.jsonl`, else the file.
    """
    replaced, is_empty = 0, True
    for file, _ in files_below(path):
        read = read_records(file) if ".tfrecord" in file.name else read_file(file, kind)
        with damage_reported(file):
            for document in filter(None, read):
                replaced, is_empty = replaced + document.count("\ufffd"), False
                yield document
    if is_empty:
        raise ValueError(f"A text must not be empty. Received: {path}")
    if replaced:
        print(f"{path}: {replaced:,} characters are U+FFFD, or bytes that are not UTF-8", file=sys.stderr)


def read_file(path, kind):
    """Yields the documents of a text file, or of those in an archive; see `read_documents`."""
    with open(path, "rb") as file:
        is_archive = is_tar(decompressed(file).read(TAR_BLOCK))
    with open(path, "rb") as file:
        if not is_archive:
            yield from read_text(decompressed(file), path, kind)
            return
        with open_archive(file) as archive:
            for member in filter(tarfile.TarInfo.isfile, archive):
                if not pathlib.PurePath(member.name).name.startswith("."):
                    with archive.extractfile(member) as inner:
                        text = decompressed(io.BufferedReader(inner))
                        yield from read_text(text, f"{path}, {member.name}", kind)


def read_text(file, name, kind):
    """Yields the documents of an open file; see `read_documents`."""
    yield from split_lines(decode_lines(file, name, strip=False, errors="replace"), kind_of(name, kind), name)


def kind_of(name, kind):
    """Returns the kind of a file's documents: `kind`, or for `None` that of its name."""
    is_record = re.search(r"[.]tfrecord[^/]*$|[.]jsonl([.](gz|xz|bz2))?$", str(name), re.IGNORECASE)
    return kind or ("record" if is_record else "file")


def read_records(path):
    """Yields the feature `"text"` of each example of a TFRecord file."""
    compression = "GZIP" if path.suffix == ".gz" else ""
    try:
        for record in tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator():
            values = tf.train.Example.FromString(record).features.feature["text"].bytes_list.value
            if len(values) != 1:
                raise ValueError(f'Examples of {path} must each have one "text". Received: one with {len(values)}')
            yield values[0].decode("utf-8", "replace")
    except (tf.errors.DataLossError, DecodeError) as error:
        raise ValueError(f"A TFRecord file of examples is needed. Received: {path} ({error})") from None


def split_lines(lines, kind, name=None):
    """Yields the documents of lines with line ends; see `read_documents`."""
    if kind == "file":
        yield "".join(lines)
    elif kind == "line":
        yield from (line.rstrip("\r\n") for line in lines)
    elif kind == "blank_line":
        for is_blank, group in itertools.groupby(lines, lambda line: not line.strip()):
            if not is_blank:
                yield "".join(group).rstrip("\r\n")
    else:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield text_of_record(line, f"{name}, line {number}")


def text_of_record(line, name):
    """Returns the `"text"` of a JSON object."""
    record = parse_json(line, name)
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError(f'{name} must be a JSON object with a str "text". Received: {line.strip()[:60]}')
    return record["text"]


def split_off(corpus, share):
    """Splits a share off the end of a corpus, between documents where a border is near, and returns both sides."""
    if isinstance(corpus, TokenFile):
        return corpus.split(share)
    ends = np.cumsum([len(document) for document in corpus])
    if not 0 < round(ends[-1] * share) < ends[-1]:
        raise ValueError(f"--validation must leave text on both sides. Received: {share} of {ends[-1]:,} characters")
    place = round(ends[-1] * (1 - share))
    near = ends[np.abs(ends - place).argmin()]
    place = near if abs(near - place) <= ends[-1] * share / 2 else place
    index = int(np.searchsorted(ends, place))
    cut = len(corpus[index]) - (ends[index] - place)
    sides = [*corpus[:index], corpus[index][:cut]], [corpus[index][cut:], *corpus[index + 1 :]]
    return [list(filter(None, side)) for side in sides]


def describe(corpora):
    """Returns sizes and checksums of training and validation sets: of texts whole, of blocks of token files."""
    return {name: _described(getattr(corpora, of)) for name, of in (("training", "train"), ("validation", VALIDATION))}


def _described(corpus):
    if not isinstance(corpus, TokenFile):
        return {"examples": sum(map(len, corpus)), "sha256": checksum(corpus)}
    starts = np.linspace(0, max(0, len(corpus) - BLOCK), BLOCKS).astype(int)
    blocks = b"".join(corpus.tokens[start : start + BLOCK].tobytes() for start in starts)
    return {"examples": len(corpus), "sha256": hashlib.sha256(blocks).hexdigest()}


def given_tokenizer(config):
    """Returns the tokenizer of the checkpoint or that of the settings; `None` if it is learned from the text."""
    if config.checkpoint:
        return tokenizer_of(config.checkpoint)
    if config.tokenizer == "bytes":
        return ByteTokenizer()
    return None if config.tokenizer in LEARNED else read_tokenizer(config.tokenizer)


def read_tokenizer(path):
    """Reads a tokenizer.json: of a run, of `prepare`, or one or a tokenizer.model in the folder of a checkpoint."""
    values = read_json(path) if str(path).endswith(".json") else None
    is_ours = isinstance(values, dict) and str(values.get("registered_name")).startswith("keras_headattn>")
    tokenizer = saved_tokenizer(path) if is_ours else tokenizer_of(pathlib.Path(path).parent)
    if not isinstance(tokenizer, BytePairTokenizer | ByteTokenizer | CharacterTokenizer | ByteFallbackTokenizer):
        raise ValueError(
            "--tokenizer must be of bytes, byte pairs or characters, as language models have them. "
            f"Received: a {type(tokenizer).__name__} in {path}"
        )
    return tokenizer


def make_tokenizer(config, documents, held_out=()):
    """Returns the tokenizer of the settings, which it learns from the training documents if need be.

    Characters are those of the held-out documents, too.
    """
    if (tokenizer := given_tokenizer(config)) is not None:
        return tokenizer
    if config.tokenizer == "byte_pairs":
        return train_byte_pairs(documents, config.vocabulary_size)
    return CharacterTokenizer(characters_of(itertools.chain(documents, held_out)))


def characters_of(documents):
    """Returns the characters of texts, sorted."""
    characters = set()
    for document in documents:
        characters.update(document)
    return sorted(characters)


def check_characters(tokenizer, tests, tasks):
    """Checks before training that a tokenizer of characters has those of the test sets and tasks."""
    if isinstance(tokenizer, CharacterTokenizer):
        of_tasks = {
            name: ["".join(option) for item in items for option in item.options] for name, items in tasks.items()
        }
        for name, documents in (*tests.items(), *of_tasks.items()):
            if not isinstance(documents, TokenFile):
                encode(tokenizer, "".join(characters_of(documents)), name)


def encode(tokenizer, text, name):
    """Returns the ids of a text, int32 `(T,)`."""
    with naming(name):
        return tokenizer.encode([text])[0]


def ids_of(corpus, tokenizer, name):
    """Returns the ids of a corpus `(T,)`, with the marks of documents."""
    if isinstance(corpus, TokenFile):
        return corpus.tokens
    with naming(name), tempfile.TemporaryDirectory() as folder:
        return np.array(write_tokens(pathlib.Path(folder, "ids.bin"), corpus, tokenizer).tokens)


def write_files(run, corpora, tokenizer):
    """Returns the `TokenFile`s of the training and validation sets; documents are written into the run's folder."""
    files = []
    for name, corpus in (("train", corpora.train), ("validation", corpora.validation)):
        path = run.folder / f"{name}.bin"
        if not isinstance(corpus, TokenFile):
            if not all(path.with_suffix(ending).exists() for ending in (".json", ".bin")):
                with naming(name):
                    write_tokens(path, corpus, tokenizer)
            corpus = TokenFile(path, tokenizer)
        files.append(corpus)
    return files


def validation_tokens(run, config, tokenizer):
    """Returns the `TokenFile` of the validation set of a run."""
    path = run.folder / "validation.bin"
    return TokenFile(path, tokenizer) if path.exists() else read_corpora(config).validation


@contextlib.contextmanager
def naming(name):
    """Names the text in errors about its characters."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}. Or give --tokenizer bytes or byte_pairs.") from None


def check_marks(config, tokenizer, paths):
    """Checks that the tokenizer has a token that begins or ends documents, if it must; `None` if it is learned."""
    has_marks = config.tokenizer == "byte_pairs" if tokenizer is None else max(tokenizer.bos_id, tokenizer.eos_id) >= 0
    files = (file for path in paths for file, _ in files_below(path))
    if not has_marks and (config.marks_documents or any(kind_of(file, config.documents) != "file" for file in files)):
        raise ValueError(
            "--rows documents, --separate-documents and documents smaller than a file need a tokenizer that marks "
            f"documents: give --tokenizer bytes or byte_pairs. Received: tokenizer={config.tokenizer}"
        )


def check_files(config):
    """Checks that the files of a run can be opened, reads tasks, and compares the tokenizer with what it is for."""
    if config.checkpoint:
        check_checkpoint(config.checkpoint, "--checkpoint", "openai-community/gpt2")
    tokenizer = given_tokenizer(config)
    read_tasks(config.tasks, config.shots)
    for paths in (config.train, config.validation_files, *([path] for path in config.test)):
        check_marks(config, tokenizer, paths)
        if is_tokens(*paths):
            read_source(config, paths, tokenizer)
        for path, _ in itertools.chain.from_iterable(map(files_below, paths)):
            with path.open("rb"):
                pass

"""The text of pre-training as records: its word pieces, and the sequences that it is packed to."""

import functools
import hashlib
import json
import math
import os
import pathlib

from keras_headattn._files import checksum, read_json, write_atomically
from keras_headattn._sentences import sample_lines
from keras_headattn.data import begin_records
from keras_headattn.text import WordPieceTokenizer
from recipes.engine.data import learn_tokenizer
from recipes.engine.encoders import kept_tokenizer
from recipes.engine.number_words import number_documents
from recipes.engine.progress import progress_bar
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.records import checksums_of, is_complete, make_records
from recipes.pretrain.documents import Documents
from recipes.pretrain.records import adopt_sequences, write_sequences

VOCABULARY = "vocab.txt"
TOKENIZER = "tokenizer.json"  # of a run


def prepare(config, repair=False, checksums=True):
    """Writes the vocabulary and the records of the text, or finds them complete.

    An interrupted call is continued; see `make_records` for `repair`, `checksums`, other processes and errors.
    """
    folder = pathlib.Path(config.records_folder)
    is_adopted = config.data == "records"

    def made_of():
        vocabulary_checksum = {VOCABULARY: checksum(config.vocabulary)} if config.vocabulary else {}
        settings = {"max_length": config.max_length} if is_adopted else _made_of(config, folder)
        return settings | checksums_of(folder, [VOCABULARY]) | vocabulary_checksum

    begin = functools.partial(_begin_adopting if is_adopted else _begin_writing, config, folder)
    return make_records(folder, made_of, begin, repair, checksums)


def tokenizer_of(records):
    """Loads the tokenizer that records were made with: `WordPieceTokenizer`."""
    return read_vocabulary(records.folder / VOCABULARY, records.manifest["made_of"]["lowercase"])


def keep_tokenizer(run, tokenizer):
    """Returns the tokenizer in the run's folder, written if need be, so that the run needs no records later.

    A run that has another already is a `ValueError`.
    """
    path = run.folder / TOKENIZER
    kept = kept_tokenizer(path, lambda: tokenizer)
    if (kept.vocabulary, kept.lowercase) != (tokenizer.vocabulary, tokenizer.lowercase):
        raise ValueError(
            f"The run was begun with another vocabulary than the records have. Give another --run. Received: {path}"
        )
    return kept


def read_vocabulary(path, lowercase):
    """Loads a `WordPieceTokenizer` of a vocab.txt, which must have [MASK], and [PAD] as its id 0."""
    tokenizer = WordPieceTokenizer(path, lowercase=lowercase)
    if tokenizer.mask_id < 0 or tokenizer.pad_id != 0:
        raise ValueError(f"The vocabulary must have [MASK], and [PAD] as its first line. Received: {path}")
    return tokenizer


def _begin_writing(config, folder):
    lines = Documents(config.train, config.whole_files) if config.train else number_documents(seed=config.packing_seed)
    if config.train:
        lines.check()
    if config.vocabulary:
        read_vocabulary(config.vocabulary, config.lowercase)
    return lambda: _write(config, lines, folder)


def _write(config, lines, folder):
    """Writes the vocabulary and records that are missing."""
    begin_records(folder, _made_of(config, folder))
    _make_vocabulary(config, lines, folder)
    begin_records(folder, checksums_of(folder, [VOCABULARY]))
    size = getattr(lines, "num_bytes", 0)
    report = progress_bar(f"Packing {size / 1e6:,.1f} MB of text", size) if size else None
    write_sequences(
        folder,
        lines,
        read_vocabulary(folder / VOCABULARY, config.lowercase),
        config.max_length,
        config.packing_seed,
        config.shard_characters,
        min(config.processes or len(os.sched_getaffinity(0)), max(1, math.ceil(size / config.shard_characters))),
        quiet_tensorflow,
        report and (lambda shards: report(min(lines.position, size - 1))),
    )
    if report:
        report(size)
    if count := getattr(lines, "num_replaced", 0):
        print(f"{count:,} lines had bytes that are not UTF-8, which were left out.")


def _make_vocabulary(config, lines, folder):
    path = folder / VOCABULARY
    if config.vocabulary:
        begin_records(folder, {VOCABULARY: checksum(config.vocabulary)})
        write_atomically(path, pathlib.Path(config.vocabulary).read_bytes())
    elif not path.exists():
        print(f"Learning up to {config.vocabulary_size:,} word pieces from up to {config.vocabulary_lines:,} lines")
        sample = sample_lines(filter(None, lines), config.vocabulary_lines, config.packing_seed)
        learn_tokenizer(path, sample, "wordpieces", config.vocabulary_size, lowercase=config.lowercase)


def _made_of(config, folder):
    """The text, by the names and sizes of its files, as their folder may be another on another machine; settings."""
    made_of = dict(lowercase=config.lowercase, max_length=config.max_length, whole_files=config.whole_files)
    made_of |= {"seed": config.packing_seed, "shard_size": config.shard_characters}
    if not config.vocabulary:
        made_of |= dict(vocabulary_size=config.vocabulary_size, vocabulary_lines=config.vocabulary_lines)
    if config.built_in:
        return made_of | {"text": "built_in"}
    try:
        documents = Documents(config.train)
    except FileNotFoundError:
        if is_complete(folder):  # the text may be gone by now
            return made_of
        raise
    digest = hashlib.sha256(json.dumps(documents.files).encode()).hexdigest()
    return made_of | {"text": digest, "files": len(documents.files), "bytes": documents.num_bytes}


def _begin_adopting(config, folder):
    """Prepares for records that another program wrote, of which there is no manifest."""
    if (folder / "begun.json").exists() and "text" in read_json(folder / "begun.json"):
        raise ValueError(
            f"The records are not complete. Run `prepare` with the text again, which goes on. Received: {folder}"
        )
    path = pathlib.Path(config.vocabulary or folder / VOCABULARY)
    if not path.is_file():
        raise ValueError(
            f"Records of another program need their vocabulary: give --vocabulary vocab.txt. Received: {folder}"
        )
    size = read_vocabulary(path, config.lowercase).vocabulary_size
    settings = {"max_length": config.max_length, "lowercase": config.lowercase}

    def write():
        begin_records(folder, settings | {VOCABULARY: checksum(path)})
        write_atomically(folder / VOCABULARY, path.read_bytes())
        count = len(list(folder.glob("*tfrecord*")))
        adopt_sequences(folder, config.max_length, size, progress_bar(f"Reading the records in {folder}", count))

    return write

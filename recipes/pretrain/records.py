"""Text packed to sequences of one length and kept as records, by several processes, as ELECTRA's program does."""

import functools
import json
import pathlib

import numpy as np
from keras.saving import deserialize_keras_object, serialize_keras_object

from keras_headattn._files import remove_halves
from keras_headattn.data import begin_records, describe_shard, finish_records, write_shard
from recipes.pretrain.packing import COLUMNS, SHORTEST_TARGET, pack_lines, sequence_row
from recipes.pretrain.processes import in_processes

PAD_ID = 0  # of records


def write_sequences(
    folder,
    lines,
    tokenizer,
    max_length=128,
    seed=0,
    shard_size=2**24,
    processes=1,
    begin=None,
    progress=None,
):
    """Packs documents to sequences, and writes them to shards, but for those that are there already: `Records`.

    A shard is a run of documents of about `shard_size` characters. Its random numbers are those of `(seed, number of
    the shard)`, so that any number of processes writes the same files. It appears when it is whole, and the manifest
    comes last. So the work may be interrupted at any time, and the next call continues it.

    Each record has `input_ids`, `input_mask` and `segment_ids`, int64 `(L,)`, padded with 0: ELECTRA's program reads
    them, and `SequenceBatches` reads its. In the manifest the tokens of `input_ids` are those of all sequences, those
    of `segment_ids` are of their second segments, and a shard's `pairs` is the number of sequences that have one.

    Args:
        folder: path, which has been claimed (see `begin_records`) for this text and vocabulary.
        lines: iterable of str, an empty one after each document, such as `Documents`; gone through once.
        tokenizer: `text.WordPieceTokenizer`, whose `[PAD]` is 0.
        max_length: int, L, tokens of a sequence with its special ones. Default 128.
        seed: int. Default 0.
        shard_size: int, characters of text in a shard. A document that is longer than two shards is split. Default
            16,777,216.
        processes: int, how many shards are made at the same time. More than one are processes of their own, which
            import the program's main module. Default 1: in this process.
        begin: picklable function without arguments, which further processes call first. Default `None`: none.
        progress: function of (shards done), called after each.

    ```python
    tokenizer = WordPieceTokenizer("vocab.txt")
    documents = Documents("openwebtext.tar")
    begin_records(folder, {"text": "openwebtext"})
    records = write_sequences(folder, documents, tokenizer, processes=8)
    ```
    """
    if max_length <= SHORTEST_TARGET:
        raise ValueError(f"`max_length` must be above {SHORTEST_TARGET}. Received: max_length={max_length}")
    if tokenizer.pad_id != PAD_ID:
        raise ValueError(f"`tokenizer` must have [PAD] as its id 0. Received: [PAD] as id {tokenizer.pad_id}")
    folder = pathlib.Path(folder)
    begin_records(folder, {"max_length": max_length, "seed": seed, "shard_size": shard_size})
    remove_halves(folder, "shard-")
    text = json.dumps(serialize_keras_object(tokenizer))
    write = functools.partial(_write_group, folder, text, max_length, seed)
    shards = []
    for shard in in_processes(write, enumerate(_groups(lines, shard_size)), processes, begin):
        shards.append(shard)
        if progress:
            progress(len(shards))
    tokens = sum(sum(shard["histogram"]["tokens"]["input_ids"]) for shard in shards)
    if tokens < max_length:
        raise ValueError(
            f"The text must fill a sequence of {max_length} tokens. Received: {tokens} tokens, special ones included"
        )
    return finish_records(folder, COLUMNS, shards)


def adopt_sequences(folder, max_length, vocabulary_size, progress=None):
    """Writes the manifest of a folder of sequences that another program, such as ELECTRA's, wrote: `Records`.

    The folder has been claimed, and its files have `tfrecord` in their names. Every sequence must have `max_length`
    tokens, padding included, below `vocabulary_size`. `progress` is called with the number of files done.
    """
    folder = pathlib.Path(folder)
    paths = sorted(path for path in folder.glob("*tfrecord*") if not path.name.startswith("."))
    if not paths:
        raise ValueError(f"The folder must have TFRecord files of sequences. Received: {folder}, which has none")
    begin_records(folder, {"max_length": max_length})
    shards = []
    for path in paths:
        shards.append(describe_sequences(path, max_length, vocabulary_size))
        if progress:
            progress(len(shards))
    return finish_records(folder, COLUMNS, shards)


def describe_sequences(path, max_length, vocabulary_size):
    """Describes a shard of sequences as `data.describe_shard` does, and counts its `pairs`.

    A damaged file, other lengths, or ids beyond the vocabulary are errors.
    """
    pairs = 0

    def count(block):
        nonlocal pairs
        ids, mask, segments = (_checked(path, block[name], max_length) for name in COLUMNS)
        if ids.min(initial=0) < 0 or ids.max(initial=0) >= vocabulary_size:
            token = ids[(ids < 0) | (ids >= vocabulary_size)][0]
            raise ValueError(
                f"Records must be of this vocabulary, of {vocabulary_size} tokens. Received: the id {token} in {path}"
            )
        pairs += int(segments.any(axis=1).sum())
        return {name: values.sum(axis=1) for name, values in zip(COLUMNS, (mask, mask, segments), strict=True)}

    return describe_shard(path, COLUMNS, count) | {"pairs": pairs}


def _checked(path, ragged, max_length):
    """Returns a column of a block, `(rows, L)`."""
    lengths = ragged.row_lengths().numpy()
    if (lengths != max_length).any():
        length = lengths[lengths != max_length][0]
        raise ValueError(f"Sequences must have {max_length} tokens. Received: one of {length} in {path}")
    return ragged.flat_values.numpy().reshape(-1, max_length)


def _groups(lines, size):
    """Yields lists of lines, the text of a shard each: whole documents, of at least so many characters together."""
    group, held = [], 0
    for line in lines:
        group.append(line)
        held += len(line)
        if held >= size and (not line or held >= 2 * size):
            yield group
            group, held = [], 0
    if held:
        yield group


def _write_group(folder, tokenizer, max_length, seed, numbered):
    """Writes the shard of a group, if it is not there and whole; returns its entry in the manifest."""
    index, group = numbered
    path, tokenizer = folder / f"shard-{index:05d}.tfrecord", _tokenizer(tokenizer)
    arguments = (max_length, tokenizer.vocabulary_size)
    try:
        return describe_sequences(path, *arguments)
    except ValueError:  # it is missing or damaged
        write_shard(path, packed_rows(group, tokenizer, max_length, np.random.default_rng([seed, index])))
    return describe_sequences(path, *arguments)


def packed_rows(lines, tokenizer, max_length, rng):
    """Yields the sequences that lines of text are packed to, as `sequence_row` returns them."""
    ids = (tokens[1:-1].tolist() for tokens in tokenizer.encode(lines))  # without [CLS] and [SEP]
    tokenised = (some if line else None for line, some in zip(lines, ids, strict=True))
    for first, second in pack_lines(tokenised, max_length, rng):
        yield sequence_row(first, second, max_length, tokenizer.bos_id, tokenizer.eos_id)


@functools.lru_cache(1)
def _tokenizer(text):
    return deserialize_keras_object(json.loads(text))

"""Tokenised corpora in TFRecord shards: written once, checked, and read piece by piece.

A record is a `tf.train.Example` with two lists of ids, `inputs` and `targets`, as tensor2tensor has them.
"""

import hashlib
import itertools
import json
import pathlib

import numpy as np
import tensorflow as tf

from keras_headattn._files import atomic_path, write_atomically
from keras_headattn.data._cleaning import CleaningReport, clean_pairs

MANIFEST = "corpus.json"
# Until the manifest is there: what the shards are made of, so that nobody goes on with other settings.
BEGUN = "begun.json"
ENCODED_TOGETHER = 2_000
HISTOGRAM = ("length", "pairs", "source_tokens", "target_tokens")


class Records:
    """A folder of shards with its manifest, `corpus.json`, which says what they hold and what they are made of.

    Args:
        folder: str or path.

    Raises:
        FileNotFoundError: if there is no manifest.

    The manifest has `made_of` (settings and the checksum of the vocabulary), `pairs`, `source_tokens`,
    `target_tokens`, and `shards`: for each one its name, bytes, SHA-256, number of pairs, and a histogram. That has
    four columns: `length` (of the longer side), and how many `pairs`, `source_tokens` and `target_tokens` there are
    of that length.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not (self.folder / MANIFEST).exists():
            raise FileNotFoundError(
                f"{self.folder} has no {MANIFEST}: its records are not complete. Run `prepare`, which goes on from "
                "the shards that are there."
            )
        self.manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        self.shards = self.manifest["shards"]

    def histogram(self, shards=None):
        """Columns of the histogram of these shards, or of all: a dict of int arrays."""
        columns = [shard["histogram"] for shard in (self.shards if shards is None else shards)]
        return {name: np.concatenate([np.array(c[name], "int64") for c in columns]) for name in HISTOGRAM}

    def faults(self, progress=None):
        """Reads every shard and compares it with its checksum.

        Args:
            progress: function of (shards done), called after each.

        Returns:
            Dict of shard name to what is wrong with it.
        """
        faults = {}
        for number, shard in enumerate(self.shards, 1):
            path = self.folder / shard["name"]
            if not path.exists():
                faults[shard["name"]] = "missing"
            elif path.stat().st_size != shard["bytes"]:
                faults[shard["name"]] = f"{path.stat().st_size} bytes in place of {shard['bytes']}"
            elif checksum(path) != shard["sha256"]:
                faults[shard["name"]] = "damaged: another checksum"
            if progress:
                progress(number)
        return faults

    def check(self, progress=None):
        """Whether all shards are as they were written.

        Raises:
            ValueError: that names those which are not.
        """
        if faults := self.faults(progress):
            found = ", ".join(f"{name} ({fault})" for name, fault in faults.items())
            raise ValueError(f"Run `prepare` again, which writes such shards anew. Received: in {self.folder}, {found}")

    def reopen(self, faults):
        """Removes these shards and the manifest, so that `write_records` writes what is missing."""
        write_atomically(self.folder / BEGUN, _json(self.manifest["made_of"]))
        (self.folder / MANIFEST).unlink()
        for name in faults:
            (self.folder / name).unlink(missing_ok=True)


def claim(folder, made_of):
    """Notes what the records in a folder are made of, and refuses a folder of records made of something else.

    Args:
        folder: path.
        made_of: dict of JSON values; more may be added in a later call.

    Raises:
        ValueError: that names what is different.
    """
    complete = (folder / MANIFEST).exists()
    path = folder / (MANIFEST if complete else BEGUN)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = known["made_of"] if complete else known
    different = [
        f"{name}={known[name]!r} (now {value!r})" for name, value in made_of.items() if known.get(name, value) != value
    ]
    if different:
        raise ValueError(
            f"The records in {folder} are made with other settings. Give another --records, or remove the folder. "
            f"Received: {', '.join(different)}"
        )
    if not complete:
        write_atomically(path, _json(known | made_of))


def write_records(folder, corpus, encode, cleaning, shard_lines=100_000, progress=None):
    """Cleans and encodes a corpus into shards, those that are there already left out, and writes the manifest last.

    Shard number i holds what cleaning leaves of lines `i * shard_lines` to `(i + 1) * shard_lines`. It appears when
    it is whole. So the work may be interrupted at any time, and the next call goes on.

    Args:
        folder: path, which has been claimed (see `claim`).
        corpus: `ParallelCorpus`, gone through once.
        encode: function that takes a list of (source, target) sentences and returns two lists of integer arrays.
        cleaning: dict of arguments of `clean_pairs`.
        shard_lines: int, lines of the corpus in a shard. Default 100,000.
        progress: function of (lines done).

    Returns:
        Tuple (`Records`, `CleaningReport`).

    Raises:
        ValueError: if no pair is left.
    """
    for path in folder.glob(".shard-*"):
        path.unlink()  # halves that a killed process left
    report, lines, shards = CleaningReport(corpus.name), iter(corpus), []
    for start in range(0, len(corpus), shard_lines):
        path = folder / f"shard-{len(shards):05d}.tfrecord"
        kept = clean_pairs(itertools.islice(lines, shard_lines), report, **cleaning)
        whole = _describe_if_whole(path)
        if whole is None:
            write_shard(path, _encoded(kept, encode, report, progress))
        elif whole["pairs"] != sum(1 for _ in kept):
            raise ValueError(
                f"The text is not the one that {path} was made of. Remove {folder}, or give another --records. "
                f"Received: {corpus.name}"
            )
        shards.append(whole or describe_shard(path))
        if progress:
            progress(min(start + shard_lines, len(corpus)))
    totals = {name: sum(sum(shard["histogram"][name]) for shard in shards) for name in HISTOGRAM[1:]}
    if not totals["pairs"]:
        raise ValueError(f"No sentence pair is left after cleaning.\n{report}\nReceived: {cleaning}")
    begun = json.loads((folder / BEGUN).read_text(encoding="utf-8"))
    write_atomically(folder / MANIFEST, _json({"made_of": begun, **totals, "shards": shards}))
    (folder / BEGUN).unlink()
    return Records(folder), report


def _encoded(pairs, encode, report, progress):
    """Pairs of ids, encoded a few thousand at a time."""
    done = report.total
    while some := list(itertools.islice(pairs, ENCODED_TOGETHER)):
        if progress:
            progress(done)
        yield from zip(*encode(some), strict=True)
        done = report.total


def write_shard(path, pairs):
    """Writes a TFRecord file that appears under its name when it is whole.

    Args:
        path: path.
        pairs: iterable of (source, target), integer arrays.
    """
    with atomic_path(path) as temporary, tf.io.TFRecordWriter(str(temporary)) as writer:
        for source, target in pairs:
            features = {"inputs": _feature(source), "targets": _feature(target)}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def _feature(ids):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.asarray(ids).tolist()))


def describe_shard(path):
    """The entry of a shard in the manifest: a dict. The whole file is read, and its checksums compared.

    Raises:
        ValueError: if the file is damaged.
    """
    lengths = [np.zeros((0, 2), "int64")]
    try:
        for source, target in read_blocks([str(path)], 10_000):
            lengths.append(np.stack([source.row_lengths(), target.row_lengths()], axis=1))
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(f"The shard is damaged. Received: {path}: {error.message}") from error
    sides = np.concatenate(lengths)
    values, places = np.unique(sides.max(axis=1), return_inverse=True)
    columns = [values, *(np.bincount(places, weights) for weights in (None, sides[:, 0], sides[:, 1]))]
    return {
        "name": path.name,
        "bytes": path.stat().st_size,
        "sha256": checksum(path),
        "pairs": len(sides),
        "histogram": {name: column.astype(int).tolist() for name, column in zip(HISTOGRAM, columns, strict=True)},
    }


def _describe_if_whole(path):
    """As `describe_shard`; `None` for a file that is missing or damaged."""
    try:
        return describe_shard(path) if path.exists() else None
    except ValueError:
        return None


def read_blocks(paths, size, parallel=1):
    """Reads shards piece by piece.

    Args:
        paths: list of str.
        size: int, pairs in a block; the last has fewer.
        parallel: int, how many shards are read at the same time, a few records of each in turn. Default 1.

    Yields:
        Tuples (source, target) of ragged tensors, int64, (pairs in the block, ids).
    """
    features = {name: tf.io.RaggedFeature(tf.int64) for name in ("inputs", "targets")}
    records = tf.data.Dataset.from_tensor_slices(paths).interleave(
        tf.data.TFRecordDataset, cycle_length=parallel, block_length=16
    )
    for block in records.batch(size).map(lambda some: tf.io.parse_example(some, features)).prefetch(1):
        yield block["inputs"], block["targets"]


def checksum(path):
    """SHA-256 of a file, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(value):
    return (json.dumps(value, ensure_ascii=False) + "\n").encode("utf-8")

"""Tokenised corpora in TFRecord shards of `tf.train.Example`, with a list of ids for each column."""

import itertools
import json
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_headattn._files import Path, checksum, read_json, remove_halves, write_atomically
from keras_headattn.data._shards import describe_shard, write_shard

MANIFEST = "corpus.json"
BEGUN = "begun.json"  # settings of the shards, until the manifest is written
ENCODED_TOGETHER = 2_000


class Records:
    """Folder of TFRecord shards with its manifest, `corpus.json`.

    Args:
        folder: path.

    Attributes:
        columns: list of the columns' names.
        shards: list of dicts with `name`, `bytes`, `sha256`, number of `examples`, and `histogram`: for each `length`
            of an example's longest column, the number of `examples`, and their `tokens` by column.
        manifest: dict with `made_of` (see `begin_records`), `columns`, `examples`, `tokens` (by column) and `shards`.

    Raises:
        FileNotFoundError: if there is no manifest.
        ValueError: if it is damaged, or names files outside the folder.

    ```python
    records = Records("records")
    histogram = records.histogram()
    bucket_lengths = choose_buckets(histogram["length"], 6, counts=histogram["examples"])
    ```
    """

    def __init__(self, folder: Path):
        self.folder = pathlib.Path(folder)
        path = self.folder / MANIFEST
        if not path.is_file():
            raise FileNotFoundError(
                f"The records are not complete, as there is no {MANIFEST}. `write_records` continues from the existing "
                f"shards. Received: {self.folder}"
            )
        manifest = read_json(path)
        try:
            self.manifest = manifest
            self.columns = self.manifest["columns"]
            self.shards = self.manifest["shards"]
            _check_shards(self.shards, self.columns)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"The manifest of the records is damaged: {type(error).__name__}: {error}. Received: {path}"
            ) from error

    def histogram(self) -> dict[str, Any]:
        """Returns the combined histogram of all shards: int arrays `length` and `examples`, and a dict, `tokens`."""
        histograms = [shard["histogram"] for shard in self.shards]

        def joined(parts):
            return np.concatenate([np.array(part, "int64") for part in parts])

        tokens = {name: joined(part["tokens"][name] for part in histograms) for name in self.columns}
        return {name: joined(part[name] for part in histograms) for name in ("length", "examples")} | {"tokens": tokens}

    def faults(self, progress: Callable[[int], Any] | None = None, checksums: bool = True) -> dict[str, str]:
        """Compares every shard with its size and checksum, and returns a dict from shard name to fault.

        Args:
            progress: function of the number of shards done.
            checksums: False to compare sizes alone, without reading the shards.
        """
        faults = {}
        for count, shard in enumerate(self.shards, 1):
            path = self.folder / shard["name"]
            if not path.exists():
                faults[shard["name"]] = "missing"
            elif path.stat().st_size != shard["bytes"]:
                faults[shard["name"]] = f"{path.stat().st_size} bytes in place of {shard['bytes']}"
            elif checksums and checksum(path) != shard["sha256"]:
                faults[shard["name"]] = "damaged: another checksum"
            if progress:
                progress(count)
        return faults

    def reopen(self, faults: Collection[str]) -> None:
        """Removes shards and the manifest, so that `write_records` writes what is missing.

        Args:
            faults: names of the shards, such as from the method `faults`.
        """
        write_atomically(self.folder / BEGUN, _json(self.manifest["made_of"]))
        (self.folder / MANIFEST).unlink()
        for name in faults:
            (self.folder / name).unlink(missing_ok=True)


def _check_shards(shards, columns):
    """Checks that shards are files of this folder with consistent counts."""
    for shard in shards:
        name, histogram = shard["name"], shard["histogram"]
        if pathlib.PurePath(name).name != name or name in ("", "..") or "\0" in name:
            raise ValueError(f"a shard must be a file in the folder, not {name!r}")
        counts = [histogram["length"], histogram["examples"], *(histogram["tokens"][column] for column in columns)]
        counts = np.array(counts, "int64")
        if counts.ndim != 2 or counts.min(initial=0) < 0 or counts[1].sum() != shard["examples"]:
            raise ValueError(f"the counts of {name} do not agree")


def begin_records(folder: Path, made_of: dict[str, Any]) -> None:
    """Claims a folder for records made with these settings.

    Args:
        folder: path.
        made_of: dict of JSON values; a later call may add more.

    Raises:
        ValueError: if the folder has records made with other settings, naming the differences.
    """
    folder = pathlib.Path(folder)
    complete = (folder / MANIFEST).exists()
    path = folder / (MANIFEST if complete else BEGUN)
    known = read_json(path) if path.exists() else {}
    known = known.get("made_of") if complete and isinstance(known, dict) else known
    if not isinstance(known, dict):
        raise ValueError(f"The file must say what the records are made of. Received: {path}: {str(known)[:60]}")
    different = [
        f"{name}={known[name]!r} (now {value!r})" for name, value in made_of.items() if known.get(name, value) != value
    ]
    if different:
        raise ValueError(
            f"The records in {folder} were made with other settings: use those, or another folder, or delete it. "
            f"Received: {', '.join(different)}"
        )
    if not complete:
        write_atomically(path, _json(known | made_of))


def write_records(
    folder: Path,
    corpus: Collection[Any],
    columns: Sequence[str],
    encode: Callable[[list[Any]], Mapping[str, Sequence[np.ndarray]]],
    clean: Callable[[Iterator[Any]], Iterable[Any]] = iter,
    shard_lines: int = 100_000,
    progress: Callable[[int], Any] | None = None,
) -> Records:
    """Cleans and encodes a corpus into shards, skips those that exist, and writes the manifest last.

    Shard i holds what cleaning keeps of lines `i * shard_lines` to `(i + 1) * shard_lines`. Files appear when they are
    complete, so that the next call continues interrupted work.

    Args:
        folder: path, claimed by `begin_records`.
        corpus: sized iterable of lines, such as pairs of a `ParallelCorpus`; iterated over once.
        columns: names of the columns.
        encode: function from a list of lines to a dict from column to a list of integer arrays, one for each line.
        clean: function from an iterator of lines to those to keep. Default: all.
        shard_lines: lines of the corpus in a shard.
        progress: function of the number of lines done.

    Raises:
        ValueError: if `encode` returns other columns, existing shards hold another number of lines, or no line is left.

    ```python
    begin_records(folder, {"vocabulary": "abc"})
    clean = functools.partial(clean_pairs, report=CleaningReport("my corpus"))
    records = write_records(folder, stream, ("inputs", "targets"), encode, clean)
    ```
    """
    folder = pathlib.Path(folder)
    remove_halves(folder, "shard-")
    lines, shards = _counted(corpus, progress), []
    for index in range(-(-len(corpus) // shard_lines)):
        path = folder / f"shard-{index:05d}.tfrecord"
        kept = clean(itertools.islice(lines, shard_lines))
        try:
            shard = describe_shard(path, columns)
        except ValueError:  # it is missing or damaged
            shard = None
        if shard is None:
            write_shard(path, _encoded(kept, columns, encode))
            shard = describe_shard(path, columns)
        elif (number_kept := sum(1 for _ in kept)) != shard["examples"]:
            raise ValueError(
                f"The text is not the one that {path} was made of. Choose another folder, or delete this one. "
                f"Received: {number_kept} lines instead of {shard['examples']}"
            )
        shards.append(shard)
    if progress:
        progress(len(corpus))
    if not any(shard["examples"] for shard in shards):
        raise ValueError(f"No line of the text is left to write into {folder}. Received: {len(corpus)} lines")
    return finish_records(folder, columns, shards)


def finish_records(folder: pathlib.Path, columns: Sequence[str], shards: list[dict[str, Any]]) -> Records:
    """Writes the manifest, the last step of writing records; `write_records` calls it.

    Args:
        folder: path, claimed by `begin_records`.
        columns: names of the columns.
        shards: entries of the shards, from `describe_shard`.

    Raises:
        FileNotFoundError: if the folder has not been claimed.

    ```python
    begin_records(folder, {"vocabulary": "abc"})
    shards = []
    for number, rows in enumerate(parts):
        path = folder / f"shard-{number:05d}.tfrecord"
        write_shard(path, rows)
        shards.append(describe_shard(path, columns))
    records = finish_records(folder, columns, shards)
    ```
    """
    begun = read_json(folder / BEGUN)
    tokens = {name: sum(sum(shard["histogram"]["tokens"][name]) for shard in shards) for name in columns}
    examples = sum(shard["examples"] for shard in shards)
    manifest = {"made_of": begun, "columns": list(columns), "examples": examples, "tokens": tokens, "shards": shards}
    write_atomically(folder / MANIFEST, _json(manifest))
    (folder / BEGUN).unlink()
    return Records(folder)


def _counted(lines, progress):
    """Yields the lines and reports their number on the way."""
    for done, line in enumerate(lines):
        if progress and done % ENCODED_TOGETHER == 0:
            progress(done)
        yield line


def _encoded(lines, columns, encode):
    """Yields rows of the columns; lines are encoded a few thousand at a time."""
    while some := list(itertools.islice(lines, ENCODED_TOGETHER)):
        encoded = encode(some)
        if set(encoded) != set(columns):
            raise ValueError(f"`encode` must return the columns {', '.join(columns)}. Received: {', '.join(encoded)}")
        yield from (dict(zip(encoded, row, strict=True)) for row in zip(*encoded.values(), strict=True))


def _json(value):
    return (json.dumps(value, ensure_ascii=False) + "\n").encode("utf-8")

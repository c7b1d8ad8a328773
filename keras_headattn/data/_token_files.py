"""Corpora of token ids in memory-mapped files."""

import copy
import json
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Self

import numpy as np

from keras_headattn._files import Path, atomic_path, read_json, remove_halves, write_atomically
from keras_headattn._sentences import WORD_END, cut_text
from keras_headattn._validation import check_number

FORMATS = ("tokens", "nanogpt", "llm.c")
MAGIC, HEADER = 20240520, 1024  # llm.c's first number, and bytes before the ids
DOCUMENTS, CHARACTERS = 1_000, 2**22  # encoded together; longer documents are cut
CHUNK = 2**24  # ids that are looked through together


class TokenFile:
    """Token ids of a corpus in a file, memory-mapped, never read whole.

    Three formats are read. Our own is `NAME.bin`, ids as little-endian uint16 or uint32, with `NAME.json`, which
    describes them. Without `NAME.json` the file is nanoGPT's, uint16 alone, or llm.c's, uint16 after 256 int32
    (20240520, 1, the number of ids).

    Args:
        path: path of `NAME.bin`.
        tokenizer: tokenizer of the ids, with a `fingerprint`, which must be that of the file. Files of nanoGPT and
            llm.c have none, and take `vocabulary_size`, `bos_id` and `eos_id` from it. Default `None`: not checked.

    Attributes:
        tokens: uint16 or uint32 (T,), the memory map.
        vocabulary_size: int, or `None` if it is not known.
        bos_id, eos_id: id that begins each document, and id that ends each; -1 without.
        manifest: content of `NAME.json`: `version`, `dtype`, numbers of `tokens`, `documents`, `empty_documents` (left
            out) and `bytes` of text, `vocabulary_size`, `bos_id`, `eos_id`, `fingerprint`. Empty for other formats.

    Raises:
        FileNotFoundError: if there is no such file, such as after an interruption.
        ValueError: if it is empty, damaged, or of another tokenizer.

    ```python
    tokens = TokenFile("corpus.bin", tokenizer)
    train, validation = tokens.split(0.1)
    ```
    """

    def __init__(self, path: Path, tokenizer: Any = None):
        self.path = pathlib.Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"There is no such token file. Received: {self.path}")
        described = self.path.with_suffix(".json")
        self.manifest = _read_manifest(described) if described.exists() else {}
        dtype, offset, count = self._layout()
        size = self.path.stat().st_size - offset
        if not size or size % np.dtype(dtype).itemsize or count not in (None, size // np.dtype(dtype).itemsize):
            raise ValueError(
                f"The token file must have {'some' if count is None else f'{count:,}'} ids of type {dtype}. "
                f"Received: {size:,} bytes in {self.path}"
            )
        self.tokens: np.ndarray = np.memmap(self.path, dtype, "r", offset)
        self.vocabulary_size: int | None = self._read("vocabulary_size", tokenizer, None)
        self.bos_id: int = self._read("bos_id", tokenizer, -1)
        self.eos_id: int = self._read("eos_id", tokenizer, -1)
        known = self.manifest.get("fingerprint")
        if tokenizer is not None and known not in (None, tokenizer.fingerprint):
            raise ValueError(
                "`tokenizer` must be that of the token file, or the text be encoded anew. "
                f"Received: fingerprint {tokenizer.fingerprint[:8]}, and {known[:8]} in {self.path}"
            )

    def _read(self, name, tokenizer, missing):
        return self.manifest.get(name, getattr(tokenizer, name, missing))

    def _layout(self):
        """Returns the type of the ids, the bytes before them, and their number or `None`."""
        if self.manifest:
            return np.dtype(self.manifest["dtype"]).newbyteorder("<"), 0, self.manifest["tokens"]
        with open(self.path, "rb") as file:
            header = np.frombuffer(file.read(HEADER)[: HEADER // 4 * 4].ljust(HEADER, b"\0"), "<i4")
        if header[0] != MAGIC:
            return "<u2", 0, None
        if header[1] != 1:
            raise ValueError(f"llm.c's token file must be of version 1. Received: version {header[1]} in {self.path}")
        return "<u2", HEADER, int(header[2])

    def __len__(self):
        return len(self.tokens)

    def document_starts(self) -> np.ndarray:
        """Returns the index of the first id of each document, int64, ascending; 0 alone if none is marked."""
        marker, offset = (self.bos_id, 0) if self.bos_id >= 0 else (self.eos_id, 1)
        parts = [np.zeros(1, "int64")]
        for begin in range(0, len(self), CHUNK) if marker >= 0 else ():
            parts.append(np.flatnonzero(self.tokens[begin : begin + CHUNK] == marker) + begin + offset)
        starts = np.unique(np.concatenate(parts))
        return starts[starts < len(self)]

    def split(self, share: float = 0.1) -> tuple[Self, Self]:
        """Splits off the end of the corpus, such as for validation, where a document begins.

        Args:
            share: share of the ids after the split, which is moved to the nearest beginning of a document. A single
                document is cut.

        Returns:
            Tuple of two `TokenFile`, the ids before and after the split.

        Raises:
            ValueError: for a share outside (0, 1), or one that leaves no ids on a side.
        """
        index = int(len(self) * (1 - check_number("share", share, above=0, below=1)))
        starts = self.document_starts()[1:]
        if len(starts):
            index = int(starts[np.abs(starts - index).argmin()])
        if not 0 < index < len(self):
            raise ValueError(f"`share` must leave ids on both sides. Received: share={share} of {len(self)} ids")
        sides = copy.copy(self), copy.copy(self)
        sides[0].tokens, sides[1].tokens = self.tokens[:index], self.tokens[index:]
        return sides


def _read_manifest(path):
    manifest = read_json(path)
    needed = dict(version=int, dtype=str, tokens=int, vocabulary_size=int, bos_id=int, eos_id=int, fingerprint=str)
    if (
        not isinstance(manifest, dict)
        or not all(type(manifest.get(name)) is kind for name, kind in needed.items())
        or manifest["version"] != 1
        or manifest["dtype"] not in ("uint16", "uint32")
    ):
        raise ValueError(f"The file must describe a token file of version 1. Received: {str(manifest):.80} in {path}")
    return manifest


def write_tokens(path: Path, texts: Iterable[str], tokenizer: Any, format: str = "tokens") -> TokenFile:
    """Encodes documents into a token file, which appears when it is complete.

    A document begins with the tokenizer's beginning token; if it has none, it ends with the end token. Empty documents
    are left out and counted. Documents of more than 4 million characters are encoded in parts, cut before spaces where
    every pre-tokenizer ends a word. Memory holds the longest document and some 250 MB. A document without spaces, or
    for SentencePiece or a tokenizer with added tokens that may span a cut, is encoded whole, at some 20 bytes a
    character.

    Args:
        path: path of the file, `NAME.bin`. `NAME.json` is written beside it.
        texts: iterable of str, the documents.
        tokenizer: `ByteTokenizer`, `CharacterTokenizer`, `ByteFallbackTokenizer`, or `BytePairTokenizer` of a language
            model.
        format: `"tokens"`, our own; or `"nanogpt"` or `"llm.c"`, for at most 65,536 tokens, without `NAME.json`.

    Returns:
        `TokenFile`.

    Raises:
        ValueError: for another suffix or format, too large a vocabulary for it, a tokenizer with a `max_length`, or
            texts that are all empty or no str.
        OSError: if the file cannot be written.

    >>> from keras_headattn.text import ByteTokenizer
    >>> tokens = write_tokens("corpus.bin", ["a cat", "", "at"], ByteTokenizer())
    >>> tokens.tokens.tolist(), tokens.document_starts().tolist()
    ([97, 32, 99, 97, 116, 256, 97, 116, 256], [0, 6])
    >>> tokens.manifest["documents"], tokens.manifest["empty_documents"], tokens.manifest["bytes"]
    (2, 1, 7)
    """
    path = pathlib.Path(path)
    dtype = np.dtype("uint16" if tokenizer.vocabulary_size <= 2**16 else "uint32")
    _check_writing(path, texts, format, tokenizer)
    remove_halves(path.parent, f"{path.name.partition('.')[0]}.")
    described = path.with_suffix(".json")
    with atomic_path(path) as temporary:
        with open(temporary, "wb") as file:
            file.write(bytes(HEADER if format == "llm.c" else 0))
            counts = _write_ids(file, texts, tokenizer, dtype)
            if not counts["documents"]:
                raise ValueError(f"`texts` must have a document that is not empty. Received: none for {path}")
            if format == "llm.c":
                file.seek(0)
                file.write(np.array([MAGIC, 1, counts["tokens"]], "<i4").tobytes())
        # Until the new file is in place there is none, so that no description is read with ids of another.
        path.unlink(missing_ok=True)
        if format == "tokens":
            names = ("vocabulary_size", "bos_id", "eos_id", "fingerprint")
            manifest = {"version": 1, "dtype": dtype.name} | counts | {name: getattr(tokenizer, name) for name in names}
            write_atomically(described, (json.dumps(manifest) + "\n").encode("utf-8"))
        else:
            described.unlink(missing_ok=True)
    return TokenFile(path, tokenizer)


def _check_writing(path, texts, format, tokenizer):
    if path.suffix != ".bin":
        raise ValueError(f"`path` of a token file must end in .bin. Received: {path}")
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"`texts` must be an iterable of str, not one. Received: {texts!r:.80}")
    if format not in FORMATS:
        raise ValueError(f"`format` must be {', '.join(FORMATS)}. Received: format={format!r}")
    if format != "tokens" and tokenizer.vocabulary_size > 2**16:
        raise ValueError(
            f"`format` {format} holds 65,536 tokens at most. Received: {tokenizer.vocabulary_size:,} tokens"
        )
    if tokenizer.max_length is not None:
        raise ValueError(f"`tokenizer` must not truncate documents. Received: max_length={tokenizer.max_length}")


def _write_ids(file: BinaryIO, texts: Iterable[str], tokenizer: Any, dtype: np.dtype) -> dict[str, int]:
    """Writes the ids of documents, and counts them."""
    counts = dict.fromkeys(("tokens", "documents", "empty_documents", "bytes"), 0)
    sizes = tokenizer.token_bytes

    def counted():
        for text in texts:
            if not isinstance(text, str):
                raise ValueError(f"`texts` must be str. Received: {text!r:.80}")
            counts["documents" if text else "empty_documents"] += 1
            yield text

    for ids in encode_documents(counted(), tokenizer):
        file.write(ids.astype(dtype.newbyteorder("<")).tobytes())
        counts["tokens"] += len(ids)
        counts["bytes"] += int(sizes[ids].sum())
    return counts


def encode_documents(texts: Iterable[str], tokenizer: Any) -> Iterator[np.ndarray]:
    """Yields the ids of documents as `write_tokens` writes them, int32, many documents or a part of one at once."""
    end = [tokenizer.eos_id] if tokenizer.bos_id < 0 <= tokenizer.eos_id else []
    num_first = int(tokenizer.bos_id >= 0)
    num_last = int(tokenizer.eos_id >= 0 and getattr(tokenizer, "add_eos", False))
    for some in _portions(texts, _can_be_cut(tokenizer)):
        rows = []
        for row, (_, begins, ends) in zip(tokenizer.encode([text for text, *_ in some]), some, strict=True):
            rows.append(row[0 if begins else num_first : len(row) - (0 if ends else num_last)])
            if ends and [*row[-1:]] != end:
                rows.append(np.array(end, "int32"))
        yield np.concatenate(rows)


def _can_be_cut(tokenizer):
    """Returns True if parts of `cut_text` have the tokens of the text: none contains or touches a cut."""
    tokens = getattr(tokenizer, "added_tokens", ())
    return getattr(tokenizer, "can_cut", True) and not any(WORD_END.search(token["content"] + " ") for token in tokens)


def _portions(texts: Iterable[str], cuts: bool) -> Iterator[list[tuple[str, bool, bool]]]:
    """Yields lists of parts of texts that fit into memory, each with whether it begins and ends its document."""
    some: list[tuple[str, bool, bool]] = []
    size = 0
    for text in filter(None, texts):
        begin = 0
        for part in cut_text(text, CHARACTERS) if cuts else [text]:
            some.append((part, begin == 0, begin + len(part) == len(text)))
            begin += len(part)
            size += len(part)
            if len(some) == DOCUMENTS or size > CHARACTERS:
                yield some
                some, size = [], 0
    if some:
        yield some

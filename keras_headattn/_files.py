"""Text files with errors that name the line, and files written completely or not at all."""

import codecs
import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import json
import os
import pathlib
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

Path = str | os.PathLike[str]
MOST_BYTES = 2**28  # of a line: a few MB of gzip may hold one that fills the memory
MOST_FLOAT = (2 - 2**-23) * 2.0**127  # the largest number of float32


def read_lines(path: Path, strip: bool = True, encoding: str | None = None, errors: str = "strict") -> Iterator[str]:
    """Yields the lines of a text file, plain or `.gz`, without byte order mark.

    Line feeds alone end lines; in a file that has none, carriage returns do.

    Args:
        path: path of the file.
        strip: True to strip white space, with the line feed.
        encoding: any that Python knows, UTF-16 too. Default `None`: UTF-8 alone, without advice on other encodings.
        errors: `"replace"` to read bytes that are not of the encoding as U+FFFD. Default `"strict"`: they are an error.

    Raises:
        FileNotFoundError, IsADirectoryError: if there is no such file.
        ValueError: for a line in another encoding or longer than 256 MB (names the line), or a damaged `.gz` file.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"A text file is needed, plain or .gz, and this is a folder. Received: {path}")
    if path.exists() and not path.is_file():
        raise ValueError(
            f"A file is needed, as it is read more than once, and this is a pipe or a device. Received: {path}"
        )
    if not path.is_file():
        raise FileNotFoundError(f"No such file. Give the path of a text file, plain or .gz. Received: {path}")
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            yield from decode_lines(file, path, strip, encoding, errors)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"The gzip file is damaged; get it again. Received: {path} ({error})") from error


def read_json_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields `(file and line number, object)` for each JSON object in a text file, one per line; empty lines are
    skipped.

    Args:
        path, encoding: see `read_lines`, also for errors.

    Raises:
        ValueError: for a line that is not a JSON object.
    """
    for line_number, line in enumerate(read_lines(path, encoding=encoding), 1):
        location = f"{path}, line {line_number}"
        if not line:
            continue
        row = parse_json(line, location)
        if not isinstance(row, dict):
            raise ValueError(f"{location} must be a JSON object. Received: {line[:60]}")
        yield location, row


def read_json(path: Path) -> Any:
    """Reads a JSON file in UTF-8, with or without byte order mark.

    Raises:
        FileNotFoundError: if it is no file.
        ValueError: if it is not JSON (names the file).
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no such file. Received: {path}")
    return parse_json(path.read_bytes(), path)


def parse_json(text: str | bytes, name: Path) -> Any:
    """Parses foreign JSON; every fault is a ValueError that begins with `name`."""
    try:
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError(f"{name} is not JSON that can be read. Received: lists or objects nested too deeply") from None
    except ValueError as error:  # also UnicodeDecodeError, and numbers of thousands of digits
        raise ValueError(f"{name} is not JSON. Received: {error}") from error


def decode_lines(
    file: BinaryIO | gzip.GzipFile,
    name: Path,
    strip: bool = True,
    encoding: str | None = None,
    errors: str = "strict",
) -> Iterator[str]:
    """Yields the lines of an open binary file, see `read_lines`; `name` is for errors."""
    is_wide = encoding and "\n".encode(encoding) != b"\n"  # as of UTF-16, whose line feeds are more than a byte
    lines = (_decode_stream if is_wide else _decode_each)(file, name, encoding, errors)
    first = next(lines, "").removeprefix("\ufeff")
    for line in itertools.chain([first], lines) if first.endswith("\n") else io.StringIO(first, newline="\r"):
        yield line.strip() if strip else line


def _decode_each(file, name, encoding, errors):
    """Yields the lines of a file whose bytes can be split at line feeds."""
    for line_number, line in enumerate(bounded_lines(file, name), 1):
        try:
            yield line.decode(encoding or "utf-8", errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, line {line_number} is not {(encoding or 'utf-8').upper()}. "
                f"{_advice(line, line_number, encoding)} Received: byte 0x{line[error.start]:02x} at "
                f"position {error.start + 1} of the line"
            ) from error


def bounded_lines(file: BinaryIO | gzip.GzipFile, name: Path) -> Iterator[bytes]:
    """Yields the lines of an open binary file as bytes, or raises a ValueError for one longer than 256 MB."""
    for line_number, line in enumerate(iter(functools.partial(file.readline, MOST_BYTES + 1), b""), 1):
        if len(line) > MOST_BYTES:
            raise ValueError(
                f"{name}, line {line_number} must be of at most {MOST_BYTES:,} bytes. Received: a longer line"
            )
        yield line


def _advice(line, line_number, encoding):
    if encoding is None:
        return "Convert the file first (for instance with iconv)."
    marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    suggestion = "utf-16" if line_number == 1 and line.startswith(marks) else "latin-1"
    return f"Give its encoding (--encoding {suggestion}, say), or convert the file first (for instance with iconv)."


def _decode_stream(file, name, encoding, errors):
    """Yields the lines of a file whose bytes cannot be split at line feeds."""
    decoder, line_number, rest = codecs.getincrementaldecoder(encoding)(errors), 1, ""
    for part in itertools.chain(bounded_lines(file, name), [b""]):
        try:
            rest += decoder.decode(part, final=not part)
        except UnicodeError as error:
            raise ValueError(
                f"{name}, line {line_number} is not {encoding.upper()}. Give its encoding, or convert the file first "
                f"(for instance with iconv). Received: {error}"
            ) from error
        *lines, rest = rest.split("\n")
        for line in lines:
            yield line + "\n"
            line_number += 1
    if rest:
        yield rest


def parse_number(text: str) -> float:
    """Parses a number that is finite as float32.

    Raises:
        ValueError: for any other text, also for digits of other scripts and `1_0`, which Python's `float` takes.

    >>> parse_number(" 1e-3 ")
    0.001
    """
    value = float(text)
    if not abs(value) <= MOST_FLOAT or not text.isascii() or "_" in text:
        raise ValueError(f"A number must be finite as float32. Received: {text[:40]!r}")
    return value


def is_number(text: str) -> bool:
    """Returns True if `parse_number` takes a text.

    >>> is_number("1.5"), is_number("nan"), is_number("1e39"), is_number("1_0")
    (True, False, False, False)
    """
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def checksum(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_local(name: str, path: Path) -> None:
    """Checks that a path is one of this machine: a folder of the name `gs:` would be made for a bucket.

    Args:
        name: the argument or option, for the error.
        path: str or path.

    Raises:
        ValueError: for an address such as `gs://bucket/run`.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):  # `pathlib` leaves one slash; C:/ is a disk
        raise ValueError(
            f"{name} must be a path of this machine. Mount the bucket (gcsfuse, s3fs, rclone mount), or copy the files "
            f"from it before and to it afterwards. Received: {path}"
        )


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path that replaces `path` when the block ends, or is deleted if it fails.

    Thus a crash or full disk leaves the previous file. The temporary file is in the same folder, which is created,
    hidden, and has the same suffixes.
    """
    check_local("`path`", path)
    path = pathlib.Path(path)
    _make_folder(path.parent)
    stem, dot, suffixes = path.name.partition(".")
    temporary = path.with_name(f".{stem}.{secrets.token_hex(4)}{dot}{suffixes}")
    temporary.touch(exist_ok=False)  # with the permissions of any new file; those of `tempfile` are for their owner
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # such as of a full disk
            error.filename = str(path)
        raise
    sync(path.parent)  # until then a power cut may bring the old file back


def _make_folder(path):
    """Makes a folder and its parents so that they survive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and os.path.isdir(path):  # folders cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_halves(folder: pathlib.Path, stem: str = "") -> None:
    """Removes temporary files and folders that a killed process left for those whose names begin with `stem`."""
    for path in folder.glob(f".{stem}*"):
        if re.fullmatch(r"[.].+[.][0-9a-f]{8}([.].*)?", path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a binary file that replaces `path` like `atomic_path`."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        yield file


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file like `atomic_file`."""
    with atomic_file(path) as file:
        file.write(data)

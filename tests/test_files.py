"""Files appear whole, with the permissions of any new file."""

import errno
import gzip
import os
import pathlib

import pytest

from keras_headattn import _files as files
from keras_headattn._files import (
    atomic_file,
    atomic_path,
    parse_json,
    read_json,
    read_json_lines,
    read_lines,
    remove_halves,
    write_atomically,
)
from tests.refusals import refused


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new" / "file.txt", b"text")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "file.txt").stat().st_mode & 0o777 == mode


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.weights.h5"
    path.write_text("old")
    with pytest.raises(ValueError), atomic_path(path) as temporary:
        assert temporary.name.startswith(".model.") and temporary.name.endswith(".weights.h5")
        temporary.write_text("half")
        raise ValueError
    assert path.read_text() == "old" and os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    "text, fault",
    [
        (b"{", "Expecting property name"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"1" * 5_000, "Exceeds the limit"),
        (b'"\xff"', "can't decode byte 0xff"),
        (b"", "Expecting value"),
    ],
)
def test_json_that_cannot_be_read(tmp_path, text, fault):
    path = tmp_path / "config.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=f"{path} is not JSON.*{fault}"):
        read_json(path)
    if text.isascii() and text:
        with pytest.raises(ValueError, match=f"{path}, line 1 is not JSON.*{fault}"):
            list(read_json_lines(path))


def test_json(tmp_path):
    (tmp_path / "marked.json").write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa4"}')
    assert read_json(tmp_path / "marked.json") == {"a": "ä"} == parse_json('{"a": "ä"}', "the text")
    os.mkfifo(tmp_path / "pipe.json")
    for path in [tmp_path, tmp_path / "pipe.json", tmp_path / "none.json"]:
        with refused("", path, FileNotFoundError):
            read_json(path)


@pytest.mark.parametrize("name", ["text.txt", "text.gz"])
def test_endless_lines_are_not_read(tmp_path, monkeypatch, name):
    """A few MB of gzip may hold a line that fills the memory."""
    monkeypatch.setattr("keras_headattn._files.MOST_BYTES", 1_000)
    data = b"a" * 999 + b"\n" + b"b" * 1_001
    (tmp_path / name).write_bytes(gzip.compress(data) if name == "text.gz" else data)
    lines = read_lines(tmp_path / name)
    assert len(next(lines)) == 999
    with pytest.raises(ValueError, match=f"{name}, line 2 must be of at most 1,000 bytes"):
        next(lines)


def test_an_error_of_the_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="new/file.json"), atomic_file(tmp_path / "new" / "file.json"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_new_folders_are_on_the_disk_too(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync", synced.append)
    write_atomically(tmp_path / "a" / "b" / "file", b"")
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= set(synced)


@pytest.mark.parametrize("path", ["gs://bucket/a.json", pathlib.Path("s3://bucket/a.json"), "gs:/bucket/a.json"])
def test_addresses_of_buckets_make_no_folder(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with refused("`path`", path):
        write_atomically(path, b"text")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp500"])
def test_lines_of_wide_characters(tmp_path, encoding):
    """Characters may have the byte of a line feed in them, such as U+0A0A and U+010A."""
    path = tmp_path / "a.txt"
    path.write_bytes("a\u010a\u0a0a\n\n b\n".encode(encoding) if encoding != "cp500" else "a\n\n b\n".encode(encoding))
    assert list(read_lines(path, encoding=encoding)) == ["a" if encoding == "cp500" else "a\u010a\u0a0a", "", "b"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("text, expected", [
    ("\ufeffa\n\ufeffb\n", ["a\n", "\ufeffb\n"]),  # the first is a byte order mark
    ("a\rb\rc", ["a\r", "b\r", "c"]),
    ("a\rb\r\nc\r", ["a\rb\r\n", "c\r"]),
    ("", []),
])  # fmt: skip
def test_marks_and_carriage_returns(tmp_path, encoding, text, expected):
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert list(read_lines(tmp_path / "a.txt", strip=False, encoding=encoding)) == expected


def test_lines_in_another_encoding(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("a\nb".encode("utf-16"))
    with pytest.raises(ValueError, match="a.txt, line 1 is not UTF-8.*--encoding utf-16"):
        list(read_lines(path, encoding="utf-8"))
    path.write_bytes("a\nb\n".encode("utf-16") + b"\0")
    with pytest.raises(ValueError, match="a.txt, line 3 is not UTF-16"):
        list(read_lines(path, encoding="utf-16"))
    path.write_bytes(b"a\n\xff")
    with pytest.raises(ValueError, match="a.txt, line 2 is not UTF-8. Convert the file.*0xff at position 1"):
        list(read_lines(path))


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with refused("a pipe or a device", "pipe.txt"):
        next(read_lines(tmp_path / "pipe.txt"))


def test_only_halves_are_removed(tmp_path):
    for name in (".config.0123abcd.json", ".NAME.00000000", ".lock", ".config.json", "config.0123abcd.json"):
        (tmp_path / name).touch()
    (tmp_path / ".new.89abcdef" / "run").mkdir(parents=True)
    remove_halves(tmp_path, "config.")
    assert not (tmp_path / ".config.0123abcd.json").exists() and (tmp_path / ".NAME.00000000").exists()
    remove_halves(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", ".config.json", "config.0123abcd.json"}

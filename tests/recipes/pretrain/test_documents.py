import bz2
import gzip
import io
import lzma
import os
import tarfile

import pytest

from recipes.pretrain.documents import Documents
from tests.refusals import refused

COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def archive(members, mode="w"):
    """The bytes of a tar archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as tar:
        folder = tarfile.TarInfo("openwebtext")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in members.items():
            entry = tarfile.TarInfo(f"openwebtext/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return data.getvalue()


@pytest.mark.parametrize("ending", COMPRESS)
def test_lines_of_a_file(tmp_path, ending):
    path = tmp_path / f"text.txt{ending}"
    path.write_bytes(COMPRESS[ending]("one line\n a cat \r\n\nun café\n \nlast".encode()))
    assert list(Documents(path)) == ["one line", "a cat", "", "un café", "", "last", ""]
    assert list(Documents(path, whole_files=True)) == ["one line", "a cat", "un café", "last", ""]


def test_files_of_folders(tmp_path):
    for name in ("b/two.txt", "a.txt", "b/.hidden", ".git/c.txt", "b/c/d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    documents = Documents([tmp_path, tmp_path / "a.txt"])
    assert documents.files == [("a.txt", 6), ("b/c/d", 6), ("b/two.txt", 10), ("a.txt", 6)]
    assert documents.num_bytes == 28
    assert [line for line in documents if line] == ["a.txt", "b/c/d", "b/two.txt", "a.txt"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_layout_of_openwebtext(tmp_path, is_whole):
    """Archives of one document a file, whose empty lines mean nothing; together in another archive, or in a folder."""
    parts = {
        "urlsf_subset00-1_data.xz": archive({"0001.txt": b"a\n\nb\n", "0002.txt": b"c\n"}, "w:xz"),
        "urlsf_subset00-2_data.xz": archive({"0003.txt": b"\nd", "._0004.txt": b"no text"}, "w:xz"),
    }
    if is_whole:
        (tmp_path / "openwebtext.tar.xz").write_bytes(archive(parts, "w:xz"))
    else:
        for name, data in parts.items():
            (tmp_path / name).write_bytes(data)
    documents = Documents(tmp_path)
    documents.check()
    assert list(documents) == ["a", "b", "", "c", "", "d", ""] == list(documents)
    assert documents.position == documents.num_bytes


def test_the_position_grows(tmp_path):
    (tmp_path / "a").write_text("line\n" * 50_000)
    (tmp_path / "b").write_text("line\n")
    documents = Documents(tmp_path)
    positions = [documents.position for _ in documents]
    assert positions == sorted(positions) and 0 < positions[0] < positions[-1] == documents.num_bytes == 250_005
    next(iter(documents))
    assert documents.position < 250_000


def test_bytes_that_are_no_text_are_counted(tmp_path):
    (tmp_path / "latin.txt").write_bytes("caf\xe9\ntea\n".encode("latin-1"))
    documents = Documents(tmp_path / "latin.txt")
    assert list(documents) == ["caf\ufffd", "tea", ""] and documents.num_replaced == 1


@pytest.mark.parametrize("name, data, message", [
    ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00", "text file is needed, or a tar archive.*Received: .*picture.png"),
    ("text.gz", gzip.compress(b"a" * 99, mtime=0)[:12], "damaged.*text.gz"),
    ("wiki.xml.gz", gzip.compress(b'<mediawiki lang="en">', mtime=0), "out of the XML first. Received: .*wiki.xml.gz"),
    ("text.xz", lzma.compress(b"a")[:8] + b"x" * 99, "damaged.*text.xz"),
])  # fmt: skip
def test_files_that_cannot_be_read_are_reported_at_once(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message):
        Documents(tmp_path).check()


@pytest.mark.parametrize("mode", ["w", "w:xz", "w:gz"])
def test_half_an_archive(tmp_path, mode):
    lines = "".join(f"number {i * 7919 % 100_003}\n" for i in range(20_000))
    data = archive({"a.txt": lines.encode()}, mode)
    (tmp_path / "half.tar").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="damaged.*half.tar"):
        list(Documents(tmp_path))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("is_archive", [True, False])
def test_a_flipped_byte(tmp_path, ending, is_archive):
    """Anywhere: also where it only makes another text, which the checksum at the end of the file tells."""
    text = "".join(f"number {i * 7919 % 100_003}\n" for i in range(2_000)).encode()
    data = COMPRESS[ending](archive({"a.txt": text}) if is_archive else text)
    for place in range(20, len(data) - 8, len(data) // 12):
        flipped = bytearray(data)
        flipped[place] ^= 8
        (tmp_path / "text").write_bytes(flipped)
        with pytest.raises(ValueError, match="damaged; get it again. Received: .*text"):
            list(Documents(tmp_path))


def test_a_damaged_header_is_not_the_end_of_an_archive(tmp_path):
    data = bytearray(archive({"a": b"one\n", "b": b"two\n"}))
    data[2 * 512 + 600] ^= 1  # of the second file
    (tmp_path / "text.tar").write_bytes(data)
    with pytest.raises(ValueError, match="text.tar .bad checksum at byte 1,536"):
        list(Documents(tmp_path))


def test_archives_in_archives(tmp_path):
    data = archive({"a": b"one\n"})
    for depth in range(1, 10):
        (tmp_path / "text.tar").write_bytes(data)
        if depth <= 8:
            assert list(Documents(tmp_path)) == ["one", ""]
        else:
            with pytest.raises(ValueError, match="At most 8 archives may lie in each other. Received: .*text.tar"):
                list(Documents(tmp_path))
        data = archive({"a.tar": data})


def sparse_archive(size):
    """An archive of 2 kB with a file of so many bytes, all of them zero."""
    member = bytearray(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT))
    member[156:157] = tarfile.GNUTYPE_SPARSE
    member[386:410] = b"00000000000\0" * 2
    member[483:495] = b"\x80" + size.to_bytes(11, "big")
    member[148:156] = b"%06o\0 " % (8 * 32 + sum(member[:148]) + sum(member[156:512]))
    return bytes(member) + bytes(1024)


@pytest.mark.parametrize("name, data, place", [
    ("a.gz", gzip.compress(b"a\n" + b"b" * 2_000, mtime=0), "a.gz, line 2"),
    ("a.tar", sparse_archive(10**12), "a.tar, a, line 1"),
    ("a.txt", b"a" * 1_001, "a.txt, line 1"),
])  # fmt: skip
def test_endless_lines_are_not_read(tmp_path, monkeypatch, name, data, place):
    monkeypatch.setattr("keras_headattn._files.MOST_BYTES", 1_000)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{place} must be of at most 1,000 bytes"):
        list(Documents(tmp_path))
    (tmp_path / name).write_bytes(b"a" * 999 + b"\n" + b"b" * 1_000)
    assert [len(line) for line in Documents(tmp_path)] == [999, 1_000, 0]


def test_missing_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with refused("No such file", "pipe", FileNotFoundError):
        Documents(tmp_path / "pipe")

    with refused("No such file", "none.txt", FileNotFoundError):
        Documents(tmp_path / "none.txt")
    with refused("text files", tmp_path):
        Documents(tmp_path)

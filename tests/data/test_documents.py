import bz2
import gzip
import io
import lzma
import tarfile

import pytest

from keras_headattn.data import Documents

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


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file.*none.txt"):
        Documents(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="folder of text files must have some"):
        Documents(tmp_path)

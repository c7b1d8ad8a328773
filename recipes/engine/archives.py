"""Compressed files and tar archives, checked as they are read."""

import bz2
import contextlib
import gzip
import lzma
import tarfile
import zlib

COMPRESSED = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ": lzma.open, b"BZh": bz2.open}  # by the first bytes
DAMAGE = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError)


def decompressed(file):
    """Returns an open file at its beginning, decompressed if its first bytes are those of a compressed file."""
    head = file.peek(512)
    return next((opened(file) for magic, opened in COMPRESSED.items() if head.startswith(magic)), file)


@contextlib.contextmanager
def open_archive(file):
    """Opens a file as a tar archive, read from beginning to end and checked to the checksum of its compression."""
    content = decompressed(file)
    with tarfile.open(fileobj=content, mode="r|", tarinfo=_Member) as archive:
        yield archive
    while content.read(2**20):
        pass


class _Member(tarfile.TarInfo):
    """Member of an archive. A damaged header is an error; `tarfile` would take it for the end."""

    @classmethod
    def fromtarfile(cls, archive):
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:
            raise tarfile.ReadError(f"{error} at byte {archive.offset:,} of the archive") from error

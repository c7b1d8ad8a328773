"""Documents of corpora that are larger than memory: text files, folders of them and archives, as a stream of lines."""

import contextlib
import os
import pathlib

from keras_headattn._files import bounded_lines
from recipes.engine.data import TAR_BLOCK, damage_reported, decompressed, files_below, is_tar, open_archive

ARCHIVES = (".tar", ".tgz", ".txz", ".tar.gz", ".tar.bz2", ".xz")  # endings within archives
MOST_ARCHIVES = 8  # nested
XML = (b"<?xml", b"\xef\xbb\xbf<?xml", b"<mediawiki")  # beginnings, the last of Wikipedia's dumps


class Documents:
    """Lines of documents, in order, with an empty one at the end of each document.

    They are read anew whenever they are gone through, one line at a time. Blanks at both ends of lines are left out.
    Bytes that are not UTF-8 become U+FFFD, which tokenizers leave out; such lines are counted.

    Args:
        paths: str or path, or a list of them: text files; folders, of which all files are read, in the order of their
            names, but for hidden ones; tar archives, in which each file is one document, and which may hold other
            archives, as OpenWebText's does. All may be compressed by gzip, bzip2 or xz.
        whole_files: True if a file is one document, and its empty lines mean nothing. Default False: an empty
            line ends a document.

    Attributes:
        files: list of `(name, bytes)`, of each file on disk; names in folders begin there.
        num_bytes: int, of all files together.
        position: int, bytes that were read since the documents were last gone through from the beginning.
        num_replaced: int, lines with bytes that are not UTF-8, since then.

    Raises:
        FileNotFoundError: if there is no such file or folder.
        ValueError: if a folder has no files; when gone through, if an archive or a compressed file is damaged, if a
            line is longer than 256 MB, or if more than 8 archives lie in each other.

    ```python
    documents = Documents(["wikipedia.txt.gz", "openwebtext/"])
    documents.check()
    for line in documents: ...
    ```
    """

    def __init__(self, paths, whole_files=False):
        self.whole_files = whole_files
        self._paths, self.files = [], []
        for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
            for file, name in files_below(path):
                self._paths.append(file)
                self.files.append((name, file.stat().st_size))
        self.num_bytes = sum(size for _, size in self.files)
        self._begin()

    def _begin(self):
        self._file, self._before, self.num_replaced = None, 0, 0

    @property
    def position(self):
        return self._before + (0 if self._file is None or self._file.closed else self._file.tell())

    def check(self):
        """Opens all files, so that one that is damaged at its beginning, or is no text, is reported now."""
        for path in self._paths:
            with damage_reported(path), _open(path) as file:
                head = file.read(TAR_BLOCK)
                if b"\0" in head and not is_tar(head):
                    raise ValueError(f"A text file is needed, or a tar archive of some. Received: {path}")
                if head.lstrip().startswith(XML):
                    raise ValueError(f"Documents are plain text. Take it out of the XML first. Received: {path}")

    def __iter__(self):
        self._begin()
        for path, (_, size) in zip(self._paths, self.files, strict=True):
            with damage_reported(path), open(path, "rb") as self._file:
                yield from self._lines_of_file(path)
            self._before, self._file = self._before + size, None

    def _lines_of_file(self, path):
        with _open(path) as file:
            is_archive = is_tar(file.read(TAR_BLOCK))
        if is_archive:
            yield from self._lines_of_archive(self._file, path)
        else:
            yield from self._lines_of_text(decompressed(self._file), path, self.whole_files)

    def _lines_of_archive(self, file, name, depth=1):
        if depth > MOST_ARCHIVES:
            raise ValueError(f"At most {MOST_ARCHIVES} archives may lie in each other. Received: {name}")
        with open_archive(file) as archive:
            for member in archive:
                if member.isfile() and not pathlib.PurePath(member.name).name.startswith("."):
                    location = f"{name}, {member.name}"
                    with archive.extractfile(member) as inner:
                        if member.name.endswith(ARCHIVES):
                            yield from self._lines_of_archive(inner, location, depth + 1)
                        else:
                            yield from self._lines_of_text(inner, location, whole=True)

    def _lines_of_text(self, file, name, whole):
        for line in bounded_lines(file, name):
            try:
                text = line.decode("utf-8").strip()
            except UnicodeDecodeError:
                text = line.decode("utf-8", "replace").strip()
                self.num_replaced += 1
            if text or not whole:
                yield text
        yield ""


@contextlib.contextmanager
def _open(path):
    with open(path, "rb") as file:
        yield decompressed(file)

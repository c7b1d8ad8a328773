"""Locks that end with the process that has them, however it ends."""

import contextlib
import fcntl
import os
import pathlib

_NAME = ".lock"


@contextlib.contextmanager
def locked(folder, message, is_new=False, wait=False):
    """Lets one process at a time into a block for a folder.

    Args:
        folder: path. It is made if need be, and keeps the empty file `.lock` as long as there are others.
        message, wait: as `lock` takes them.
        is_new: bool, whether the folder is removed if the block leaves nothing else in it. Default False.

    Raises:
        ValueError: as `lock`.
    """
    folder = pathlib.Path(folder)
    file = _open_locked(folder, message, wait)
    try:
        yield
    finally:
        if is_new and folder.is_dir() and [path.name for path in folder.iterdir()] == [_NAME]:
            (folder / _NAME).unlink()
            with contextlib.suppress(OSError):  # another process may have begun in it
                folder.rmdir()
        file.close()


def _open_locked(folder, message, wait):
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / _NAME, "ab")  # noqa: SIM115
        try:
            lock(file, message, wait)
        except BaseException:
            file.close()
            raise
        if os.fstat(file.fileno()).st_nlink:  # 0: the process that had it removed the folder
            return file
        file.close()


def lock(file, message, wait=False):
    """Locks an open file, until it is closed in this process and in all that inherited it.

    Args:
        file: file object, open for writing.
        message: str, what is to be said if another process has the lock.
        wait: bool, whether to print the message and wait then. Default False: it is an error.

    Raises:
        ValueError: if another process has it and `wait` is False.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            raise ValueError(message) from None
        print(message, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass  # some network file systems have no locks

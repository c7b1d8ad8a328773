"""Locks that end with the process that holds them."""

import contextlib
import fcntl
import os
import pathlib

_NAME = ".lock"


@contextlib.contextmanager
def locked(folder, message, is_new=False, wait=False):
    """Lets one process at a time into a block for a folder; `message` and `wait` are as of `lock`.

    The folder is made if need be, and keeps the empty file `.lock` as long as it has other files. With `is_new` it is
    removed if the block leaves nothing else in it.
    """
    folder = pathlib.Path(folder)
    file = _open_locked(folder, message, wait)
    try:
        yield
    finally:
        if is_new and folder.is_dir() and [path.name for path in folder.iterdir()] == [_NAME]:
            (folder / _NAME).unlink()
            with contextlib.suppress(OSError):  # another process may have started in it
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
        if os.fstat(file.fileno()).st_nlink:  # 0: the previous holder removed the folder
            return file
        file.close()


def lock(file, message, wait=False):
    """Locks an open file until it is closed in this process and in all that inherited it.

    If another process has the lock, that is a `ValueError` with `message`; with `wait` the message is printed, and the
    process waits.
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

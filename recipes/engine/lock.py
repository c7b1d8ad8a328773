"""Locks that end with the process that has them, however it ends."""

import contextlib
import fcntl
import pathlib


@contextlib.contextmanager
def locked(folder, message, wait=False):
    """Lets one process at a time into a block for a folder.

    Args:
        folder: path. It is made if need be, and keeps the empty file `.lock`.
        message, wait: as `lock` takes them.

    Raises:
        ValueError: as `lock`.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "ab") as file:
        lock(file, message, wait)
        yield


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

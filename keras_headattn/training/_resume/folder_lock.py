"""Locks of folders, each of which ends with the process that has it, however it ends."""

import os
import pathlib

_held = {}  # descriptors by folder


def lock_folder(folder):
    """Locks a folder, which is made if need be, for this process. Some network file systems have no locks.

    Args:
        folder: path.

    Raises:
        ValueError: if another process has the lock.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() in _held:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(
            f"Another process trains with the checkpoints in this folder: wait for it, or choose another. "
            f"Received: {folder}"
        ) from None
    except OSError:
        os.close(descriptor)
    else:
        _held[folder.resolve()] = descriptor


def unlock_folder(folder):
    """Gives a folder back that this process has locked."""
    descriptor = _held.pop(pathlib.Path(folder).resolve(), None)
    if descriptor is not None:
        os.close(descriptor)


def _close_all():
    while _held:
        os.close(_held.popitem()[1])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)  # or the lock would end with the last child

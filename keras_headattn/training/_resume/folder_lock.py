"""Locks of folders that end with the process."""

import os
import pathlib

_held = {}  # descriptors by an identity that survives renaming


def lock_folder(folder):
    """Locks a folder for this process; does nothing on Windows and on file systems without locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if _identity(folder) in _held:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(
            f"Another process is using the checkpoints in this folder: wait for it, or choose another folder. "
            f"Received: {folder}"
        ) from None
    except OSError:
        os.close(descriptor)
    else:
        _held[_identity(folder)] = descriptor


def unlock_folder(folder):
    if os.path.isdir(folder) and (descriptor := _held.pop(_identity(folder), None)) is not None:
        os.close(descriptor)


def _identity(folder):
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _close_all():
    while _held:
        os.close(_held.popitem()[1])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)  # else children would hold the lock, too

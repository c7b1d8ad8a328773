"""What tests share, made once in a session of pytest for all of its processes."""

import os
import shutil

import filelock


def shared_folder(tmp_path_factory, name, make):
    """Returns the folder of a name, which `make(folder)` fills the first time. Tests leave its files as they are."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, made = base / "shared" / name, base / "shared" / f"{name}.made"
    folder.parent.mkdir(exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder

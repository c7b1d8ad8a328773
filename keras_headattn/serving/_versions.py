"""SavedModels in numbered folders, as model servers expect them, written in full or not at all."""

import contextlib
import json
import os
import pathlib
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from headattn_io.files import Path, read_json, sync, write_atomically
from keras_headattn.serving._warmup import write_warmup

# Part of a version, so that both appear at once. Model servers load nothing of this folder but warm-up requests.
NOTE = pathlib.Path("assets.extra", "run.txt")
EXAMPLES = pathlib.Path("assets.extra", "examples.json")


def check_export_folder(folder: Path, run: str | None = None) -> None:
    """Makes a folder for SavedModels, and reports what would keep a version out of it: before training, not after it.

    Args:
        folder: str or path, as the functions that write SavedModels take it.
        run: str, the name of what the model is of, as they take it. Default `None`: it has none.

    Raises:
        OSError: if nothing can be written there.
        ValueError: if the folder has the model of another run.

    >>> check_export_folder("saved_models/translate", run="first")
    """
    _check_run(folder, run)
    folder = pathlib.Path(folder)
    with _explained(folder):
        _temporary(folder).rmdir()


def save_signatures(
    signatures: Mapping[str, tuple[Callable[..., dict[str, tf.Tensor]], list[tf.TensorSpec]]],
    folder: Path,
    tokenizers: Sequence[keras.layers.Layer] = (),
    run: str | None = None,
    warmup: Any = None,
) -> pathlib.Path:
    """Writes functions as the signatures of a SavedModel: for a model that no other `export_...` function is for.

    Args:
        signatures: dictionary of name to a function and the list of `tf.TensorSpec` of its arguments. A function
            returns a dictionary of tensors.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ...
        tokenizers: list of the layers, with vocabularies or tables, that the functions use. Default: none.
        run: str, the name of what the model is of. A folder with the model of another run is refused. Default `None`:
            it has none.
        warmup: requests that a server runs before others, as `write_warmup` takes them. Default `None`: there are none.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the folder has the model of another run.
        OSError: if it cannot be written.

    ```python
    path = save_signatures(
        {"serving_default": (lambda x: {"y": model(x)}, [tf.TensorSpec((None, 8), name="x")])}, "saved_models/own"
    )
    ```
    """
    _check_run(folder, run)
    functions = {
        name: tf.function(function, autograph=False).get_concrete_function(*specs)
        for name, (function, specs) in signatures.items()
    }
    module = tf.Module()  # what the signatures use must be within reach of it
    module.weights = list({id(weight): weight for f in functions.values() for weight in f.graph.variables}.values())
    module.tokenizers = list(tokenizers)

    def write(path):
        tf.saved_model.save(module, path, functions)
        if warmup:
            write_warmup(path, warmup)

    return write_version(folder, write, run)


def write_examples(path: Path, examples: list[dict[str, str]]) -> None:
    """Writes requests that the page of `Server` offers to try.

    Args:
        path: str or path of a version of a SavedModel, for example `"saved_models/translate/1"`.
        examples: list of dictionaries of the name of an input to its text.

    Raises:
        OSError: if they cannot be written.
    """
    write_atomically(pathlib.Path(path, EXAMPLES), json.dumps(examples, ensure_ascii=False, indent=1).encode("utf-8"))


def read_examples(path):
    """Reads what `write_examples` wrote; an empty list if nothing was."""
    path = pathlib.Path(path, EXAMPLES)
    return read_json(path) if path.is_file() else []


def _check_run(folder, run):
    """Refuses a folder whose last version that names its run is of another one."""
    notes = (path / NOTE for _, path in sorted(_versions(folder), reverse=True))
    note = next((path for path in notes if path.is_file()), None)
    owner = None if note is None else note.read_text(encoding="utf-8").removesuffix("\n")
    if note is not None and owner != run:
        raise ValueError(
            f"The folder has the model of another run, {owner}, and a server of it would go over to the new one. Give "
            f"another folder, or remove this one. Received: folder={str(folder)!r}, run={run!r}"
        )


def write_version(folder: Path, write: Callable[[str], object], run: str | None = None) -> pathlib.Path:
    """Writes `folder/<version>`, where the version is one more than the highest there.

    The new folder gets its number only when all of it is on the disk. Older versions are never touched.

    Args:
        folder: str or path. It is created if need be.
        write: function of a path (str), the empty folder it is to fill.
        run: str, the name of what the model is of. A folder with the model of another run is refused. Default `None`:
            it has none.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the folder has the model of another run.
        OSError: if it cannot be written.

    >>> write_version("saved_models/notes", lambda path: pathlib.Path(path, "note.txt").touch()).name
    '1'
    """
    _check_run(folder, run)
    folder = pathlib.Path(folder)
    with _explained(folder):
        temporary = _temporary(folder)
        try:
            write(str(temporary))
            if run is not None:
                write_atomically(temporary / NOTE, f"{run}\n".encode())
            for path in (*temporary.rglob("*"), temporary):
                sync(path)
            version = _rename(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync(folder)
    return version


@contextlib.contextmanager
def _explained(folder):
    """Errors say what to do about the folder."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise OSError(
            "The model could not be written. Give a folder that may be written to, on a disk with enough "
            f"room. Received: folder={str(folder)!r} ({error})"
        ) from error


def _temporary(folder):
    """A new folder inside `folder`, so that renaming is atomic; model servers pass over names that are no number."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".new.{secrets.token_hex(4)}"
    temporary.mkdir()  # with the permissions of any new folder; those of `tempfile` are for their owner
    return temporary


def is_version(name):
    """Returns True for the name of a version's folder."""
    return name.isascii() and name.isdecimal()


def _versions(folder):
    """Tuples of the number and the path of what has a number in a folder, which need not be there."""
    folder = pathlib.Path(folder)
    paths = folder.iterdir() if folder.is_dir() else ()
    return [(int(path.name), path) for path in paths if is_version(path.name)]


def _rename(temporary, folder):
    while True:
        version = folder / str(1 + max((number for number, _ in _versions(folder)), default=0))
        try:
            os.rename(temporary, version)
            return version
        except OSError:
            # Another process may have taken the number in between.
            if not version.exists():
                raise

"""SavedModels in numbered folders, written in full or not at all."""

import contextlib
import functools
import json
import os
import pathlib
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_headattn._files import Path, check_local, sync, write_atomically
from keras_headattn.serving._warmup import write_warmup

# Inside the version, so that all appears at once. Model servers read only warm-up requests from this folder.
NOTE = pathlib.Path("assets.extra", "run.txt")
EXAMPLES = pathlib.Path("assets.extra", "examples.json")


def check_export_folder(folder: Path, run: str | None = None) -> None:
    """Makes a folder for SavedModels and checks that a version can be written there; call it before training.

    Args:
        folder: str or path.
        run: str, name of the training run. Default `None`: no name.

    Raises:
        OSError: if the folder cannot be written to.
        ValueError: if it has a model of another run.

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
    """Writes functions as the signatures of a SavedModel, and returns the `Path` of the new version.

    Args:
        signatures: dictionary from name to a function and the list of `tf.TensorSpec` of its arguments. The function
            returns a dictionary of tensors. Arguments with defaults, tensors, are optional inputs.
        folder: str or path. The next version is written to `folder/1`, `folder/2`, ...
        tokenizers: layers with vocabularies or tables that the functions use. Default: none.
        run: str, name of the training run; a folder with a model of another run is refused. Default `None`: no name.
        warmup: warm-up requests, see `write_warmup`. Default `None`: none.

    Raises:
        ValueError: if `run` is another.
        OSError: if it cannot be written.

    ```python
    path = save_signatures(
        {"serving_default": (lambda x: {"y": model(x)}, [tf.TensorSpec((None, 8), name="x")])}, "saved_models/own"
    )
    ```
    """
    _check_run(folder, run)
    functions = {
        name: tf.function(function, input_signature=specs, autograph=False)
        for name, (function, specs) in signatures.items()
    }
    traced = {name: function.get_concrete_function() for name, function in functions.items()}
    weights = [weight for function in traced.values() for weight in function.graph.variables]
    module = tf.Module()  # everything that the signatures use must be an attribute
    module.weights = list({id(weight): weight for weight in weights}.values())
    module.tokenizers = list(tokenizers)

    def write(path):
        tf.saved_model.save(module, path, {name: _call(functions[name], traced[name]) for name in functions})
        if warmup:
            write_warmup(path, warmup)

    return write_version(folder, write, run)


def _call(function, traced):
    """Returns `function` as a call of what has been traced: saving traces its functions anew."""

    @functools.wraps(function.python_function)  # with its optional inputs
    def call(*args):
        return traced(*args)

    return tf.function(call, input_signature=function.input_signature, autograph=False)


def write_examples(path: Path, examples: list[dict[str, str]]) -> None:
    """Writes example inputs that the page of `python -m recipes.serve` offers.

    Args:
        path: str or path of a version of a SavedModel, such as `"saved_models/translate/1"`.
        examples: dictionaries from the name of an input to its text.
    """
    write_atomically(pathlib.Path(path, EXAMPLES), json.dumps(examples, ensure_ascii=False, indent=1).encode("utf-8"))


def _check_run(folder, run):
    """Raises a ValueError for a folder that TensorFlow cannot read, or whose last named version is of another run."""
    check_local("`folder`", folder)
    if set(str(folder)) & set("*?["):
        raise ValueError(f"`folder` must have no *, ? or [ in its name, a pattern to TensorFlow. Received: {folder}")
    notes = (path / NOTE for _, path in sorted(_versions(folder), reverse=True))
    note = next((path for path in notes if path.is_file()), None)
    owner = None if note is None else note.read_text(encoding="utf-8").removesuffix("\n")
    if note is not None and owner != run:
        raise ValueError(
            f"`folder` must have no model of another run, {owner}, as servers would switch to the new one. "
            f"Received: folder={str(folder)!r}, run={run!r}"
        )


def write_version(folder: Path, write: Callable[[str], object], run: str | None = None) -> pathlib.Path:
    """Writes `folder/N`, with N one more than the highest version there, and returns its `Path`.

    The new version appears only when all of it is on the disk. Older versions stay as they are.

    Args:
        folder: str or path, created if missing.
        write: function of a path (str), the empty folder to fill.
        run: str, name of the training run; a folder with a model of another run is refused. Default `None`: no name.

    Raises:
        ValueError: if `run` is another.
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
    """Raises errors as OSErrors that name the folder."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise OSError(
            f"`folder` must be writable, on a disk with enough space. Received: folder={str(folder)!r} ({error})"
        ) from error


def _temporary(folder):
    """Makes a folder inside `folder`, so that renaming is atomic. Model servers skip names that are not numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".new.{secrets.token_hex(4)}"
    temporary.mkdir()  # not by `tempfile`, whose folders only the owner may read
    return temporary


def _versions(folder):
    """Returns the numbers and paths of all versions in a folder, which may be missing."""
    folder = pathlib.Path(folder)
    paths = folder.iterdir() if folder.is_dir() else ()
    return [(int(path.name), path) for path in paths if path.name.isascii() and path.name.isdecimal()]


def _rename(temporary, folder):
    while True:
        version = folder / str(1 + max((number for number, _ in _versions(folder)), default=0))
        try:
            os.rename(temporary, version)
            return version
        except OSError:
            # Another process may have taken the number.
            if not version.exists():
                raise

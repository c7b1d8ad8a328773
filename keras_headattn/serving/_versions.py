"""SavedModels in numbered folders, as model servers expect them, written in full or not at all."""

import os
import pathlib
import secrets
import shutil

import tensorflow as tf

from keras_headattn._files import sync


def save_signatures(signatures, folder, model, tokenizers=()):
    """Writes functions as the signatures of a SavedModel.

    Args:
        signatures: dictionary of name to a function and the list of `tf.TensorSpec` of its arguments.
        folder: str or path, where the next version is written.
        model: whose Keras variables, `model.variables`, the functions use. It may be built by them.
        tokenizers: layers that the functions use.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        OSError: if it cannot be written.
    """
    functions = {
        name: tf.function(function, autograph=False).get_concrete_function(*specs)
        for name, (function, specs) in signatures.items()
    }
    module = tf.Module()  # what the signatures use must be within reach of it
    module.variables_of_model = [variable.value for variable in model.variables]
    module.tokenizers = list(tokenizers)
    return write_version(folder, lambda path: tf.saved_model.save(module, path, functions))


def write_version(folder, write):
    """Writes `folder/<version>`, where the version is one more than the highest there.

    The new folder gets its number only when all of it is on the disk. Older versions are never touched.

    Args:
        folder: str or path. It is created if need be.
        write: function of a path (str), the empty folder it is to fill.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        OSError: if it cannot be written.
    """
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Inside `folder`, so that renaming is atomic; model servers pass over names that are no number.
        temporary = folder / f".new.{secrets.token_hex(4)}"
        temporary.mkdir()  # with the permissions of any new folder; those of `tempfile` are for their owner
        try:
            write(str(temporary))
            for path in (*temporary.rglob("*"), temporary):
                sync(path)
            version = _rename(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync(folder)
    except (OSError, tf.errors.OpError) as error:
        raise OSError(
            "The model could not be written. Give a folder that may be written to, on a disk with enough "
            f"room. Received: folder={str(folder)!r} ({error})"
        ) from error
    return version


def _rename(temporary, folder):
    while True:
        numbers = (int(path.name) for path in folder.iterdir() if path.name.isdecimal())
        version = folder / str(1 + max(numbers, default=0))
        try:
            os.rename(temporary, version)
            return version
        except OSError:
            # Another process may have taken the number in between.
            if not version.exists():
                raise

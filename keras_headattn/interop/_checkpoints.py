"""Paths of checkpoints."""

import pathlib

from keras_headattn._files import Path


def check_checkpoint(path: Path, name: str = "path", model: str = "google-bert/bert-base-uncased") -> None:
    """Raises a FileNotFoundError that says how to get a checkpoint, unless there is one.

    Args:
        path: file or folder; of TensorFlow 1 also without ending.
        name: name of the argument or option, for the error.
        model: example of the hub, for the error.
    """
    path = pathlib.Path(path)
    if not path.exists() and not path.with_name(f"{path.name}.index").exists():
        raise FileNotFoundError(
            f"`{name}` must be a checkpoint on this machine, or a folder with one; those of Hugging Face's hub are "
            f"downloaded first: hf download {model} --local-dir {model.rpartition('/')[2]}. "
            f"Received: {name}={str(path)!r}"
        )

"""XLA's persistent cache of compiled programs."""

import os
import pathlib

from keras_headattn._files import Path
from keras_headattn._private import has_begun


def cache_compilations(folder: Path) -> None:
    """Makes XLA keep compiled programs in a folder, for later runs on the same machine.

    Call it before the first operation. Tested on CPUs only.

    Args:
        folder: str or path, created if missing.

    Raises:
        RuntimeError: if TensorFlow has run an operation already.

    ```python
    from keras_headattn.training import cache_compilations
    cache_compilations("xla_cache")
    ...  # build the model and train
    ```
    """
    if has_begun():
        raise RuntimeError(
            "`cache_compilations` must be called before anything is computed. "
            f"Received: folder={folder}, after the first operation"
        )
    if "'" in str(folder):
        raise ValueError(f"`folder` must have no ' in its name, with which TensorFlow reads it. Received: {folder}")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    flags = f"--tf_xla_persistent_cache_directory='{folder}' --tf_xla_persistent_cache_device_types=CPU,GPU"
    os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flags}".strip()


def count_compilations(folder: Path) -> int:
    """Returns the number of compiled programs in the folder, one for each function, shape and replica."""
    return len(list(pathlib.Path(folder).glob("xla_compile_cache__*")))

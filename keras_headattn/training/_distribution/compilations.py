"""Keeps the programs that XLA compiles on disk, and counts them."""

import os
import pathlib

from headattn_io.files import Path
from keras_headattn._private import has_begun


def cache_compilations(folder: Path) -> None:
    """Makes XLA keep its compiled programs in a folder, for later runs on the same machine.

    Call it before the first operation: TensorFlow reads its settings then. A program is found again by its graph and
    the shapes of its arguments. Tried on CPUs only.

    Args:
        folder: Where to keep them; made if absent.

    Raises:
        RuntimeError: if TensorFlow has computed something already.

    Example:

    ```python
    from keras_headattn.training import cache_compilations
    cache_compilations("xla_cache")
    ...  # build the model and train
    ```
    """
    if has_begun():
        raise RuntimeError(
            "Call `cache_compilations` before anything is computed, such as a model is made. "
            f"Received: folder={folder}, after the first operation"
        )
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    flags = f"--tf_xla_persistent_cache_directory={folder} --tf_xla_persistent_cache_device_types=CPU,GPU"
    os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flags}".strip()


def count_compilations(folder: Path) -> int:
    """Number of programs that XLA has compiled into the folder: one for each function, shape and replica."""
    return len(list(pathlib.Path(folder).glob("xla_compile_cache__*")))

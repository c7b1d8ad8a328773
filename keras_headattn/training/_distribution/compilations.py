"""Keeps the programs that XLA compiles on disk, and counts them."""

import os
import pathlib
import sys

from headattn_io.files import Path


def cache_compilations(folder: Path) -> None:
    """Makes XLA keep its compiled programs in a folder, for later runs on the same machine.

    Call it before TensorFlow is imported. A program is found again by its graph and the shapes of its
    arguments. Tried on CPUs only.

    Args:
        folder: Where to keep them; made if absent.

    Raises:
        RuntimeError: if TensorFlow is imported already: it has read its settings by then.

    Example:

    ```python
    from keras_headattn.training import cache_compilations
    cache_compilations("xla_cache")
    ...  # build the model and train
    ```
    """
    if "tensorflow" in sys.modules:
        raise RuntimeError(
            f"Call `cache_compilations` before TensorFlow or Keras is imported. Received: folder={folder}"
        )
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    flags = f"--tf_xla_persistent_cache_directory={folder} --tf_xla_persistent_cache_device_types=CPU,GPU"
    os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flags}".strip()


def count_compilations(folder: Path) -> int:
    """Number of programs that XLA has compiled into the folder: one for each function, shape and replica."""
    return len(list(pathlib.Path(folder).glob("xla_compile_cache__*")))

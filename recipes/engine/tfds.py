"""Data sets of TensorFlow Datasets, which is optional."""

import contextlib

from headattn_io.optional import optional_import


@contextlib.contextmanager
def load_tfds(name):
    """Gives the module `tensorflow_datasets`, to get a data set with it, which is downloaded on first use.

    Args:
        name: str, the data set, for errors.

    Raises:
        ImportError: if tensorflow-datasets is not installed.
        OSError: if the data set is not on this machine and cannot be downloaded.
    """
    tfds = optional_import("tensorflow_datasets", "datasets")
    try:
        yield tfds
    except (AssertionError, OSError, tfds.download.DownloadError) as error:  # AssertionError: a file to get by hand
        raise OSError(f"{name} is not on this machine and could not be downloaded: {error}") from error

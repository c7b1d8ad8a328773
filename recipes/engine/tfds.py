"""Data sets of TensorFlow Datasets, which is optional."""

import contextlib

from keras_headattn._optional import optional_import


@contextlib.contextmanager
def load_tfds(name):
    """Context with the module `tensorflow_datasets`, to get the data set `name`, which is downloaded on first use.

    Without the package there is an `ImportError`, without the data set an `OSError`.
    """
    tfds = optional_import("tensorflow_datasets", "datasets")
    try:
        yield tfds
    except (AssertionError, OSError, tfds.download.DownloadError) as error:  # AssertionError: a file to get by hand
        raise OSError(
            "The data set is not on this machine and could not be downloaded. Connect to the network, or download it "
            f"by hand as its page says. Received: {name} ({error})"
        ) from error

"""Data sets of TensorFlow Datasets, which is optional."""

from keras_headattn._optional import optional_import


def load_tfds(name, split, hint=""):
    """Loads a split, which is downloaded on first use.

    Args:
        name: str, for instance "glue/sst2".
        split: str, for instance "train", "validation" or "train[:1%]".
        hint: str, what is said besides if it cannot be downloaded. Default none.

    Returns:
        Tuple of a `tf.data.Dataset` of dictionaries, and its `DatasetInfo`.

    Raises:
        ImportError: if tensorflow-datasets is not installed.
        OSError: if the data set is not on this machine and cannot be downloaded.
    """
    tfds = optional_import("tensorflow_datasets", "datasets")
    try:
        return tfds.load(name, split=split, with_info=True)
    except (AssertionError, OSError, tfds.download.DownloadError) as error:  # AssertionError: a file to get by hand
        raise OSError(f"{name} is not on this machine and could not be downloaded: {error}{hint}") from error

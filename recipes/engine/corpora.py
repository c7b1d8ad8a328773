"""The data sets of a run, and the names of its test sets."""

import dataclasses
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class Corpora:
    """Training, validation and named test sets. There is no training set here where it is read from elsewhere."""

    train: object
    validation: object
    tests: dict


def named_files(files, ending, size=1):
    r"""Returns the files of test sets by name, `size` of them a set, in this order; two sets of one name are an error.

    A set is named after its first file, without `.gz` and then what matches the pattern `ending`.

    >>> named_files(["data/test.en.gz", "data/test.de.gz"], "[.][a-z]+", 2)
    {'test': ['data/test.en.gz', 'data/test.de.gz']}
    """
    if len(files) % size:
        raise ValueError(f"--test takes {size} files a test set. Received: {' '.join(files)}")
    return named_sets([list(files[begin : begin + size]) for begin in range(0, len(files), size)], ending)


CACHED = "sacrebleu:"  # begins the name of a test set in sacreBLEU's cache


def is_cached(file):
    """True for the name of a test set in sacreBLEU's cache, such as `sacrebleu:wmt14/full`, in place of a file."""
    return str(file).startswith(CACHED)


def named_sets(sets, ending):
    """Names test sets, lists of files, as `named_files` does."""
    found = {}
    for files in sets:
        name = re.sub(f"(?:{ending})$", "", pathlib.Path(files[0]).name.removesuffix(".gz"))
        if name in found:
            raise ValueError(
                f"Test sets are told apart by the names of their files. Received: {found[name][0]} and {files[0]}"
            )
        found[name] = files
    return found


def named_apart(tests, names):
    """Returns test sets of other files by names that are not those of the run's own.

    >>> named_apart({"test": 1, "other": 2}, ["test"])
    {'test-2': 1, 'other': 2}
    """
    return {f"{name}-2" if name in names else name: test for name, test in tests.items()}


def check_batch_size(batch_size, num_replicas):
    """Checks that a batch can be split evenly over the replicas."""
    if batch_size % num_replicas:
        raise ValueError(f"--batch-size must be a multiple of the {num_replicas} replicas. Received: {batch_size}")

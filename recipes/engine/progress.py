"""A progress bar with time left: Keras's own."""

import sys

import keras


def progress_bar(title, total):
    """Prints the title, and returns a function that takes how much of `total` is done."""
    print(title)
    bar = keras.utils.Progbar(total)
    return lambda done: bar.update(done, finalize=done == total)


def verbosity(quiet=False):
    """What `fit` is to print: bars on a terminal, a line an epoch elsewhere, nothing if `quiet`."""
    return 0 if quiet else 1 if sys.stdout.isatty() else 2

"""A progress bar with time left: Keras's own."""

import contextlib

import keras


@contextlib.contextmanager
def progress_bar(title, total):
    """Gives a function that takes how much of `total` is done."""
    print(title)
    bar = keras.utils.Progbar(total)
    yield lambda done: bar.update(done, finalize=done == total)

"""A progress bar with time left: Keras's own."""

import keras


def progress_bar(title, total):
    """Prints the title, and returns a function that takes how much of `total` is done."""
    print(title)
    bar = keras.utils.Progbar(total)
    return lambda done: bar.update(done, finalize=done == total)

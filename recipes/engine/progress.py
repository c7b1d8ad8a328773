"""Reports of long work: a bar on a terminal, plain lines in a log, nothing where quiet is asked for."""

import time

import keras

from keras_headattn._terminal import duration, shows_bar

_INTERVAL = 60  # seconds between two lines in a log


def progress_bar(title, total, quiet=False):
    """Prints a title; returns a function that reports how many of `total` parts are done, with the time left.

    On a terminal that is a bar, elsewhere a line a minute; with `quiet` nothing is printed.

    >>> progress = progress_bar("Translating", 300)
    Translating
    >>> progress(300)
    Translating: 300 in 0 s
    """
    if quiet:
        return lambda done: None
    print(title, flush=True)
    if not shows_bar():
        return _Lines(title, total)

    bar = keras.utils.Progbar(total)
    return lambda done: bar.update(done, finalize=done == total)


class _Lines:
    """Prints a line now and then, and at the end."""

    def __init__(self, title, total):
        self.title, self.total = title, total
        self.begin = self.printed = time.monotonic()

    def __call__(self, done):
        now = time.monotonic()
        if done >= self.total:
            print(f"{self.title}: {done:,} in {duration(now - self.begin)}", flush=True)
        elif done and now - self.printed >= _INTERVAL:
            left = duration((now - self.begin) / done * (self.total - done))
            print(f"{self.title}: {done:,} of {self.total:,}, about {left} left", flush=True)
            self.printed = now

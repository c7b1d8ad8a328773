"""Imports TensorFlow, or says how to install it, before modules that need it on every backend."""

import contextlib
import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from keras_headattn._optional import optional_import

tensorflow = optional_import("tensorflow")


def untuned(dataset: Any) -> Any:
    """Returns the `tf.data.Dataset` without tuning, which starts a thread for each iterator.

    On a busy machine that thread may miss that it is cancelled, and whoever deletes the iterator waits for it for up to
    a minute (TensorFlow 2.21).
    """
    options = tensorflow.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def generated(generator: Callable[[], Iterable], signature: Any) -> Any:
    """Returns a `tf.data.Dataset` from a generator, without what that does to glibc (TensorFlow 2.21).

    Once the first of a process is iterated over, glibc returns every freed buffer of 128 KiB or more to the system, and
    a CPU may spend more time on mapping them anew than on training.
    """

    def generate():
        keep_freed_buffers()
        yield from generator()

    return tensorflow.data.Dataset.from_generator(generate, output_signature=signature)


def keep_freed_buffers() -> None:
    """Undoes what the data set of a generator does to glibc, which by itself comes to keep buffers of up to 32 MiB."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other C libraries
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 2**25)  # M_MMAP_THRESHOLD
        mallopt(-1, 2**26)  # M_TRIM_THRESHOLD


def lower(strings: Any) -> Any:
    """Lower-cases strings alike in all locales, in some of which TensorFlow makes other letters of these."""
    for capital in "IİJĮÌÍĨ":
        strings = tensorflow.strings.regex_replace(strings, capital, capital.lower())
    return tensorflow.strings.lower(strings, encoding="utf-8")

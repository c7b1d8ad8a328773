"""Imports TensorFlow, or says how to install it, before modules that need it on every backend."""

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


def lower(strings: Any) -> Any:
    """Lower-cases strings alike in all locales, in some of which TensorFlow makes other letters of these."""
    for capital in "IİJĮÌÍĨ":
        strings = tensorflow.strings.regex_replace(strings, capital, capital.lower())
    return tensorflow.strings.lower(strings, encoding="utf-8")

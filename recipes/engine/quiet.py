"""TensorFlow without its start-up messages, and commands that print only results."""

import contextlib
import io
import os
import sys
import tempfile


def silence(quiet):
    """Context that hides what is printed, if `quiet`."""
    return contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext()


@contextlib.contextmanager
def held_back():
    """Holds back what is written to the console's standard error, below Python too; if the block fails, it is written.

    TensorFlow's libraries write to file descriptor 2 while they load and look for devices; no logging setting stops all
    of it.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            held.seek(0)
            os.write(terminal, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)


def quiet_tensorflow(xla_cache=None):
    """Imports TensorFlow and Keras and lets them look for devices, with nothing written to the console.

    Later messages are hidden too, unless the environment sets TF_CPP_MIN_LOG_LEVEL: oneDNN calls it an error where it
    leaves an operation to TensorFlow, as with integers and the masks of LSTMs. Real failures are exceptions in Python
    anyway.

    `xla_cache` is the folder where XLA keeps compiled programs, which must be known before the devices.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with held_back():
        import keras  # noqa: F401
        import tensorflow as tf

        if xla_cache:
            from keras_headattn.training import cache_compilations

            cache_compilations(xla_cache)
        tf.config.list_physical_devices()

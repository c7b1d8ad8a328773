"""Imports TensorFlow without its start-up messages."""

import os
import sys
import tempfile


def quiet_tensorflow():
    """Imports TensorFlow and Keras and lets them look for devices, with nothing written to the console.

    TensorFlow's libraries write to file descriptor 2 while they load and look for devices; no logging setting
    stops all of it. If the import fails, what was held back is written after all. Later warnings and errors
    are shown, if the environment's TF_CPP_MIN_LOG_LEVEL does not hide them.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
            import keras  # noqa: F401
        except BaseException:
            sys.stderr.flush()
            held.seek(0)
            os.write(terminal, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)

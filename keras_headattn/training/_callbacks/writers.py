"""Event writers shared by callbacks."""

import weakref

import tensorflow as tf

_WRITERS = weakref.WeakValueDictionary()  # by folder, as long as a callback holds them


def shared_writer(log_dir):
    """Returns a folder's event writer: TensorBoard without its fast data server follows one file in a folder."""
    writer = _WRITERS.get(str(log_dir))
    if writer is None:
        writer = _WRITERS[str(log_dir)] = tf.summary.create_file_writer(str(log_dir))
    return writer

"""One file of events for all callbacks that write into a folder."""

import weakref

import tensorflow as tf

_WRITERS = weakref.WeakValueDictionary()  # by folder, as long as a callback holds them


def shared_writer(log_dir):
    """Returns the writer of a folder's events, which all callbacks share that hold it at one time.

    TensorBoard without its fast data server (`--load_fast=false`) follows only the newest of several files in a folder.
    """
    writer = _WRITERS.get(str(log_dir))
    if writer is None:
        writer = _WRITERS[str(log_dir)] = tf.summary.create_file_writer(str(log_dir))
    return writer

"""Norms of the weights of each head, as histograms."""

import collections

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.optimizers._heads import head_kernels


class HeadNorms(keras.callbacks.Callback):
    """Writes histograms of the norms of the heads' weights to TensorBoard, by layer and projection.

    After each epoch there is one histogram for the query, key, value and output kernel of every attention layer
    in the model, of this library or Keras's own: the Frobenius norm of each head's part. A head that fades away shows
    as a peak that moves to zero.

    Args:
        log_dir: Folder of the event files, as for `keras.callbacks.TensorBoard`.

    Example:

    >>> norms = HeadNorms("logs")
    """

    def __init__(self, log_dir):
        super().__init__()
        self.log_dir = log_dir

    def on_train_begin(self, logs=None):
        self._writer = tf.summary.create_file_writer(str(self.log_dir))

    def on_epoch_end(self, epoch, logs=None):
        with self._writer.as_default():
            for name, norms in head_norms(self.model).items():
                tf.summary.histogram(f"head_norms/{name}", norms, step=epoch)
        self._writer.flush()

    def on_train_end(self, logs=None):
        self._writer.close()


def head_norms(model):
    """The norm of each head's part of every attention kernel.

    Args:
        model: A built Keras model.

    Returns:
        Dictionary of the path of a projection, such as `"multi_head_attention/query"`, to an array (num_heads,).
        Of equal paths the second one ends in `_1`, and so on.

    Example:

    >>> inputs = keras.Input((None, 8))
    >>> model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4, name="attention")(inputs, inputs))
    >>> {name: norms.shape for name, norms in head_norms(model).items()}["attention/query"]
    (2,)
    """
    norms, times = {}, collections.Counter()
    for found in head_kernels(model.weights):
        path = f"{found.layer}/{found.projection}"
        name = f"{path}_{times[path]}" if times[path] else path
        times[path] += 1
        kernel = np.moveaxis(keras.ops.convert_to_numpy(found.variable).astype("float32"), found.axis, 0)
        norms[name] = np.sqrt(np.sum(kernel.reshape(len(kernel), -1) ** 2, axis=1))
    return norms

"""Embeddings for TensorBoard's projector."""

import pathlib

import keras
import tensorflow as tf
from tensorboard.plugins import projector

from keras_headattn.files import write_atomically


def write_projector(log_dir, embeddings):
    """Writes embeddings and the names of their rows, for TensorBoard's projector.

    The projector lists the folder given to `tensorboard --logdir`, and folders in it that hold event files too.

    Args:
        log_dir: Folder, made if absent. What an earlier call wrote is replaced.
        embeddings: Dictionary of a name to `(matrix, labels)`: array (rows, width) and a list of a label for each
            row. Tabs, line ends and other characters that do not print are written as in Python source.

    Raises:
        ValueError: if there are not as many labels as rows.

    Example:

    >>> import numpy as np, tempfile
    >>> write_projector(tempfile.mkdtemp(), {"tokens": (np.eye(2), ["<pad>", "house"])})
    """
    folder = pathlib.Path(log_dir)
    config = projector.ProjectorConfig()
    variables = {}
    for name, (matrix, labels) in embeddings.items():
        matrix = keras.ops.convert_to_numpy(matrix).astype("float32")
        if len(labels) != len(matrix):
            raise ValueError(
                f"Every row needs a label. Received: {len(labels)} labels for {len(matrix)} rows of {name}"
            )
        variables[name] = tf.Variable(matrix)
        lines = "".join(f"{_escape(label)}\n" for label in labels)
        write_atomically(folder / f"{name}.tsv", lines.encode("utf-8"))
        config.embeddings.add(tensor_name=f"{name}/.ATTRIBUTES/VARIABLE_VALUE", metadata_path=f"{name}.tsv")
    # `save`, not `write`: the projector looks for the newest checkpoint of the folder.
    tf.train.Checkpoint(**variables).save(str(folder / "embeddings"))
    projector.visualize_embeddings(str(folder), config)


def _escape(label):
    # The projector drops lines that are blank, and the labels after them would move up.
    text = "".join(character if character.isprintable() else repr(character)[1:-1] for character in label)
    return text if text.strip() else repr(text)

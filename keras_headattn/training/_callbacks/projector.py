"""Embeddings for TensorBoard's projector."""

import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import ArrayLike
from tensorboard.plugins import projector

from keras_headattn._files import Path, write_atomically


def write_projector(log_dir: Path, embeddings: Mapping[str, tuple[ArrayLike, Any]]) -> None:
    """Writes embeddings and labels for TensorBoard's projector.

    Args:
        log_dir: folder, created if missing. Earlier files are replaced.
        embeddings: dictionary from name to `(matrix, labels)`: an array `(rows, width)` and a label for each row, or a
            dictionary of such lists to colour by. Characters that do not print are escaped.

    Raises:
        ValueError: if the numbers of labels and rows differ.

    >>> import tempfile
    >>> write_projector(tempfile.mkdtemp(), {"tokens": (np.eye(2), ["<pad>", "house"])})
    """
    folder = pathlib.Path(log_dir)
    config = projector.ProjectorConfig()
    variables = {}
    for name, (matrix, labels) in embeddings.items():
        matrix = keras.ops.convert_to_numpy(matrix).astype("float32")
        columns = labels if isinstance(labels, dict) else {"": labels}
        for column in columns.values():
            if len(column) != len(matrix):
                raise ValueError(
                    f"`embeddings` must have a label for each row. "
                    f"Received: {len(column)} labels for {len(matrix)} rows of {name}"
                )
        variables[name] = tf.Variable(matrix)
        rows = list(zip(*columns.values(), strict=True))
        if len(columns) > 1:  # the projector then reads a header
            rows.insert(0, tuple(columns))
        lines = "".join("\t".join(_escape(str(label)) for label in row) + "\n" for row in rows)
        write_atomically(folder / f"{name}.tsv", lines.encode("utf-8"))
        tensor = name.replace(".", "..").replace("/", ".S")  # as in TensorFlow's checkpoints
        config.embeddings.add(tensor_name=f"{tensor}/.ATTRIBUTES/VARIABLE_VALUE", metadata_path=f"{name}.tsv")
    # `save`, not `write`: the projector looks for the newest checkpoint of the folder.
    tf.train.Checkpoint(**variables).save(str(folder / "embeddings"))
    projector.visualize_embeddings(str(folder), config)


def _escape(label):
    # The projector drops blank lines, so later labels would shift.
    text = "".join(character if character.isprintable() else repr(character)[1:-1] for character in label)
    return text if text.strip() else repr(text)

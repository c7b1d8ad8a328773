"""Texts of graphs by a SavedModel, without its run."""

import contextlib
import pathlib
import re

import tensorflow as tf

from recipes.graphs.corpus import graph_tensors
from recipes.graphs.graph_to_text import Description


class SavedGraphToText:
    """SavedModel of `export_graph_to_text`: list of `Graph` in, list of `Description` without tokens out.

    `batch_size` is the number of graphs at a time. A graph that the model refuses is a `ValueError`.
    """

    def __init__(self, path, batch_size=32):
        self._model = load_saved_model(path)
        self._call = self._model.signatures["serving_default"]
        self._specs, self.batch_size = self._call.structured_input_signature[1], batch_size
        if self._specs.keys() != graph_tensors([]).keys():
            raise ValueError(
                f"The SavedModel must take graphs. Received: {path}, which takes {', '.join(sorted(self._specs))}"
            )

    def __call__(self, graphs):
        descriptions = []
        for start in range(0, len(graphs), self.batch_size):
            tensors = graph_tensors(graphs[start : start + self.batch_size])
            try:
                outputs = self._call(
                    **{name: tf.constant(tensors[name], spec.dtype) for name, spec in self._specs.items()}
                )
            except tf.errors.InvalidArgumentError as error:
                asserted = re.search(r"assertion failed: \[(.*?)\]$", error.message, re.MULTILINE)
                raise ValueError(asserted[1] if asserted else error.message.partition("\n")[0]) from error
            pairs = zip(outputs["texts"].numpy(), outputs["scores"].numpy(), strict=True)
            descriptions += [Description(text.decode("utf-8"), float(score), ()) for text, score in pairs]
        return descriptions


def saved_model_in(folder):
    """Returns the path of the SavedModel in a folder: itself, or its latest version; `None` without one."""
    folder = pathlib.Path(folder)
    versions = [path for path in folder.glob("*/saved_model.pb") if path.parent.name.isdecimal()]
    if (folder / "config.json").exists():  # a run
        return None
    if (folder / "saved_model.pb").is_file():
        return folder
    return max((path.parent for path in versions), key=lambda path: int(path.name), default=None)


def load_saved_model(path):
    """Loads a SavedModel. Keep it: its signatures do not keep it alive."""
    with contextlib.suppress(ImportError):
        import tensorflow_text  # noqa: F401  (operations that it may need)
    try:
        return tf.saved_model.load(str(path))
    except (OSError, tf.errors.OpError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"The SavedModel cannot be loaded: {reason}. Received: {path}") from error

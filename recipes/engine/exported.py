"""SavedModels by themselves, without the run that wrote them."""

import contextlib
import functools
import pathlib

import numpy as np
import tensorflow as tf


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


class SavedModel:
    """SavedModel of texts, called by its signature `serving_default`, `batch_size` texts at a time.

    Attributes:
        inputs, outputs: sets of str, their names.
    """

    def __init__(self, path, batch_size=64):
        self._model = load_saved_model(path)
        self._call = self._model.signatures["serving_default"]
        specs = self._call.structured_input_signature[1]
        self.path, self.batch_size = pathlib.Path(path), batch_size
        self.inputs, self.outputs = set(specs), set(self._call.structured_outputs)
        if any(spec.dtype != tf.string for spec in specs.values()) or "text" not in specs:
            raise ValueError(
                f"The SavedModel must take texts. Received: {path}, which takes {', '.join(sorted(specs))}"
            )
        self._constant = functools.partial(tf.constant, dtype=tf.string)

    def __call__(self, texts, second_texts=None, progress=None):
        """Returns the outputs for texts, or pairs of them: dictionary of name to array."""
        sides = {"text": texts} | ({} if second_texts is None else {"second_text": second_texts})
        if set(sides) != self.inputs:
            raise ValueError(
                f"The SavedModel takes {' and '.join(sorted(self.inputs))}. Received: {' and '.join(sides)}"
            )
        order, found = sorted(range(len(texts)), key=lambda place: len(texts[place])), []
        for start in range(0, len(order), self.batch_size):
            members = order[start : start + self.batch_size]
            rows = {name: self._constant([side[place] for place in members]) for name, side in sides.items()}
            found.append({name: values.numpy() for name, values in self._call(**rows).items()})
            if progress:
                progress(start + len(members))
        places = np.argsort(order)
        return {name: np.concatenate([part[name] for part in found])[places] for name in self.outputs}

"""Predictions of a SavedModel of texts."""

import numpy as np

from keras_headattn.data._labelled_text import LabelledText
from recipes.engine.exported import SavedModel


class ExportedPredictor:
    """SavedModel as `evaluate` takes a `Predictor`; `predicts` is "class", "labels" or "number"."""

    def __init__(self, path, predicts):
        self.model, self.predicts, self.names = SavedModel(path), predicts, ()
        gives = "number" if "values" in self.model.outputs else "class"
        if not self.model.outputs & {"values", "classes"}:
            raise ValueError(f"The SavedModel must give classes or numbers. Received: {path}")
        if (gives == "number") != (predicts == "number"):
            raise ValueError(f"The SavedModel gives a {gives}. Received: predict={predicts!r}")

    def targets(self, tests, learn):
        """Returns the predictions, as of `recipes.engine.texts.targets`.

        `learn` makes them of a corpus with all labels, and of True if labels are written, as by T5.
        """
        corpus, writes = next(iter(tests.values())), False
        if self.predicts != "number":
            second = None if corpus.second_texts is None else corpus.second_texts[:1]
            found = self.model(corpus.texts[:1], second)
            names = sorted({name.decode("utf-8") for name in found["classes"][0]})
            writes = len(names) == 1
            if not writes:
                corpus = LabelledText(names, names, str(self.model.path))
                total = float(found["scores"][0].sum())
                if self.predicts == "class" and abs(total - 1) > 1e-3:
                    raise ValueError(
                        "The SavedModel gives any of several labels: --predict labels. Received: predict='class'"
                    )
        targets = learn(corpus, writes)
        self.names = list(targets.names)
        return targets

    def __call__(self, texts, second_texts=None, progress=None):
        found = self.model(texts, second_texts, progress)
        if "values" in found:
            return found["values"][:, None]
        number_of = {name.encode("utf-8"): number for number, name in enumerate(self.names)}
        if found["classes"].shape[1] == 1:  # written by T5; the last name stands for any other text
            last = len(self.names) - 1
            return np.eye(last + 1, dtype="float32")[[number_of.get(name, last) for name in found["classes"][:, 0]]]
        if unknown := set(found["classes"][0]) ^ set(number_of):
            names = ", ".join(sorted(name.decode("utf-8") for name in unknown))
            raise ValueError(f"--labels must name the classes of the SavedModel. Received: {names} in one of the two")
        columns = np.vectorize(number_of.get)(found["classes"])
        predicted = np.zeros_like(found["scores"])
        np.put_along_axis(predicted, columns, found["scores"], axis=1)
        return predicted

    def measures(self, texts, second_texts=None):
        """Measures besides those of the predictions: none."""
        return {}

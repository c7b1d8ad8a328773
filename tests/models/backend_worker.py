"""Translates and trains on the backend of this process: python -m tests.models.backend_worker MODELS OUTPUTS.npz"""

import pathlib
import sys

import keras
import numpy as np

from keras_headattn.decoding import Searcher
from keras_headattn.losses import LabelSmoothedCrossentropy
from tests.models.small import sentences


def results(model):
    """Name to array: logits, translations, and the loss and the logits of a step of training."""
    inputs = sentences()
    out = {"logits": model.predict(inputs, verbose=0)}
    for beam_size in (1, 3):
        searcher = Searcher(model, beam_size=beam_size, max_length=6)
        found = searcher.predict(inputs["source"], verbose=0)
        out |= {f"{name}_{beam_size}": value for name, value in found.items()}
    model.compile(keras.optimizers.SGD(0.5), LabelSmoothedCrossentropy(0.1))
    out["loss"] = np.array(model.train_on_batch(inputs, inputs["target"]))
    return out | {"trained": model.predict(inputs, verbose=0)}


def everything(folder):
    """Results `name/result` of all models of a folder."""
    paths = sorted(pathlib.Path(folder).glob("*.keras"))
    found = {path.stem: results(keras.saving.load_model(path)) for path in paths}
    return {f"{name}/{key}": value for name, out in found.items() for key, value in out.items()}


if __name__ == "__main__":
    np.savez(sys.argv[2], backend=keras.backend.backend(), **everything(sys.argv[1]))

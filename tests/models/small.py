"""Tiny Transformers with every attention layer, and token ids for them."""

import functools

import keras
import numpy as np

from keras_headattn.models import Transformer
from tests.layers.harness import CASES, array, check_close, each_kind, each_path, randomize

__all__ = [
    "CASES",
    "array",
    "check_close",
    "copy_weights",
    "dropout_layers",
    "each_kind",
    "each_path",
    "make",
    "more_padding",
    "randomize",
    "sentences",
    "shared",
]

SOURCE_VOCABULARY, TARGET_VOCABULARY, WIDTH = 11, 13, 12


def make(case=CASES[0], weights_seed=1, **arguments):
    """A built model, all of whose weights are seeded random numbers."""
    arguments = {
        "source_vocabulary_size": SOURCE_VOCABULARY,
        "target_vocabulary_size": TARGET_VOCABULARY,
        "num_layers": 1,
        "hidden_dim": WIDTH,
        "intermediate_dim": 10,
        "attention": case.make(),
        **arguments,
    }
    model = Transformer(**arguments)
    model.build()
    return randomize(model, weights_seed)


@functools.cache
def shared(name=CASES[0].name):
    """The model of `make` with the attention of this name, for all tests that only read it."""
    return make(next(case for case in CASES if case.name == name))


def sentences(seed=0, batch=2, source=5, target=6):
    """Token ids of both vocabularies. Row 0 ends with two padding tokens in its source, one in its target."""
    rng = np.random.default_rng(seed)
    inputs = {
        "source": rng.integers(1, SOURCE_VOCABULARY, (batch, source)).astype("int32"),
        "target": rng.integers(1, SOURCE_VOCABULARY, (batch, target)).astype("int32"),
    }
    inputs["source"][0, -2:] = 0
    inputs["target"][0, -1:] = 0
    return inputs


def more_padding(inputs, source=0, target=0):
    """The same sentences with this many more padding tokens."""
    return {name: np.pad(inputs[name], ((0, 0), (0, more))) for name, more in (("source", source), ("target", target))}


def copy_weights(model, other):
    """Gives `other` the weights of `model`, and returns it."""
    for mine, theirs in zip(model.trainable_variables, other.trainable_variables, strict=True):
        theirs.assign(mine)
    return other


def dropout_layers(model):
    """Those with a seed: not the templates'."""
    found = (layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Dropout))
    return [layer for layer in found if layer.seed is not None]
